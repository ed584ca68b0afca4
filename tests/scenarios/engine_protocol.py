"""A second, independent implementation of the engine's wire format (src/wire/engine_messages.h, record.h, codec.h):
enough of a client to run programs without starting a process for each, and to send what no honest client would."""
from __future__ import annotations

import array
import dataclasses
import os
import socket
import struct

PROTOCOL = 4
HELLO, RUN, PUT_FILE, GO, CELL, INTERRUPT, CANCEL, STATUS, STOP = range(1, 10)
HELLO_REPLY, OUTPUT, FILE, CELL_DONE, FINISHED, FAILED, STATUS_REPLY = range(64, 71)
MOST_FRAME = 24 << 20


class ProtocolError(Exception):
    """The engine sent something that its own headers do not allow."""


class HungUp(Exception):
    """The engine closed the connection."""


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(data)) + data


def frame(kind: int, payload: bytes = b"") -> bytes:
    return struct.pack("<IB", len(payload) + 1, kind) + payload


def cell(code: str, timeout_ms: int = 0) -> bytes:
    return frame(CELL, text(code) + struct.pack("<Q", timeout_ms))


class Reader:
    """Walks the fields of one payload and insists that nothing is left."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) != size:
            raise ProtocolError("a message is cut short")
        self.at += size
        return piece

    def number(self, form: str) -> int:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def flag(self) -> bool:
        value = self.number("B")
        if value > 1:
            raise ProtocolError("a flag of %d" % value)
        return bool(value)

    def bytes(self) -> bytes:
        return self.take(self.number("I"))

    def text(self) -> str:
        return self.bytes().decode()

    def list(self, item) -> list:
        return [item() for _ in range(self.number("I"))]

    def optional(self, item):
        return item() if self.flag() else None

    def end(self) -> None:
        if self.at != len(self.data):
            raise ProtocolError("%d bytes too many" % (len(self.data) - self.at))


def read_python(r: Reader) -> dict:
    return {"name": r.text(), "value": r.text(), "module": r.text(), "similar": r.text(), "errno": r.number("i"),
            "line": r.number("i"), "column": r.number("i"), "source": r.text(), "traceback": r.list(r.text)}


def read_error(r: Reader) -> dict:
    names = ("category", "code", "message", "hint", "fix", "state")
    error = {name: r.text() for name in names}
    error["retryable"] = r.flag()
    error["python"] = r.optional(lambda: read_python(r))
    error["limit"] = (r.text(), r.number("Q"), r.number("Q"), r.text())
    return error


def read_changes(r: Reader) -> dict:
    variables = r.list(lambda: (r.text(), ("created", "changed", "removed")[r.number("B")], r.text(), r.text()))
    return {"variables": variables, "more": r.flag(), "cwd": r.text(), "packages": r.list(r.text)}


def read_display(r: Reader) -> dict:
    return {"number": r.number("I"), "kind": ("display", "result", "update", "clear")[r.number("B")], "id": r.text(),
            "wait": r.flag(), "items": dict(r.list(lambda: (r.text(), r.bytes()))), "metadata": r.text()}


def read_record(data: bytes) -> dict:
    r = Reader(data)
    record = {"execution_id": r.text(), "status": ("ok", "error", "timeout", "cancelled")[r.number("B")],
              "template": r.text(), "started_at_ns": r.number("q"), "exit_code": r.number("i"), "warm": r.flag(),
              "stdout_truncated": r.flag(), "stderr_truncated": r.flag(), "files_truncated": r.flag(),
              "displays_truncated": r.flag(), "execution_count": r.number("I")}
    record["changes"] = r.optional(lambda: read_changes(r))
    record["error"] = r.optional(lambda: read_error(r))
    record["usage"] = {name: r.number("Q") for name in ("wall_us", "cpu_us", "peak_memory", "scratch", "output")}
    record["usage"]["memory_source"] = r.text()
    record["phases"] = {name: r.number("Q") for name in ("validation", "setup", "execution", "collection", "total")}
    record["steps"] = r.list(lambda: (r.text(), r.number("Q")))
    record["walls"] = r.list(lambda: (r.text(), r.flag(), r.text()))
    record["denials"] = r.list(lambda: (r.text(), r.text(), r.number("Q"), r.text()))
    record["notices"] = r.list(r.text)
    r.end()
    return record


def read_failed(data: bytes) -> dict:
    r = Reader(data)
    failed = {name: r.text() for name in ("message", "hint", "code", "step")}
    failed["retry_after_ms"] = r.number("Q")
    r.end()
    return failed


def read_status(data: bytes) -> dict:
    r = Reader(data)
    status = {"pid": r.number("I"), "uptime_ms": r.number("Q"), "runs": r.number("Q"), "running": r.number("I"),
              "waiting": r.number("I"), "most_running": r.number("I"), "sessions": r.number("I"),
              "dying": r.number("I"), "pool_ready": r.number("I"), "pool_hits": r.number("Q"),
              "pool_misses": r.number("Q"), "idle_exit_ms": r.number("Q"), "templates": r.list(r.text),
              "limits": r.text(), "filter": r.text()}
    r.end()
    return status


@dataclasses.dataclass
class Limits:
    wall_ms: int = 30_000
    cpu_ms: int = 30_000
    memory: int = 512 << 20
    scratch: int = 64 << 20
    output: int = 8 << 20
    cpu_percent: int = 100
    processes: int = 64
    open_files: int = 1024
    inodes: int = 16_384

    def encode(self) -> bytes:
        return struct.pack("<5Q4I", *dataclasses.astuple(self))


@dataclasses.dataclass
class Request:
    code: str | bytes = ""
    template: str = "bare"
    mode: int = 0
    file_name: str = "<string>"
    has_file: bool = False
    arguments: tuple = ()
    environment: tuple = ()
    limits: Limits = dataclasses.field(default_factory=Limits)
    weaker: bool = False
    cold: bool = False
    on_demand: bool = False
    want_files: bool = False
    as_cell: bool = False
    directory: str = ""
    fault: str = ""

    def encode(self) -> bytes:
        return b"".join((
            text(self.template), bytes((self.mode,)), text(self.code), text(self.file_name), bytes((self.has_file,)),
            struct.pack("<I", len(self.arguments)), *map(text, self.arguments),
            struct.pack("<I", len(self.environment)), *(text(a) + text(b) for a, b in self.environment),
            self.limits.encode(), bytes((self.weaker, self.cold, self.on_demand, self.want_files, self.as_cell)),
            text(self.directory), text(self.fault)))


@dataclasses.dataclass
class Outcome:
    record: dict | None = None
    failed: dict | None = None
    out: bytes = b""
    err: bytes = b""
    files: dict = dataclasses.field(default_factory=dict)
    displays: list = dataclasses.field(default_factory=list)


class Client:
    """One connection."""

    def __init__(self, path: str, seconds: float = 30) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(seconds)
        self.socket.connect(path)
        self.pending = b""
        self.descriptors: list[int] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []

    def send(self, data: bytes, fds: tuple = ()) -> None:
        if fds:
            sent = self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
            data = data[sent:]
        self.socket.sendall(data)

    def receive(self) -> tuple[int, bytes]:
        while True:
            if len(self.pending) >= 4:
                length = struct.unpack_from("<I", self.pending)[0]
                if not 1 <= length <= MOST_FRAME:
                    raise ProtocolError("a frame of %d bytes" % length)
                if len(self.pending) >= 4 + length:
                    kind, payload = self.pending[4], self.pending[5 : 4 + length]
                    self.pending = self.pending[4 + length :]
                    return kind, payload
            try:
                data, control, _, _ = self.socket.recvmsg(1 << 18, socket.CMSG_SPACE(64))
            except ConnectionResetError:
                raise HungUp from None
            for level, kind, value in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self.descriptors += array.array("i", value)
            if not data:
                raise HungUp
            self.pending += data

    def hello(self, binary: str = "") -> dict:
        self.send(frame(HELLO, struct.pack("<I", PROTOCOL) + text(binary) + text("")))
        kind, payload = self.receive()
        if kind != HELLO_REPLY:
            raise ProtocolError("hello was answered with %d" % kind)
        r = Reader(payload)
        reply = {"protocol": r.number("I"), "current": r.flag(), "pid": r.number("I")}
        r.end()
        return reply

    def status(self) -> dict:
        self.send(frame(STATUS))
        kind, payload = self.receive()
        if kind != STATUS_REPLY:
            raise ProtocolError("status was answered with %d" % kind)
        return read_status(payload)

    def begin(self, request: Request, stdin: bytes = b"", files: dict | None = None) -> None:
        reading, writing = os.pipe()
        try:
            os.write(writing, stdin[:65536])
            os.close(writing)
            self.send(frame(RUN, request.encode()), (reading,))
        finally:
            os.close(reading)
        for path, data in (files or {}).items():
            self.send(frame(PUT_FILE, text(path) + bytes(2) + text(data)))
        self.send(frame(GO))

    def outcome(self) -> Outcome:
        result = Outcome()
        while True:
            kind, payload = self.receive()
            if kind == OUTPUT:
                r = Reader(payload)
                stream, _, data = r.number("B"), r.number("Q"), r.bytes()
                display = r.optional(lambda: read_display(r))
                r.end()
                if display is not None:
                    result.displays.append(display)
                elif stream == 0:
                    result.out += data
                else:
                    result.err += data
            elif kind == FILE:
                r = Reader(payload)
                path, size, _ = r.bytes(), r.number("Q"), r.number("q")
                r.text(), r.text()
                change, has_content = r.number("B"), r.flag()
                r.end()
                content = self.take_content(size) if has_content else None
                result.files[path] = (("created", "modified", "deleted")[change], content)
            elif kind == FINISHED:
                result.record = read_record(payload)
                return result
            elif kind == FAILED:
                result.failed = read_failed(payload)
                return result
            else:
                raise ProtocolError("a frame of type %d during a run" % kind)

    def take_content(self, size: int) -> bytes:
        if not self.descriptors:
            raise ProtocolError("a file came without its content")
        fd = self.descriptors.pop(0)
        try:
            return os.pread(fd, size, 0)
        finally:
            os.close(fd)

    def run(self, request: Request, stdin: bytes = b"", files: dict | None = None) -> Outcome:
        self.begin(request, stdin, files)
        return self.outcome()
