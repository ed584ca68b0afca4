"""Hutch itself: as the command `hutch run`, as a call through its engine's socket, and as cells with IPython."""
from __future__ import annotations

import collections
import contextlib
import glob
import os
import pathlib
import sys
import tempfile
import time

import process
from context import ROOT, SECRETS, Context, describe_template
from machine import first_line
from peer import RUN_SECONDS, SESSION_SECONDS, Peer, PeerError, Sample, Session
from workloads import PRINT, Program

sys.path.insert(0, str(ROOT / "tests/scenarios"))
import engine_protocol as protocol  # noqa: E402

PLAIN, IPYTHON = 1, 2  # modes of a session
LONGEST_MS = 300_000
STOPPING = 15.0  # seconds for an engine to leave
TAKING_APART = 60.0  # and for all that has answered to be taken apart
WALLS = ("namespaces, seccomp filter, Landlock, control groups; 512 MiB, 64 processes. Warm: the engine runs, a "
         "sandbox made in advance waits in its pool, and modules were imported beforehand in the template's process")
TROUBLE = (OSError, protocol.HungUp, protocol.ProtocolError)


def template(libraries: bool) -> str:
    """Like with like: who needs no libraries is given none that are warm."""
    return "default" if libraries else "bare"


def warm_facts(preloaded: dict[str, list[str]]) -> str:
    """What is imported before a run begins, by template; of the standard library only how much."""
    told = []
    for name, modules in preloaded.items():
        foreign = [module for module in modules if module.partition(".")[0] not in sys.stdlib_module_names]
        own = "%d modules of the standard library" % (len(modules) - len(foreign))
        told.append("template %s has %s" % (name, ", ".join([own, *foreign])))
    return "; ".join(told)


def remove_group(path: str) -> None:
    """A control group and those in it; the last member may take a moment to die."""
    for _ in range(60):
        for inner in [*glob.glob(path + "/*/"), path]:
            with contextlib.suppress(OSError):
                os.rmdir(inner)
        if not os.path.isdir(path):
            return
        time.sleep(0.05)


def proportional_bytes(pid: int) -> int:
    with contextlib.suppress(OSError), open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    return 0


class Engine:
    """A private engine for all rows; whoever prepares first starts it, whoever closes last stops it."""

    users = 0
    home = ""

    @classmethod
    def environment(cls, context: Context) -> dict[str, str]:
        words = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": cls.home, "HUTCH_DATA_DIR": context.data,
                 "HUTCH_RUNTIME_DIR": os.path.join(cls.home, "run"), **SECRETS}
        return {**words, "HUTCH_CGROUP": os.path.basename(cls.home)} if os.geteuid() == 0 else words

    @classmethod
    def start(cls, context: Context) -> None:
        cls.users += 1
        if cls.users > 1:
            return
        cls.home = tempfile.mkdtemp(prefix="hutch-peers-", dir="/tmp")  # a socket's path must be short
        os.mkdir(os.path.join(cls.home, "run"), 0o700)
        for libraries in (False, True) if context.library_python else (False,):
            process.call([context.hutch, "run", "--template", template(libraries), "-c", PRINT.code],
                         cls.environment(context))

    @classmethod
    def stop(cls, context: Context) -> None:
        cls.users -= 1
        if cls.users or not cls.home:
            return
        with contextlib.suppress(PeerError):
            process.call([context.hutch, "engine", "stop"], cls.environment(context), seconds=STOPPING)
        for group in glob.glob("/sys/fs/cgroup/*/" + os.path.basename(cls.home)):
            remove_group(group)
        for path in sorted(pathlib.Path(cls.home).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        os.rmdir(cls.home)

    @classmethod
    def memory(cls) -> int:
        """Of the engine and of everything it started, each page divided by how many have it."""
        with cls.connect() as client:
            family = [client.status()["pid"]]
        for pid in family:
            for path in glob.glob("/proc/%d/task/*/children" % pid):
                family += map(int, pathlib.Path(path).read_text(encoding="ascii").split())
        return sum(proportional_bytes(pid) for pid in family)

    @classmethod
    def connect(cls) -> protocol.Client:
        client = protocol.Client(os.path.join(cls.home, "run/engine.sock"), SESSION_SECONDS)
        client.hello()
        return client


class HutchPeer(Peer):
    def missing(self) -> str:
        return "" if os.access(self.context.hutch, os.X_OK) else "hutch is not built"

    def prepare(self) -> None:
        Engine.start(self.context)

    def version(self) -> str:
        return first_line(self.context.hutch, "--version")

    def settle(self) -> None:
        """An answer comes before its sandbox is taken apart."""
        end = time.monotonic() + TAKING_APART
        try:
            with Engine.connect() as client:
                while client.status()["dying"]:
                    if time.monotonic() > end:
                        raise PeerError("sandboxes are still there after %g s" % TAKING_APART)
                    time.sleep(0.005)
        except TROUBLE as error:
            raise PeerError("%s: %s" % (type(error).__name__, error)) from None

    def close(self) -> None:
        Engine.stop(self.context)


class HutchRun(HutchPeer):
    name = "hutch run"
    megabytes = 20
    about = "the command, which asks the same engine: the same walls, and as warm"

    def run(self, program: Program) -> Sample:
        self.needs_libraries(program.libraries)
        return process.time_command([self.context.hutch, "run", "--template", template(program.libraries),
                                     "-c", program.code], Engine.environment(self.context))

    def session(self, libraries: bool) -> Session:
        raise PeerError("a command has no live session; see hutch engine")


class HutchSession(Session):
    def __init__(self, name: str, mode: int) -> None:
        self.client = Engine.connect()
        limits = protocol.Limits(wall_ms=LONGEST_MS, cpu_ms=LONGEST_MS)
        self.client.begin(protocol.Request(template=name, mode=mode, limits=limits))

    def send(self, code: str) -> str:
        try:
            self.client.send(protocol.cell(code))
            return self.receive()
        except TROUBLE as error:
            raise PeerError("%s: %s" % (type(error).__name__, error)) from None

    def receive(self) -> str:
        printed = b""
        while True:
            kind, payload = self.client.receive()
            reader = protocol.Reader(payload)
            if kind == protocol.OUTPUT:
                stream, _, data = reader.number("B"), reader.number("Q"), reader.bytes()
                printed += data if stream == 0 else b""
            elif kind == protocol.CELL_DONE:
                if status := reader.number("B"):
                    raise PeerError("the cell ended with status %d" % status)
                return printed.decode()
            elif kind == protocol.FAILED:
                raise PeerError(protocol.read_failed(payload)["message"])
            else:
                raise PeerError("the session has ended")

    def close(self) -> None:
        with contextlib.suppress(*TROUBLE):
            self.client.send(protocol.frame(protocol.CANCEL))
            while self.client.receive()[0] not in (protocol.FINISHED, protocol.FAILED):
                pass
        self.client.close()


class HutchEngine(HutchPeer):
    name = "hutch engine"
    about = "a call over the Unix socket by a Python client that stays connected; " + WALLS
    megabytes = 10
    live_sessions = 200

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.idle: collections.deque[protocol.Client] = collections.deque()  # connections that nobody uses

    def prepare(self) -> None:
        super().prepare()
        self.about += " (%s)" % warm_facts({name: self.preloaded(name) for name in self.templates()})

    def templates(self) -> list[str]:
        return [template(libraries) for libraries in ((False, True) if self.context.library_python else (False,))]

    def preloaded(self, name: str) -> list[str]:
        return describe_template(self.context.hutch, self.context.data, name).get("preload", [])

    def run(self, program: Program) -> Sample:
        self.needs_libraries(program.libraries)
        request = protocol.Request(program.code, template=template(program.libraries),
                                   limits=protocol.Limits(wall_ms=int(RUN_SECONDS * 1000)))
        begin = time.monotonic()
        try:
            client = self.idle.pop() if self.idle else Engine.connect()
            outcome = client.run(request)
        except TROUBLE as error:
            raise PeerError("%s: %s" % (type(error).__name__, error)) from None
        took = time.monotonic() - begin
        self.idle.append(client)
        if outcome.failed:
            raise PeerError(outcome.failed["message"])
        if outcome.record["exit_code"] != 0:
            raise PeerError("exit code %d: %s" % (outcome.record["exit_code"], process.last_line(outcome.err)))
        return Sample(took, outcome.out.decode("utf-8", "replace"))

    def shared_memory(self) -> int:
        try:
            return Engine.memory()
        except TROUBLE as error:
            raise PeerError("%s: %s" % (type(error).__name__, error)) from None

    def close(self) -> None:
        for client in self.idle:
            client.close()
        super().close()

    def session(self, libraries: bool) -> Session:
        self.needs_libraries(libraries)
        return self.open(template(libraries), PLAIN)

    def open(self, name: str, mode: int) -> Session:
        try:
            return HutchSession(name, mode)
        except TROUBLE as error:
            raise PeerError("%s: %s" % (type(error).__name__, error)) from None


class HutchIPython(HutchEngine):
    """Like with like: a Jupyter kernel is IPython, too."""

    name = "hutch engine, IPython"
    about = ("the same in mode ipython, for cells only: like with like, because Jupyter's kernel answers them with "
             "IPython, too")
    workloads = ("cell",)

    def missing(self) -> str:
        return super().missing() or ("" if self.context.library_python else "the default template is not built")

    def templates(self) -> list[str]:
        return [template(libraries=True)]

    def session(self, libraries: bool) -> Session:
        return self.open(template(libraries=True), IPYTHON)
