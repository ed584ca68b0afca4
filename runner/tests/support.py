"""Plays the engine: starts a runner with a task socket and reads what it says. Encodes frames on its own, so that a
mistake in wire.py cannot hide."""
from __future__ import annotations

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
STARTED, ERROR, CELL_DONE, RESTED, FINISHED = 66, 67, 68, 69, 70


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
               environment: dict[str, str] | None = None) -> bytes:
    listed = struct.pack("<I", len(arguments)) + b"".join(map(text, arguments))
    return frame(2, text(code) + text(name) + bytes((has_file,)) + listed + pairs(environment or {}))


def open_shell(environment: dict[str, str] | None = None, ipython: bool = False) -> bytes:
    return frame(3, pairs(environment or {}) + bytes((ipython,)))


def run_cell(code: str | bytes) -> bytes:
    return frame(4, text(code))


class Error:
    """The fields of PythonError."""

    def __init__(self, payload: bytes) -> None:
        self._rest = payload
        self.name, self.value, self.module_name = self._text(), self._text(), self._text()
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


class Connection:
    """The engine's end of the task socket."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.code: int | None = None  # as the runner said it
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
        return (body[0], body[1:]) if body else None

    def all(self) -> list[tuple[int, bytes]]:
        frames = []
        while (got := self.receive()) is not None:
            frames.append(got)
        return frames


class Outcome:
    """What a finished run left."""

    def __init__(self, code: int, out: bytes, err: bytes, frames: list[tuple[int, bytes]]) -> None:
        self.code = code
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
        return Outcome(process.returncode, out or b"", err or b"", frames)

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
