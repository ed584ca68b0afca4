"""Peers with an image and an engine of their own: podman, and docker where one answers."""
from __future__ import annotations

import contextlib
import glob
import os
import tarfile

import process
from context import MEMORY, NOBODY, PROCESSES, Context
from oci_peers import OciPeer, make_root
from peer import PeerError

IMAGE = "hutch-peers"
LOCKS = "/dev/shm/libpod_lock"
CACHE = "/var/lib/containers"


class ContainerPeer(OciPeer):
    """An image with nothing but links and empty directories; /usr comes from the host, read-only."""

    settings = ("run --rm, from nothing; no network, read-only, uid nobody, no capabilities, 512 MiB, 64 processes, "
                "its default seccomp filter")
    megabytes = 60
    live_sessions = 5

    def prepare(self) -> None:
        self.place = self.context.directory(self.program)
        root = make_root(self.place / "root")
        archive = self.place / "root.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root, arcname=".")
        self.control = [self.path, *self.flags]
        process.call([*self.control, "import", str(archive), IMAGE], self.outer({}))

    def command(self, arguments: list[str], libraries: bool) -> list[str]:
        words = ["--rm", "-i", "--network", "none", "--read-only", "--user", "%d:%d" % (NOBODY, NOBODY),
                 "--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory", str(MEMORY),
                 "--pids-limit", str(PROCESSES), "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
                 "--tmpfs", "/tmp", "--workdir", "/tmp", "--volume", "/usr:/usr:ro"]
        for name, value in self.context.variables(libraries).items():
            words += ["--env", "%s=%s" % (name, value)]
        if libraries:
            tree, fonts = self.context.library_tree, self.context.font_cache
            words += ["--volume", "%s:%s:ro" % (tree, tree), "--volume", "%s:%s" % (fonts, fonts)]
        return [*words, IMAGE, self.context.interpreter(libraries), *arguments]

    def container(self, name: str, arguments: list[str], libraries: bool) -> list[str]:
        return [*self.control, "run", "--name", name, *self.command(arguments, libraries)]

    def delete(self, name: str) -> None:
        with contextlib.suppress(PeerError):
            process.call([*self.control, "rm", "--force", name], self.outer({}))

    def close(self) -> None:
        with contextlib.suppress(PeerError):
            process.call([*self.control, "rmi", "--force", IMAGE], self.outer({}))


class Podman(ContainerPeer):
    name = "podman"
    about = ContainerPeer.settings
    program = "podman"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.before = set(self.traces())

    def prepare(self) -> None:
        place = self.context.directory(self.program)
        runtime = process.find_program("runc") or "crun"
        self.about = "runtime %s; %s" % (os.path.basename(runtime), self.about)
        self.flags = ("--root", str(place / "storage"), "--runroot", str(place / "run"), "--tmpdir", str(place / "tmp"),
                      "--cgroup-manager=cgroupfs", "--events-backend=none",
                      "--runtime", runtime)
        super().prepare()

    def traces(self) -> list[str]:
        """What podman makes outside the directories that it is given."""
        return [*glob.glob("/sys/fs/cgroup/**/libpod_parent", recursive=True), *glob.glob(LOCKS), *glob.glob(CACHE)]

    def close(self) -> None:
        super().close()
        for path in set(self.traces()) - self.before:
            with contextlib.suppress(OSError):
                remove(path)


def remove(path: str) -> None:
    """A file, or a directory with what is in it; of a control group only the directories can go."""
    for parent, directories, files in os.walk(path, topdown=False):
        for name in files if not path.startswith("/sys/") else ():
            os.unlink(os.path.join(parent, name))
        for name in directories:
            os.rmdir(os.path.join(parent, name))
    os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


class Docker(ContainerPeer):
    name = "docker"
    about = ContainerPeer.settings
    program = "docker"

    def missing(self) -> str:
        if not self.path:
            return "docker is not installed"
        try:
            self.engine()
        except PeerError:
            return "no docker engine answers on this machine"
        return ""

    def engine(self) -> str:
        return process.call([self.path, "version", "--format", "{{.Server.Version}}"], seconds=10).strip()

    def version(self) -> str:
        """Of the engine, which need not be that of the command."""
        return "docker engine " + self.engine()
