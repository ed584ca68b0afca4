"""Peers that run an OCI bundle which the harness writes: runc, crun, gVisor."""
from __future__ import annotations

import hashlib
import itertools
import json
import os
import pathlib
import subprocess
import threading

import process
import seccomp
from command_peers import LINKS, CommandPeer
from context import MEMORY, NOBODY, PROCESSES, Context
from peer import PeerError, Sample, Session
from workloads import Program

GROUP = "hutch-peers-%d" % os.getpid()  # of control groups; removed at the end
UNIFIED = "/sys/fs/cgroup/unified"
QUIET = ["nosuid", "noexec", "nodev"]
MASKED = ["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
          "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/proc/scsi"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


def make_root(path: pathlib.Path) -> pathlib.Path:
    """An empty root file system with the links that a merged /usr has."""
    for name in ("usr", "proc", "dev", "sys", "tmp", "etc", "run", "var"):
        (path / name).mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        if not (path / name).is_symlink():
            (path / name).symlink_to("usr/" + name)
    return path


def bind(path: str, mode: str) -> dict:
    return {"destination": path, "type": "bind", "source": path, "options": ["rbind", "nosuid", "nodev", mode]}


def mounts(context: Context, libraries: bool) -> list[dict]:
    listed = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*QUIET, "mode=1777", "size=64m"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmp", "options": [*QUIET, "mode=1777", "size=64m"]},
        bind("/usr", "ro")]
    if libraries:
        listed += [bind(context.library_tree, "ro"), bind(context.font_cache, "rw")]
    return listed


def specification(context: Context, root: pathlib.Path, arguments: list[str], libraries: bool,
                  filter: dict | None) -> dict:
    variables = context.variables(libraries)
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False, "user": {"uid": NOBODY, "gid": NOBODY}, "cwd": "/tmp", "noNewPrivileges": True,
            "args": [context.interpreter(libraries), *arguments], "capabilities": {},
            "env": ["%s=%s" % pair for pair in variables.items()],
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}]},
        "root": {"path": str(root), "readonly": True},
        "hostname": "sandbox",
        "mounts": mounts(context, libraries),
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}], "memory": {"limit": MEMORY},
                          "pids": {"limit": PROCESSES}},
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "cgroup")],
            **({"seccomp": filter} if filter else {}),
            "maskedPaths": MASKED, "readonlyPaths": READ_ONLY}}


class OciPeer(CommandPeer):
    """A bundle per program, written before it is measured; a new container for every run."""

    flags: tuple[str, ...] = ()
    filter: dict | None = None  # of system calls
    settings = ("from nothing; bundle: all namespaces but user, uid nobody, no capabilities, read-only root, 512 MiB, "
                "64 processes")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.numbers = itertools.count()
        self.writing = threading.Lock()

    def missing(self) -> str:
        return super().missing() or ("" if os.geteuid() == 0 else "the bundle needs root")

    def prepare(self) -> None:
        self.place = self.context.directory(self.program)
        self.root = make_root(self.place / "root")
        self.control = [self.path, "--root", str(self.place / "state"), *self.flags]

    def container(self, name: str, arguments: list[str], libraries: bool) -> list[str]:
        """The command that runs a new container."""
        return [*self.control, "run", "--bundle", self.bundle(arguments, libraries), name]

    def bundle(self, arguments: list[str], libraries: bool) -> str:
        digest = hashlib.sha256(json.dumps([arguments, libraries]).encode()).hexdigest()[:16]
        path = self.place / digest
        with self.writing:
            if not path.exists():
                path.mkdir()
                text = json.dumps(specification(self.context, self.root, arguments, libraries, self.filter))
                (path / "config.json").write_text(text, encoding="utf-8")
        return str(path)

    def timed(self, program: Program, more: dict[str, str]) -> Sample:
        self.needs_libraries(program.libraries)
        name = self.new_name()
        command = self.container(name, ["-c", program.code], program.libraries)
        try:
            return process.time_command(command, self.outer(more))
        except PeerError:
            self.delete(name)
            raise

    def session(self, libraries: bool) -> Session:
        self.needs_libraries(libraries)
        name = self.new_name()
        return process.PipeSession(self.container(name, ["-c", process.LOOP], libraries), self.outer({}),
                                   on_close=lambda: self.delete(name))

    def new_name(self) -> str:
        return "%s-%s-%d" % (GROUP, self.program, next(self.numbers))

    def outer(self, more: dict[str, str]) -> dict[str, str]:
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **more}

    def delete(self, name: str) -> None:
        """A container that did not end by itself; usually there is none."""
        try:
            process.call([*self.control, "delete", "--force", name], self.outer({}))
        except PeerError:
            pass


class FilteredPeer(OciPeer):
    """Gets the filter that podman would give it."""

    about = OciPeer.settings

    def prepare(self) -> None:
        super().prepare()
        self.filter = seccomp.default_filter()
        self.about += ("; containers' default seccomp filter" if self.filter else
                       "; no seccomp filter, because containers' default one is not installed here")


class Runc(FilteredPeer):
    name = "runc"
    program = "runc"


class Crun(FilteredPeer):
    name = "crun"
    program = "crun"
    hiding: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        super().prepare()
        if not os.path.isdir(UNIFIED):
            return
        self.hiding = process.start(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                                     "umount %s && echo ready && exec sleep 7200" % UNIFIED], self.outer({}))
        assert self.hiding.stdout
        if self.hiding.stdout.readline() != b"ready\n":
            raise PeerError("crun refuses control groups v1 and v2 side by side, and v2 cannot be hidden from it")
        self.about = "by nsenter from where cgroup v2 is not mounted, which crun refuses next to v1; " + self.about
        self.control = ["nsenter", "--target", str(self.hiding.pid), "--mount", *self.control]

    def close(self) -> None:
        if self.hiding:
            process.kill_group(self.hiding)


class Gvisor(OciPeer):
    name = "gVisor"
    about = ("runsc, from nothing, platform systrap; bundle: uid nobody, no capabilities, read-only root; a seccomp "
             "filter of its own between it and the host, none between the program and it; no control groups, so no "
             "limits")
    program = "runsc"
    flags = ("--platform=systrap", "--network=none", "--ignore-cgroups")
    megabytes = 100
    live_sessions = 5
