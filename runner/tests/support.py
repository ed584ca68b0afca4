"""Plays the engine: starts a runner with a task socket and reads what it says. Encodes frames on its own, so that a
mistake in wire.py cannot hide."""
from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

RUNNER = Path(__file__).resolve().parent.parent
COLD = [sys.executable, "-I", "-X", "utf8", str(RUNNER / "cold_main.py")]
STARTED, ERROR, CELL_DONE, RESTED, FINISHED, DISPLAY, CHANGES = 66, 67, 68, 69, 70, 72, 73


def text(value: str | bytes) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(value)) + value


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IB", len(payload) + 1, kind) + payload


def pairs(environment: dict[str, str]) -> bytes:
    return struct.pack("<I", len(environment)) + b"".join(text(k) + text(v) for k, v in environment.items())


def put_file(path: str, data: bytes, append: bool = False, executable: bool = False) -> bytes:
    return frame(1, text(path) + bytes((append, executable)) + text(data))


def run_script(code: str | bytes, name: str = "<string>", has_file: bool = False, arguments: tuple = (),
               environment: dict[str, str] | None = None, as_cell: bool = False, tools: str = "") -> bytes:
    listed = struct.pack("<I", len(arguments)) + b"".join(map(text, arguments))
    about = text(name) + bytes((has_file,)) + listed + pairs(environment or {})
    return frame(2, text(code) + about + bytes((as_cell,)) + text("") + text(tools))


def open_shell(environment: dict[str, str] | None = None, ipython: bool = False) -> bytes:
    return frame(3, pairs(environment or {}) + bytes((ipython,)))


def run_cell(code: str | bytes) -> bytes:
    return frame(4, text(code))


class Error:
    """The fields of PythonError."""

    def __init__(self, payload: bytes) -> None:
        self._rest = payload
        self.name, self.value, self.module_name, self.similar = (self._text() for _ in range(4))
        self.error_number, self.line, self.column = (self._number() for _ in range(3))
        self.source_line = self._text()
        self.traceback = [self._text() for _ in range(self._number())]
        assert not self._rest, "bytes left over"

    def _number(self) -> int:
        value, self._rest = struct.unpack("<i", self._rest[:4])[0], self._rest[4:]
        return value

    def _text(self) -> str:
        size = self._number()
        value, self._rest = self._rest[:size], self._rest[size:]
        assert len(value) == size
        return value.decode()


def shown(number: int, verdict: int = 0) -> bytes:
    return frame(7, struct.pack("<IB", number, verdict))


class Display:
    """The fields of one display."""

    KINDS = ("display", "result", "update", "clear")

    def __init__(self, payload: bytes) -> None:
        self._rest = payload
        self.number, self.kind = self._number(), self.KINDS[self._bytes(1)[0]]
        self.id, self.wait = self._sized().decode(), self._bytes(1) == b"\1"
        self.data: dict[str, bytes] = {}
        for _ in range(self._number()):
            mime = self._sized().decode()
            self.data[mime] = self._sized()
        metadata = self._sized()
        self.metadata = json.loads(metadata) if metadata else {}
        assert not self._rest, "bytes left over"

    def _bytes(self, size: int) -> bytes:
        value, self._rest = self._rest[:size], self._rest[size:]
        assert len(value) == size
        return value

    def _number(self) -> int:
        return struct.unpack("<I", self._bytes(4))[0]

    def _sized(self) -> bytes:
        return self._bytes(self._number())

    @property
    def text(self) -> str:
        return self.data["text/plain"].decode()

    def json(self, mime: str = "application/json"):
        return json.loads(self.data[mime])

    def __repr__(self) -> str:
        return "<%s %r>" % (self.kind, {mime: value[:80] for mime, value in self.data.items()})


class Connection:
    """The engine's end of the task socket. Answers displays, unless told not to."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.code: int | None = None  # as the runner said it
        self.displays: list[Display] = []
        self.changes: list[bytes] = []
        self.answers = True
        self.end.settimeout(60)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                piece = self.end.recv(size - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                return b""
            data += piece
        return data

    def receive(self) -> tuple[int, bytes] | None:
        head = self._exactly(4)
        if not head:
            return None
        body = self._exactly(struct.unpack("<I", head)[0])
        if body and body[0] == FINISHED:
            self.code = body[1]
            self.end.shutdown(socket.SHUT_RDWR)  # the engine would kill it
            return None
        if body and body[0] == DISPLAY:
            self.displays.append(Display(body[1:]))
            if self.answers:
                try:
                    self.end.sendall(shown(self.displays[-1].number))
                except OSError:
                    pass  # hung up already
                return self.receive()
        if body and body[0] == CHANGES:
            self.changes.append(body[1:])
            return self.receive()
        return (body[0], body[1:]) if body else None

    def all(self) -> list[tuple[int, bytes]]:
        frames = []
        while (got := self.receive()) is not None:
            frames.append(got)
        return frames


class Outcome:
    """What a finished run left."""

    def __init__(self, code: int, out: bytes, err: bytes, frames: list[tuple[int, bytes]],
                 displays: list[Display]) -> None:
        self.code = code
        self.displays = displays
        self.results = [display.text for display in displays if display.kind == "result"]
        self.out = out.decode("utf-8", "surrogateescape")
        self.err = err.decode("utf-8", "surrogateescape")
        self.kinds = [kind for kind, _ in frames]
        self.errors = [Error(payload) for kind, payload in frames if kind == ERROR]


class RunnerTest(unittest.TestCase):
    """Gives each test a workspace of its own."""

    def setUp(self) -> None:
        self.workspace = Path(tempfile.mkdtemp(prefix="hutch-runner-"))
        self.addCleanup(shutil.rmtree, self.workspace, True)

    def start(self, command: list[str] | None = None, **options) -> tuple[subprocess.Popen, Connection]:
        ours, theirs = socket.socketpair()

        def place() -> None:
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)

        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        environment = {**os.environ, "HUTCH_WORKSPACE": str(self.workspace)}
        process = subprocess.Popen(command or COLD, preexec_fn=place, close_fds=False, cwd=self.workspace,
                                   env=environment, **options)
        theirs.close()
        self.addCleanup(ours.close)
        self.addCleanup(lambda: (process.kill(), process.__exit__(None, None, None)))
        return process, Connection(ours)

    def send(self, *tasks: bytes, command: list[str] | None = None, **options) -> Outcome:
        process, connection = self.start(command, **options)
        frames: list = []
        reader = threading.Thread(target=lambda: frames.extend(connection.all()))
        reader.start()
        try:
            connection.end.sendall(b"".join(tasks))
        except BrokenPipeError:
            pass
        out, err = process.communicate(timeout=60)
        reader.join()
        if connection.code is not None:
            self.assertEqual(connection.code, process.returncode)
        return Outcome(process.returncode, out or b"", err or b"", frames, connection.displays)

    def run_code(self, code: str | bytes, **options) -> Outcome:
        return self.send(run_script(code, **options))

    def run_file(self, code: str | bytes, name: str = "program.py", arguments: tuple = ()) -> Outcome:
        raw = code.encode() if isinstance(code, str) else code
        path = str(self.workspace / name)
        return self.send(put_file(name, raw), run_script(raw, path, True, arguments))

    def real(self, code: str | bytes, *arguments: str, name: str = "program.py") -> subprocess.CompletedProcess:
        path = self.workspace / name
        path.write_bytes(code.encode() if isinstance(code, str) else code)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run([sys.executable, "-X", "utf8", str(path), *arguments], cwd=self.workspace, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


def needs(*modules: str):
    """Skips a test where a library is missing, by name."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, "not installed here: %s" % ", ".join(missing))


class ShellTest(RunnerTest):
    """One shell for each test, and cells for it."""

    ipython = False
    environment: dict[str, str] = {}

    def setUp(self) -> None:
        super().setUp()
        self.process, self.connection = self.start()
        self.connection.end.sendall(open_shell(self.environment, self.ipython))
        self.count = 0

    def cell(self, code: str | bytes) -> tuple[int, list[Error]]:
        self.connection.end.sendall(run_cell(code))
        return self.outcome()

    def outcome(self) -> tuple[int, list[Error]]:
        errors = []
        while True:
            got = self.connection.receive()
            if got is None:
                self.fail("the runner ended: %r" % (self.process.communicate(),))
            kind, payload = got
            if kind == CELL_DONE:
                status, _, self.count = struct.unpack("<BBI", payload)
                return status, errors
            self.assertEqual(kind, ERROR)
            errors.append(Error(payload))

    def show(self, code: str | bytes) -> list[Display]:
        """The displays of a cell that must succeed."""
        before = len(self.connection.displays)
        status, errors = self.cell(code)
        self.assertEqual((status, [(error.name, error.value) for error in errors]), (0, []))
        return self.connection.displays[before:]

    def one(self, code: str | bytes) -> Display:
        displays = self.show(code)
        self.assertEqual(len(displays), 1, displays)
        return displays[0]

    def results(self) -> list[str]:
        return [display.text for display in self.connection.displays if display.kind == "result"]

    def end(self) -> tuple[str, str, int]:
        self.connection.end.shutdown(socket.SHUT_WR)
        out, err = self.process.communicate(timeout=60)
        return out.decode(), err.decode(), self.process.returncode
