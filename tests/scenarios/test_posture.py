"""The exact posture of a fresh sandbox, compared with tables: from inside, from the host, as root, as an ordinary user
with a delegated control group, and with the weaker limits. One descriptor too many is a failure."""
from __future__ import annotations

import contextlib
import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import unittest

import support
from support import Scenario

setUpModule = lambda: support.begin(own_cgroup=False)  # noqa: E731  the place that everybody uses
tearDownModule = support.finish

SANDBOXES = 20
USER = 61236
SIZE = 64 << 20

PROBE = r"""
import json, os, resource
def read(path):
    with open(path) as file: return file.read()
status = dict(line.split(':\t', 1) for line in read('/proc/self/status').splitlines())
descriptors = {}
for name in os.listdir('/proc/self/fd'):
    try: descriptors[name] = os.readlink('/proc/self/fd/' + name).split(':')[0]
    except OSError: pass  # the one that listed them
mounts = []
for line in read('/proc/self/mountinfo').splitlines():
    before, after = line.split(' - ')
    mounts.append([before.split()[4], before.split()[5], after.split()[0], after.split()[2]])
old = os.umask(0); os.umask(old)
print(json.dumps({
    'descriptors': descriptors,
    'capabilities': [status['Cap' + kind] for kind in ('Inh', 'Prm', 'Eff', 'Bnd', 'Amb')],
    'ignored signals': status['SigIgn'], 'blocked signals': status['SigBlk'],
    'no_new_privs': status['NoNewPrivs'], 'seccomp': status['Seccomp'], 'filters': status['Seccomp_filters'],
    'threads': status['Threads'],
    'mounts': mounts,
    'rlimits': {name[7:]: resource.getrlimit(getattr(resource, name)) for name in dir(resource)
                if name.startswith('RLIMIT_') and name != 'RLIMIT_OFILE'},
    'environment': dict(os.environ),
    'cgroup': sorted({line.split(':', 2)[2] for line in read('/proc/self/cgroup').splitlines()}),
    'ids': [os.getresuid(), os.getresgid(), os.getgroups()],
    'id map': [line.split() for line in read('/proc/self/uid_map').splitlines()],
    'cwd': os.getcwd(), 'umask': old, 'pid': os.getpid(), 'ppid': os.getppid(), 'session': os.getsid(0),
    'group': os.getpgrp(), 'host': os.uname().nodename,
    'root': sorted(os.listdir('/')), 'dev': sorted(os.listdir('/dev')), 'etc': sorted(os.listdir('/etc')),
    'opt': sorted(os.listdir('/opt/hutch')), 'var': sorted(os.listdir('/var')), 'tmp': os.listdir('/tmp'),
    'workspace': os.listdir('/workspace'), 'shm': os.listdir('/dev/shm'),
    'processes': sorted(name for name in os.listdir('/proc') if name.isdigit()),
    'proc': sorted(name for name in os.listdir('/proc') if not name.isdigit()),
}))
"""

UNLIMITED = -1
HOST_ROOTS = [name for name in ("bin", "lib", "lib32", "lib64", "sbin") if os.path.lexists("/" + name)]
HOST_ETC = [name for name in ("alternatives", "fonts", "python3", "python3.10", "python3.11", "python3.12",
                              "python3.13", "python3.14") if os.path.exists("/etc/" + name)]
WRITTEN_ETC = ["group", "hostname", "hosts", "ld.so.cache", "nsswitch.conf", "passwd"]
COPIED_ETC = [name for name in ("localtime", "mime.types") if os.path.exists("/etc/" + name)]
READ_ONLY = "nodev,nosuid,ro"
OWN = "nodev,noexec,nosuid,rw"


def expected_mounts() -> dict[str, tuple[str, str]]:
    """Where, with which flags, and of which kind where it is ours."""
    mounts = {"/": (READ_ONLY, "tmpfs"), "/usr": (READ_ONLY, ""), "/opt/hutch/runner": (READ_ONLY, ""),
              "/proc": (OWN, "proc")}
    mounts.update({"/" + name: (READ_ONLY, "") for name in HOST_ROOTS if not os.path.islink("/" + name)})
    mounts.update({"/etc/" + name: (READ_ONLY, "") for name in HOST_ETC})
    mounts.update({"/dev/" + name: ("noexec,nosuid,ro", "") for name in ("null", "zero", "full", "random", "urandom")})
    mounts.update({name: (OWN, "tmpfs") for name in ("/workspace", "/tmp", "/dev/shm")})
    return mounts


EXPECTED = {
    "descriptors": {"0": "pipe", "1": "pipe", "2": "pipe", "3": "socket"},
    "capabilities": ["0" * 16] * 5,
    "ignored signals": "0000000001001000",  # SIGPIPE and SIGXFSZ, which Python itself ignores
    "blocked signals": "0" * 16,
    "no_new_privs": "1", "seccomp": "2", "filters": "2", "threads": "1",
    "mounts": expected_mounts(),
    "rlimits": {
        "AS": [UNLIMITED, UNLIMITED], "CORE": [1, 1], "CPU": [86400, 86400], "DATA": [UNLIMITED, UNLIMITED],
        "FSIZE": [SIZE, SIZE], "MEMLOCK": [65536, 65536], "MSGQUEUE": [0, 0], "NICE": [0, 0], "NOFILE": [1024, 1024],
        "NPROC": [support.process_rlimit(64)] * 2, "RSS": [UNLIMITED, UNLIMITED], "RTPRIO": [0, 0],
        "RTTIME": [UNLIMITED, UNLIMITED], "SIGPENDING": [256, 256],
    },
    "environment": {
        "HOME": "/tmp", "LANG": "C.UTF-8", "LOGNAME": "hutch", "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/tmp", "USER": "hutch",
    },
    "cgroup": ["/"],
    "ids": [[1000] * 3, [1000] * 3, []],
    "id map": [["0", "own", "1"], ["1000", "own", "1"]],
    "cwd": "/workspace", "umask": 0o022, "pid": 2, "ppid": 0, "session": 2, "group": 2, "host": "hutch",
    "root": sorted([*HOST_ROOTS, "dev", "etc", "opt", "proc", "tmp", "usr", "var", "workspace"]),
    "dev": ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"],
    "etc": sorted([*WRITTEN_ETC, *COPIED_ETC, *HOST_ETC]),
    "opt": ["runner"], "var": ["tmp"], "tmp": [], "workspace": [], "shm": [],
    "processes": ["2"],  # hidepid shows nobody else's, init's included
    "proc": ["self", "thread-self"],
}
# An ordinary user without subordinate ids has one id for init and runner.
ONE_ID = {"id map": [["1000", "1", "1"]], "processes": ["2"], "rlimits": {**EXPECTED["rlimits"], "NPROC": [65, 65]}}
COLD = {}
WEAKER = {**ONE_ID, "rlimits": {**ONE_ID["rlimits"], "AS": [(512 << 20) * 2] * 2, "CPU": [32, 32]}}


def normal(seen: dict) -> dict:
    """What differs from machine to machine or run to run, and must, is replaced by a word."""
    seen = dict(seen)
    mounts = {}
    for target, flags, kind, options in seen["mounts"]:
        kept = ",".join(sorted(flag for flag in flags.split(",") if not flag.endswith("atime")))
        mounts[target] = (kept, kind if EXPECTED["mounts"].get(target, ("", "x"))[1] else "")
        if target == "/proc":
            seen["proc options"] = options
        if target == "/tmp":
            seen["scratch options"] = sorted(option for option in options.split(",") if "id=" not in option)
    seen["mounts"] = mounts
    seen["rlimits"] = {name: value for name, value in seen["rlimits"].items() if name != "STACK"}
    seen["id map"] = [[inside, "own" if int(outside) > 100_000 else outside, count]
                      for inside, outside, count in seen["id map"]]
    return seen


OPTIONS = {"proc options": "rw,hidepid=invisible,subset=pid",
           "scratch options": sorted(["rw", "size=65536k", "nr_inodes=16384", "mode=755"])}


class Inside(Scenario):
    expected: dict = {}
    options: tuple = ()
    template_home: support.Home | None = None

    def probe(self, *options: str) -> dict:
        home = self.template_home or self.home
        done = home.run(PROBE, *options, *self.options)
        self.assertEqual((done.code, done.errors if "weaker" not in done.errors else ""), (0, ""))
        return normal(json.loads(done.out))

    def compare(self, seen: dict, expected: dict) -> None:
        wanted = {**EXPECTED, **OPTIONS, **expected}
        self.assertEqual(set(seen), set(wanted))
        for key, value in wanted.items():
            self.assertEqual(seen[key], value, key)


class AsRoot(Inside):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            support.missing("root: this user cannot have host ids of its own")

    def test_twenty_warm_sandboxes(self):
        for _ in range(SANDBOXES):
            self.compare(self.probe(), {})

    def test_a_few_cold_ones(self):
        for _ in range(3):
            self.compare(self.probe("--no-engine"), COLD)

    def test_every_limit_arrives(self):
        seen = self.probe("--cpu-time", "7", "--open-files", "99", "--processes", "9", "--scratch", "8M",
                          "--inodes", "500", "--memory", "99M")
        limits = {**EXPECTED["rlimits"], "NOFILE": [99, 99], "NPROC": [support.process_rlimit(9)] * 2,
                  "FSIZE": [8 << 20, 8 << 20]}
        self.compare(seen, {"rlimits": limits, "scratch options": sorted(["rw", "size=8192k", "nr_inodes=500",
                                                                          "mode=755"])})


NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


class Outside(Scenario):
    """What the host's own kernel says about running sandboxes."""

    @contextlib.contextmanager
    def running(self, home: support.Home, mark: str, *options: str, first: str = ""):
        code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'%s', 0, 0, 0); print(1, flush=True); time.sleep(30)"
        with home.start("run", *options, "-c", first + code % mark, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL) as process:
            try:
                self.assertEqual(process.stdout.readline(), b"1\n")
                yield next(pid for pid, (name, _, _) in support.all_processes().items() if name == mark)
            finally:
                process.terminate()
                process.communicate()

    def status(self, pid: int) -> dict[str, str]:
        with open("/proc/%d/status" % pid) as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file)

    def namespaces(self, pid: int | str) -> dict[str, str]:
        return {name: os.readlink("/proc/%s/ns/%s" % (pid, name)) for name in NAMESPACES}

    def init_of(self, pid: int) -> int:
        space = os.readlink("/proc/%d/ns/pid" % pid)
        for other, (name, _, _) in support.all_processes().items():
            with contextlib.suppress(OSError):
                if other != pid and name == "hutch-init" and os.readlink("/proc/%d/ns/pid" % other) == space:
                    return other
        raise AssertionError("the sandbox has no init")

    def test_as_root(self):
        if os.geteuid() != 0:
            support.missing("root: the host's view of another user's processes needs it")
        with self.running(self.home, "posture-one", "--memory", "100M", "--cpu", "50", "--processes", "7") as one, \
                self.running(self.home, "posture-two") as two:
            for pid in (one, two, self.init_of(one)):
                status = self.status(pid)
                for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                    self.assertEqual(status[kind], "0" * 16, (pid, kind))
                self.assertEqual(status["NoNewPrivs"], "1")
                self.assertEqual(len(set(status["Uid"].split())), 1)
                self.assertGreaterEqual(int(status["Uid"].split()[0]), 1_900_000_000)
                self.assertEqual(status["Groups"].strip(), "")
            self.assertEqual((self.status(one)["Seccomp"], self.status(one)["Seccomp_filters"]), ("2", "2"))
            ids = {self.status(pid)["Uid"].split()[0] for pid in (one, two, self.init_of(one), self.init_of(two))}
            self.assertEqual(len(ids), 4, "every init and every runner has an id of its own")
            host, first, second = self.namespaces("self"), self.namespaces(one), self.namespaces(two)
            for name in NAMESPACES:
                self.assertEqual(len({host[name], first[name], second[name]}), 3, name)
            self.assertEqual(self.namespaces(self.init_of(one)), first)
            self.check_groups(one)

    def test_a_fork_too_many_is_refused_before_it_costs_anything(self):
        """The control group would refuse it only after a whole address space was copied, and with locks that all need."""
        if os.geteuid() != 0:
            support.missing("root: the host's view of another user's processes needs it")
        if support.process_rlimit(7) != 7:
            support.missing("pids.peak in this kernel: without it the control group goes first")
        forks = "import os, time\nfor i in range(99):\n try:\n  if os.fork() == 0: time.sleep(30)\n except OSError: pass\n"
        with self.running(self.home, "posture-forks", "--processes", "7", first=forks) as pid:
            groups = support.groups_of_process(pid)
            place = "pids" + groups["pids"] if "pids" in groups else groups["unified"].lstrip("/")
            for name, wanted in (("pids.current", "8"), ("pids.events", "max 0")):
                with open("/sys/fs/cgroup/%s/%s" % (place, name)) as file:
                    self.assertEqual(file.readline().strip(), wanted, name)

    def check_groups(self, pid: int) -> None:
        groups = support.groups_of_process(pid)
        if "memory" not in groups:
            base = "/sys/fs/cgroup" + groups["unified"]
            files = {"memory.max": str(100 << 20), "cpu.max": "50000 100000", "pids.max": "8"}
        else:
            base = ""
            files = {"memory/memory.limit_in_bytes": str(100 << 20), "pids/pids.max": "8",
                     "cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000", "memory/memory.swappiness": "0"}
            for name in ("memory", "pids"):
                self.assertRegex(groups[name], "^/hutch/box-")
            own = support.groups_of_process("self")
            for name in ("cpu", "cpuacct"):  # beside the engine
                self.assertRegex(groups[name], "^%s/box-" % own[name].rstrip("/"))
            self.assertEqual(len({os.path.basename(groups[name]) for name in ("memory", "cpu", "cpuacct", "pids")}), 1)
            self.assertEqual(support.groups_of_process(self.init_of(pid))["memory"], groups["memory"])
        for file, value in files.items():
            controller, _, name = file.rpartition("/")
            path = "%s/%s" % (base, name) if base else "/sys/fs/cgroup/%s%s/%s" % (controller, groups[controller], name)
            with open(path) as opened:
                self.assertEqual(opened.read().strip(), value, path)

    def test_nothing_of_the_host_is_mapped_or_open(self):
        if os.geteuid() != 0:
            support.missing("root: the host's view of another user's processes needs it")
        with self.running(self.home, "posture-fds") as pid:
            opened = {fd: os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)}
            self.assertEqual({fd: link.split(":")[0] for fd, link in opened.items()}, EXPECTED["descriptors"])
            with open("/proc/%d/maps" % pid) as file:
                mapped = [line.split(maxsplit=5) for line in file if "/" in line]
            self.assertEqual([line for line in mapped if line[1][1] == "w" and line[1][3] == "s"], [])
            known = ("/usr/", "/opt/hutch/", "/lib", "/memfd:hutch-heap", "/memfd:hutch-rest")
            self.assertEqual({line[5] for line in mapped if not line[5].startswith(known)}, set())
            self.assertEqual(os.listdir("/proc/%d/fd" % self.init_of(pid)), [])
            if platform.machine() == "x86_64":  # and no copy of its keeper's memory
                with open("/proc/%d/smaps_rollup" % self.init_of(pid)) as file:
                    memory = dict(line.split(":") for line in file.readlines()[1:])
                self.assertLessEqual(int(memory["Anonymous"].split()[0]), 16)  # KiB


def ordinary_home() -> support.Home:
    """An ordinary user with nothing: a binary and a data directory that it can reach, a runtime directory of its own."""
    home = support.Home(own_cgroup=False)
    os.chmod(home.directory, 0o755)
    home.hutch = shutil.copy2(support.HUTCH, home.directory)
    os.chmod(home.hutch, 0o755)
    os.mkdir(home.directory + "/data", 0o755)
    for path in (home.directory + "/data", home.runtime):
        os.chown(path, USER, USER)
    home.environment["HUTCH_DATA_DIR"] = home.directory + "/data"
    home.prefix = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--"]
    return home


def delegate() -> None:
    done = subprocess.run([support.HUTCH, "doctor", "--delegate", str(USER)], capture_output=True)
    if done.returncode == 0:
        return
    for name in ("memory", "cpu", "cpuacct", "pids"):  # as delegate_cgroup() in src/sandbox/cgroup.cc does
        place = "/sys/fs/cgroup/%s/hutch-%d" % (name, USER)
        os.makedirs(place, exist_ok=True)
        for file in (place, place + "/tasks", place + "/cgroup.procs"):
            os.chown(file, USER, USER)


def undelegate() -> list[str]:
    """What could not be removed."""
    for path in glob.glob("/sys/fs/cgroup/*/hutch-%d/box-*" % USER) + glob.glob("/sys/fs/cgroup/*/hutch-%d" % USER) + \
            glob.glob("/sys/fs/cgroup/hutch-%d" % USER):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return glob.glob("/sys/fs/cgroup/*/hutch-%d" % USER)


class OrdinaryUser(Inside):
    delegated = False

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            support.missing("root: only it can become another user for this test")
        if cls.delegated:
            delegate()
        cls.template_home = ordinary_home()

    @classmethod
    def tearDownClass(cls):
        home = cls.template_home
        pid = home.status().get("pid")
        home.stop()
        support.settle(lambda: pid not in support.descendants())
        left = sorted(set(os.listdir(home.runtime)) - {"engine.lock", "engine.log"})
        boxes = support.settle(lambda: not glob.glob("/sys/fs/cgroup/*/hutch-%d/box-*" % USER), 2)
        undelegate()
        home.close()
        if left or not boxes:
            raise AssertionError("left behind by the ordinary user's engine: %s %s" % (left, not boxes))


class AsDelegatedUser(OrdinaryUser):
    delegated = True

    def test_twenty_warm_sandboxes(self):
        for _ in range(SANDBOXES):
            self.compare(self.probe(), ONE_ID)

    def test_cold(self):
        self.compare(self.probe("--no-engine"), ONE_ID)

    def test_limits_hold(self):
        record = self.template_home.record("x = b'x' * (1 << 30)")
        self.check_category(record, "memory_limit", "oom_killed")
        walls = {wall["name"]: wall["up"] for wall in record["walls"]}
        self.assertTrue(walls["cgroup"])
        self.assertFalse(walls["ids"])
        self.assertEqual(record["notices"], [])


class AsUserWithoutCgroup(OrdinaryUser):
    options = ("--weaker-limits",)

    def test_refused_with_the_one_command_that_helps(self):
        done = self.template_home.run("print(1)")
        self.assertEqual((done.code, done.out), (support.OWN_FAILURE, b""))
        self.assertRegex(done.errors, r"hint: Run: (sudo hutch doctor --delegate|systemd-run)")
        self.assertIn("--weaker-limits", done.errors)

    def test_weaker_limits(self):
        for _ in range(3):
            self.compare(self.probe(), WEAKER)

    def test_every_result_says_so(self):
        record = self.template_home.record("print(1)", "--weaker-limits")
        self.assertIn("weaker", " ".join(record["notices"]))
        self.assertFalse({wall["name"]: wall["up"] for wall in record["walls"]}["cgroup"])
        self.assertIn("weaker", self.template_home.run("print(1)", "--weaker-limits").errors)
        self.assertNotEqual(record["usage"]["memory_source"], "cgroup")

    def test_weaker_limits_still_hold(self):
        home = self.template_home
        record = home.record("x = []\nwhile True: x.append(bytearray(1 << 20))", "--weaker-limits", "--memory", "200M")
        self.assertEqual(record["error"]["category"], "memory_limit", record["error"])
        record = home.record("import os, time\nfor i in range(100):\n  if os.fork() == 0: time.sleep(30)\ntime.sleep(30)",
                             "--weaker-limits", "--processes", "10", "--timeout", "3")
        self.assertEqual(record["error"]["code"], "too_many_processes", record["error"])
        record = home.record("while True: pass", "--weaker-limits", "--cpu-time", "0.5", "--timeout", "5")
        self.assertEqual(record["error"]["code"], "cpu_timeout", record["error"])


if __name__ == "__main__":
    support.main()
