"""What every scenario shares: one private engine per test file, `hutch` as a person would type it, and a census of
everything that could be left behind, taken before the first test and after the last."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HUTCH = os.environ.get("HUTCH", os.path.join(ROOT, "build/bin/hutch"))
DATA = os.environ.get("HUTCH_DATA_DIR", os.path.join(ROOT, "build/data"))
MUST_RUN = bool(os.environ.get("HUTCH_TESTS_MUST_RUN"))
OWN_FAILURE = 125
GRACE = 0.2  # what a run that is out of time may take to be gone
START = 2.0  # what a busy machine may add before and after a run: processes, engine, scheduling

PR_SET_CHILD_SUBREAPER = 36


def missing(what: str) -> None:
    """A skip names the one thing that the host lacks; where everything must run it is a failure."""
    if MUST_RUN:
        raise AssertionError("must run here, but: " + what)
    raise unittest.SkipTest(what)


def become_subreaper() -> None:
    """Whatever a test leaves behind, however detached, becomes a child of this process and is counted."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


@dataclasses.dataclass
class Done:
    """One finished command."""

    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def errors(self) -> str:
        return self.err.decode("utf-8", "replace")

    @property
    def record(self) -> dict:
        return json.loads(self.out)


class Home:
    """A private engine: its own runtime directory, configuration and, as root, its own place for control groups."""

    def __init__(self, template: str = "bare", own_cgroup: bool = True) -> None:
        self.directory = tempfile.mkdtemp(prefix="hutch-scenario-")
        self.runtime = os.path.join(self.directory, "run")
        os.mkdir(self.runtime, 0o700)
        self.cgroup = os.path.basename(self.directory) if own_cgroup and os.geteuid() == 0 else ""
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": self.directory,
            "LANG": "C.UTF-8",
            "HUTCH_DATA_DIR": DATA,
            "HUTCH_RUNTIME_DIR": self.runtime,
            "HUTCH_TEMPLATE": template,
            "HUTCH_ENGINE_POOL_MAX": "1",  # a pool that grows with demand would make no two counts alike
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        if self.cgroup:
            self.environment["HUTCH_CGROUP"] = self.cgroup
        self.hutch = HUTCH
        self.prefix: list[str] = []  # a command that runs hutch as somebody else
        self.engines: set[int] = set()  # every engine that was seen

    def start(self, *arguments: str, env: dict | None = None, **more) -> subprocess.Popen:
        return subprocess.Popen([*self.prefix, self.hutch, *arguments], env={**self.environment, **(env or {})}, **more)

    def call(self, *arguments: str, stdin: bytes | int | None = None, env: dict | None = None,
             within: float = 60) -> Done:
        begin = time.monotonic()
        data = stdin if isinstance(stdin, bytes) else None
        source = subprocess.PIPE if data is not None else subprocess.DEVNULL if stdin is None else stdin
        with self.start(*arguments, env=env, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(data, timeout=within)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise AssertionError("hutch did not come back: " + " ".join(arguments)[:200]) from None
        return Done(process.returncode, out, err, time.monotonic() - begin)

    def run(self, code: str, *options: str, **more) -> Done:
        """hutch run OPTIONS -c CODE"""
        return self.call("run", *options, "-c", code, **more)

    def record(self, code: str, *options: str, **more) -> dict:
        """The record of a run that Hutch itself did not fail."""
        done = self.run(code, "--json", *options, **more)
        try:
            record = done.record
        except ValueError:
            raise AssertionError("no record: %r %s" % (done.out[:500], done.errors)) from None
        if record["exit_code"] != done.code:
            raise AssertionError("exit code %d, but the record says %d" % (done.code, record["exit_code"]))
        return record

    def status(self) -> dict:
        status = self.call("engine", "status", "--json").record
        if status["running"]:
            self.engines.add(status["pid"])
        return status

    def stop(self) -> None:
        self.status()
        self.call("engine", "stop")

    @contextlib.contextmanager
    def folder(self):
        path = tempfile.mkdtemp(dir=self.directory)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        for place in glob.glob("/sys/fs/cgroup/*/" + self.cgroup) if self.cgroup else ():
            with contextlib.suppress(OSError):
                os.rmdir(place)


# The census


def stat_of(pid: int) -> tuple[str, str, int] | None:
    """Name, state and parent."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            text = file.read()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return name, fields[0], int(fields[1])


def all_processes() -> dict[int, tuple[str, str, int]]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (about := stat_of(int(name))):
            found[int(name)] = about
    return found


def descendants(of: int | None = None) -> dict[int, str]:
    """Every process below one of ours, by name; zombies that were left to us are reaped on the way."""
    everyone = all_processes()
    mine = {of or os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, (_, _, parent) in everyone.items() if parent in mine} - mine
        mine |= more
        grown = bool(more)
    result = {}
    for pid in mine - {of or os.getpid()}:
        name, state, parent = everyone[pid]
        if state == "Z" and parent == os.getpid():
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
            continue
        result[pid] = name
    return result


def count_descriptors(pid: int) -> int:
    return len(os.listdir("/proc/%d/fd" % pid))


def resident_bytes(pid: int) -> int:
    """Memory that is this process's own, in bytes."""
    with open("/proc/%d/smaps_rollup" % pid) as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Private_"))


def count_lines(path: str) -> int:
    with open(path, "rb") as file:
        return file.read().count(b"\n")


def process_rlimit(limit: int) -> int:
    """RLIMIT_NPROC of a runner with ids of its own that may have `limit` processes. It must not refuse before the control
    group does where nobody could tell afterwards that it did."""
    return limit if has_pids_peak() else limit + 1


@functools.cache
def has_pids_peak() -> bool:
    """Asks the kernel, with a control group that is gone again afterwards: the root of a hierarchy has no such file."""
    for place in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        if glob.glob(place + "/*/pids.peak"):
            return True
        with contextlib.suppress(OSError):
            group = tempfile.mkdtemp(prefix="hutch-probe-", dir=place)
            found = os.path.exists(group + "/pids.peak")
            os.rmdir(group)
            if found:
                return True
    return False


def groups_of(home: Home) -> list[str]:
    """Control groups of sandboxes: all in a place of our own, otherwise those of the engines that were seen."""
    if home.cgroup:
        return sorted(glob.glob("/sys/fs/cgroup/*/%s/box-*" % home.cgroup) +
                      glob.glob("/sys/fs/cgroup/%s/box-*" % home.cgroup))
    places = [place for pattern in ("hutch", "hutch-*", "*", "*/hutch", "*/hutch-*")
              for place in glob.glob("/sys/fs/cgroup/%s/box-*" % pattern)]
    return sorted(place for place in places if int(os.path.basename(place).split("-")[2]) in home.engines)


def groups_of_process(pid: int | str) -> dict[str, str]:
    """Its control group by controller; "unified" stands for version 2."""
    with open("/proc/%s/cgroup" % pid) as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    return {name: path for _, controllers, path in lines for name in (controllers or "unified").split(",")}


def take_census(home: Home) -> dict:
    """Everything that a stopped engine must have given back."""
    return {
        "processes": sorted(descendants().values()),
        "mounts": count_lines("/proc/self/mountinfo"),
        "control groups": groups_of(home),
        "network namespaces": sorted({link for pid in descendants() if (link := network_of(pid))}),
        "own descriptors": count_descriptors(os.getpid()),
        "shared memory": sorted(os.listdir("/dev/shm")),
        "runtime directory": sorted(set(os.listdir(home.runtime)) - {"engine.lock", "engine.log"}),
    }


def network_of(pid: int) -> str:
    try:
        return os.readlink("/proc/%d/ns/net" % pid)
    except OSError:
        return ""


def settle(check, seconds: float = 5.0):
    """The first true answer, or the last one."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.02)


def differences(before: dict, after: dict) -> str:
    return "; ".join("%s: %s before, %s after" % (key, before[key], after[key]) for key in before
                     if before[key] != after[key])


def idle_counts(home: Home) -> dict[str, int]:
    """Descriptors, mounts and children of an engine and its keeper, once nothing is going on."""
    engine = home.status()["pid"]
    keeper = min(pid for pid, name in descendants(engine).items() if name == "hutch-keeper")  # its clones are younger

    def count() -> dict[str, int]:
        family = descendants(engine)
        return {
            "engine descriptors": count_descriptors(engine),
            "keeper descriptors": count_descriptors(keeper),
            "keeper mounts": count_lines("/proc/%d/mountinfo" % keeper),
            "processes": len(family),
            "control groups": len(groups_of(home)),
        }

    last = count()
    since = time.monotonic()
    while time.monotonic() - since < 0.4:  # spare shells are made again in the background
        time.sleep(0.05)
        now = count()
        if now != last:
            last, since = now, time.monotonic()
    return last


home: Home
_before: dict


def begin(template: str = "bare", own_cgroup: bool = True) -> Home:
    """For setUpModule."""
    global home, _before
    become_subreaper()
    home = Home(template, own_cgroup)
    _before = take_census(home)
    return home


def finish() -> None:
    """For tearDownModule: with the engine stopped nothing may differ."""
    home.stop()
    try:
        settle(lambda: take_census(home) == _before)
        after = take_census(home)
        if after != _before:
            raise AssertionError("left behind: " + differences(_before, after))
    finally:
        for pid in sorted(descendants(), reverse=True):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        home.close()


class Scenario(unittest.TestCase):
    """Assertions that more than one file makes."""

    maxDiff = 4000

    @property
    def home(self) -> Home:
        return home

    def check_category(self, record: dict, category: str, code: str) -> dict:
        self.assertIsNotNone(record["error"], record)
        self.assertEqual((record["error"]["category"], record["error"]["code"]), (category, code), record["error"])
        for key in ("message", "hint", "fix", "state"):
            self.assertTrue(record["error"][key], key)
        return record["error"]

    def check_limit(self, error: dict, name: str, value: int, unit: str) -> int:
        """What was used."""
        self.assertIsNotNone(error["limit"], error)
        self.assertEqual((error["limit"]["name"], error["limit"]["value"], error["limit"]["unit"]), (name, value, unit))
        return error["limit"]["used"]

    def check_refused(self, done: Done, *words: str) -> None:
        """Hutch's own failure: 125, nothing on standard output, and a message that helps."""
        self.assertEqual(done.code, OWN_FAILURE, done.errors)
        self.assertEqual(done.out, b"")
        for word in words:
            self.assertIn(word, done.errors)
        self.check_alive()

    def check_alive(self) -> None:
        self.assertEqual(home.run("print(6 * 7)").text, "42\n")


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main(verbosity=2)
