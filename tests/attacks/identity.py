"""Who runs hutch: root, an ordinary user with delegated control groups, or the same user without any. Everything hutch
needs is copied to where that user can reach it, and whatever was made is taken away at the end."""
from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import time

import corpus

TOKEN = "-".join(("CANARY", "7f3a91"))
FIRST_UID = 61234
CONTROLLERS = ("memory", "cpu", "cpuacct", "pids")
MOST_KEPT = 64 << 20  # of a run's output
# What hutch says when the kernel lacks one thing: the only reasons for a skip.
MISSING = {"has no Landlock": "Landlock", "new user namespace": "unprivileged user namespaces",
           "no control groups": "a control group of the user's own"}


class Skip(Exception):
    """The kernel lacks the one thing it names."""


class Finished:
    """One finished `hutch run`."""

    def __init__(self, code, out: bytes, err: bytes, seconds: float, size: int) -> None:
        self.code, self.out, self.err, self.seconds, self.size = code, out, err, seconds, size
        self.text = out.decode("utf-8", "replace")

    def errors(self) -> str:
        return self.err.decode("utf-8", "replace").strip()


def v1_mounts() -> list[str]:
    with open("/proc/mounts") as file:
        lines = [line.split() for line in file]
    return [line[1] for line in lines if line[2] == "cgroup" and set(line[3].split(",")) & set(CONTROLLERS)]


def copy_tree(source: str, target: str) -> None:
    """Hard links where the file system allows them: a template is large."""
    if subprocess.run(["cp", "-al", source, target], stderr=subprocess.DEVNULL).returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", source, target], check=True)


def unused_uid() -> int:
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    groups = set().union(*(os.listdir(mount) for mount in v1_mounts()), ())
    return next(uid for uid in range(FIRST_UID, FIRST_UID + 1000)
                if uid not in taken and "hutch-%d" % uid not in groups)


def remove_group(path: str) -> str:
    """Why it is still there; the last members may take a moment to die."""
    for _ in range(40):
        try:
            os.rmdir(path)
            return ""
        except FileNotFoundError:
            return ""
        except OSError as error:
            problem = "control group %s: %s" % (path, error.strerror)
        time.sleep(0.05)
    return problem


class Identity:
    def __init__(self, name: str, hutch: str, data: str) -> None:
        self.name = name
        self.options = ["--weaker-limits"] if name == "weaker" else []
        self.switch = os.geteuid() == 0 and name != "root"
        self.uid = unused_uid() if self.switch else os.geteuid()
        self.prefix = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups",
                       "--"] if self.switch else []
        self.stage = tempfile.mkdtemp(prefix="hutch-attacks-", dir="/var/tmp")
        os.chmod(self.stage, 0o755)
        self.hutch = os.path.join(self.stage, "hutch")
        shutil.copy2(hutch, self.hutch)
        os.chmod(self.hutch, 0o755)
        corpus.stage(self.stage)
        self.groups: list[str] = []  # control groups made for this identity
        self.environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8",
                            "HOME": self.directory("home"), "HUTCH_RUNTIME_DIR": self.directory("run", 0o700),
                            "HUTCH_DATA_DIR": self.directory("data"), "ATTACK_CANARY": TOKEN + "-env",
                            "HUTCH_FAKE_API_KEY": TOKEN + "-apikey-0123456789"}
        if os.path.isdir(os.path.join(data, "templates")):
            copy_tree(os.path.join(data, "templates"), os.path.join(self.environment["HUTCH_DATA_DIR"], "templates"))
        if name == "root":
            self.environment["HUTCH_CGROUP"] = os.path.basename(self.stage)
            self.groups = [os.path.join(mount, os.path.basename(self.stage)) for mount in v1_mounts()]
        elif name == "user" and self.switch:
            self.delegate()

    def directory(self, name: str, mode: int = 0o755) -> str:
        path = os.path.join(self.stage, name)
        os.mkdir(path, mode)
        if self.switch:
            os.chown(path, self.uid, self.uid)
        return path

    def new_directory(self) -> str:
        path = tempfile.mkdtemp(prefix="out-", dir=self.stage)
        if self.switch:
            os.chown(path, self.uid, self.uid)
        return path

    def delegate(self) -> None:
        self.groups = [os.path.join(mount, "hutch-%d" % self.uid) for mount in v1_mounts()]
        if subprocess.run([self.hutch, "doctor", "--delegate", str(self.uid)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return
        for group in self.groups:
            os.makedirs(group, exist_ok=True)
            for path in (group, group + "/tasks", group + "/cgroup.procs"):
                os.chown(path, self.uid, self.uid)

    def run(self, arguments: list[str], wall: float) -> Finished:
        begin = time.monotonic()
        process = subprocess.Popen([*self.prefix, self.hutch, *arguments], env=self.environment, cwd=self.stage,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        kept: list[bytearray] = [bytearray(), bytearray()]
        sizes = [0, 0]

        def drain(stream, index: int) -> None:
            while piece := stream.read1(65536):
                sizes[index] += len(piece)
                if len(kept[index]) < MOST_KEPT:
                    kept[index] += piece

        readers = [threading.Thread(target=drain, args=pair, daemon=True)
                   for pair in ((process.stdout, 0), (process.stderr, 1))]
        for reader in readers:
            reader.start()
        code: int | str
        try:
            code = process.wait(wall + 30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = "HANG"
        seconds = time.monotonic() - begin
        for reader in readers:
            reader.join(1)
        return Finished(code, bytes(kept[0]), bytes(kept[1]), seconds, sum(sizes))

    def check_host(self) -> str:
        """Which template runs here; Skip when the kernel lacks something."""
        first = self.run(["run", *self.options, "--json", "-c", "print(6 * 7)"], 60)
        if first.code == 0:
            return json.loads(first.text)["template"]
        for words, feature in MISSING.items():
            if words in first.errors() and not (self.switch and self.name == "user" and "control" in feature):
                raise Skip(feature)
        raise SystemExit("hutch does not run as %s: %s" % (self.name, first.errors()))

    def status(self) -> dict:
        done = self.run(["engine", "status", "--json"], 5)
        return json.loads(done.text) if done.code == 0 else {"running": False}

    def own_processes(self) -> list[str]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink("/proc/%s/exe" % pid).startswith(self.hutch):
                    found.append(pid)
            except OSError:
                pass
        return found

    def close(self) -> list[str]:
        """Stops the engine and removes everything; says what was left that should not have been."""
        self.run(["engine", "stop"], 10)
        end = time.monotonic() + 5
        while self.own_processes() and time.monotonic() < end:
            time.sleep(0.02)
        left = ["process %s of the engine" % pid for pid in self.own_processes()]
        for group in filter(os.path.isdir, self.groups):
            inner = [name for name in os.listdir(group) if os.path.isdir(os.path.join(group, name))]
            left += ["control group %s/%s" % (group, name) for name in inner]
            left += [problem for path in (*(os.path.join(group, name) for name in inner), group)
                     if (problem := remove_group(path))]
        shutil.rmtree(self.stage, ignore_errors=True)
        return left
