"""The runner's half of src/wire/runner_messages.h: frames of u32 length, u8 type, payload, over one stream socket."""
from __future__ import annotations

import _signal
import _thread
import builtins
import os
import time

__builtins__ = dict(vars(builtins))  # our own: a program may replace the shared ones

PUT_FILE, RUN_SCRIPT, OPEN_SHELL, RUN_CELL, RUN_IN_SESSION, OPEN_PORTER, SHOWN, ASK = 1, 2, 3, 4, 5, 6, 7, 8
TOOL_RESULT = 9
WRITE, DATA, END, ABORT, REMOVE, MKDIR, MOVE, PACK, UNPACK = 10, 11, 12, 13, 14, 15, 16, 17, 18  # to the porter
WRITE_FILES, NEXT_FILE = 19, 20
INPUT_NONE, INPUT_TEXT, INPUT_LIVE = 0, 1, 2
STARTED, ERROR, CELL_DONE, RESTED, FINISHED, INPUT_WANTED, DISPLAY, CHANGES, ANSWER = 66, 67, 68, 69, 70, 71, 72, 73, 74
TOOL_CALL, TOOL_CALL_DROPPED = 75, 76
DONE, FAILED, PIECE = 80, 81, 82  # from the porter
CELL_OK, CELL_ERROR, CELL_INCOMPLETE, CELL_EXIT = 0, 1, 2, 3
COMPLETE, INSPECT, VARIABLES, PREVIEW = 0, 1, 2, 3  # what can be asked
MAX_IDLE_DISPLAY = 256 << 10
MAX_TASK_FRAME = 16 << 20
MAX_DATA, MAX_PIECE = 1 << 20, 256 << 10  # of a file, in one frame to and from the porter
CONTROL_FD = 3  # of every runner
STARTED_FRAME = bytes((1, 0, 0, 0, STARTED))
RESTED_FRAME = bytes((1, 0, 0, 0, RESTED))
SOCKET = 0o140000  # stat.S_IFSOCK
SHOWN_SIZE = 5  # u32 number, u8 verdict
A_MOMENT = 0.02  # seconds until somebody who waits looks up

_monotonic_ns = time.monotonic_ns
_fstat, _getpid, _read, _write = os.fstat, os.getpid, os.read, os.write
_signal_set = _signal.signal

Environment = list[tuple[bytes, bytes]]


class ProtocolError(Exception):
    """The engine sent something that is not a task."""


class Channel:
    """The task socket. It outlives the program's habits: once the program has closed it, put a file in its place or
    forked, nothing is read or written any more."""

    __slots__ = ("_announces", "_displays", "_idle", "_kept", "_pending", "_pid", "_reading", "_sending", "_shown",
                 "_started_ns", "fd", "on_tool_result")

    def __init__(self, fd: int, announces: bool = False) -> None:
        self.fd = fd
        self._announces = announces  # when user code starts, and not only at its end when it did
        self._idle = False  # between cells the engine takes small frames only
        self._started_ns = 0
        self._pid = _getpid()
        self._pending = bytearray()
        self._kept: list[tuple[int, bytes]] = []  # frames that came while somebody waited for another
        self.on_tool_result = None  # once there may be some: called with each payload by whoever reads it
        self._displays = self._shown = 0  # numbers of the last display sent, and of the last answered
        self._reading, self._sending = _thread.allocate_lock(), _thread.allocate_lock()

    def begin(self, said: bytes) -> None:
        """In a child of the process that made it, with what its engine has said so far."""
        self._pid = _getpid()
        self._pending += said

    def is_ours(self) -> bool:
        """False in a process the program forked, and when the descriptor is no socket any more."""
        try:
            return _getpid() == self._pid and _fstat(self.fd).st_mode & 0o170000 == SOCKET
        except OSError:
            return False

    def has_more(self) -> bool:
        """That something was read already."""
        return bool(self._kept or self._pending)

    def receive(self) -> tuple[int, bytes] | None:
        """The next frame as (type, payload); None when the engine has hung up. Called by the main thread only."""
        while not self._kept:
            if self._reading.acquire(True, A_MOMENT):  # else somebody who waits for an answer reads, and keeps tasks
                try:
                    if not self._kept:
                        frame = self._read_frame()
                        if frame is None or not self._take(frame):
                            self._idle = False
                            return frame
                finally:
                    self._reading.release()
        self._idle = False
        return self._kept.pop(0)

    def _take(self, frame: tuple[int, bytes]) -> bool:
        """True for an answer that somebody waits for, or no longer does; tasks are the main thread's."""
        kind, payload = frame
        if kind == SHOWN:
            self._take_shown(payload)
        elif kind == TOOL_RESULT and self.on_tool_result is not None:
            self.on_tool_result(payload)
        else:
            return False
        return True

    def _read_frame(self) -> tuple[int, bytes] | None:
        pending = self._pending
        needed = 4
        while True:
            if len(pending) >= 4:
                needed = 4 + int.from_bytes(pending[:4], "little")
                if not 4 < needed <= 4 + MAX_TASK_FRAME:
                    raise ProtocolError("a frame of %d bytes" % (needed - 4))
            if len(pending) >= needed > 4:
                break
            piece = _read(self.fd, min(max(4096, needed - len(pending)), 1 << 20))
            if not piece:
                return None
            if not pending and len(piece) > 4 and int.from_bytes(piece[:4], "little") == len(piece) - 4:
                return piece[4], piece[5:]  # one frame and nothing else, as nearly always
            pending += piece
        kind, payload = pending[4], bytes(pending[5:needed])
        del pending[:needed]
        return kind, payload

    def _take_shown(self, payload: bytes) -> None:
        """Displays are answered in their order: whoever waits for an earlier one need not wait any longer."""
        if len(payload) != SHOWN_SIZE:
            raise ProtocolError("an answer to a display is malformed")
        self._shown = max(self._shown, int.from_bytes(payload[:4], "little"))

    def show(self, payload: bytes) -> bool:
        """Sends one display, all but its number, and waits until the engine has taken it or refused it. False when
        there is no engine to show it to."""
        if not self.is_ours():
            return False
        with Undisturbed():
            with self._sending:
                if self._idle and len(payload) > MAX_IDLE_DISPLAY:  # a thread's, after its cell: nobody watches
                    return True
                self._displays += 1
                number = self._displays
                self._write_frame(DISPLAY, number.to_bytes(4, "little") + payload)
            self._wait_for_shown(number)
        return True

    def _wait_for_shown(self, number: int) -> None:
        """Ends early when the program is interrupted; the answer is then read by whoever reads next."""
        self.read_while(lambda: self._shown < number and not Undisturbed.interrupted)

    def read_while(self, waits) -> bool:
        """Reads answers until nobody waits for one, and keeps tasks for later. False when the engine has hung up."""
        import select

        while waits():
            if not self.is_ours():
                return False
            if not self._reading.acquire(True, A_MOMENT):
                continue
            try:
                if not waits() or not (self._pending or select.select((self.fd,), (), (), A_MOMENT)[0]):
                    continue
                frame = self._read_frame()
                if frame is None:
                    return False
                if not self._take(frame):
                    self._kept.append(frame)
            finally:
                self._reading.release()
        return True

    def call(self, payload: bytes) -> None:
        """Sends one call of a tool, whole, whatever interrupts."""
        if self.is_ours():
            with Undisturbed(), self._sending:
                self._write_frame(TOOL_CALL, payload)

    def drop_call(self, number: int) -> None:
        """Nobody waits for its result any more."""
        if self.is_ours():
            with Undisturbed(), self._sending:
                self._write_frame(TOOL_CALL_DROPPED, number.to_bytes(4, "little"))

    def start(self) -> None:
        """User code follows; nothing can be broken yet. A word about it would wake the engine for nothing."""
        self._started_ns = _monotonic_ns()
        if self._announces:
            _write(self.fd, STARTED_FRAME)

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Sends one frame if the socket still is ours; what the program broke stays broken, silently."""
        if self.is_ours():  # before the lock: a forked process may find it taken for ever
            with self._sending:
                self._write_frame(kind, payload)

    def end_cell(self, changes: bytes, end: bytes) -> bool:
        """What it changed, if anything, and its end, in one piece: each would wake the engine. False when the socket is
        not ours any more."""
        if not self.is_ours():
            return False
        data = encode_frame(CELL_DONE, end)
        with self._sending:
            self._idle = True
            self._write_all(encode_frame(CHANGES, changes) + data if changes else data)
        return True

    def _write_frame(self, kind: int, payload: bytes) -> None:
        self._write_all(encode_frame(kind, payload))

    def _write_all(self, rest: bytes) -> None:
        """Asked before whether the socket is ours; while it is full that can change."""
        try:
            rest = rest[_write(self.fd, rest):]
            while rest and self.is_ours():
                rest = rest[_write(self.fd, rest):]
        except OSError:
            pass

    def finish(self, code: int) -> None:
        """The last frame. Returns when the engine hangs up; usually it kills us first."""
        if not self.is_ours():
            return
        _write(self.fd, bytes((10, 0, 0, 0, FINISHED, code)) + self._started_ns.to_bytes(8, "little"))
        while _read(self.fd, 4096):
            pass


def encode_frame(kind: int, payload: bytes) -> bytes:
    return (len(payload) + 1).to_bytes(4, "little") + bytes((kind,)) + payload


class Undisturbed:
    """A stretch in which an interrupt waits: a frame that is half read or half sent would be the end of the session.
    Interrupts come to the main thread only; other threads need nothing."""

    __slots__ = ("_handler",)
    interrupted = False

    def __enter__(self) -> None:
        try:
            self._handler = _signal_set(_signal.SIGINT, self._note)
        except ValueError:  # not the main thread
            self._handler = None

    def __exit__(self, *_) -> None:
        if self._handler is None:
            return
        _signal_set(_signal.SIGINT, self._handler)
        if Undisturbed.interrupted:
            Undisturbed.interrupted = False
            if callable(self._handler):
                self._handler(_signal.SIGINT, None)

    @staticmethod
    def _note(number: int, frame: object) -> None:
        Undisturbed.interrupted = True


class Reader:
    """Walks the fields of one payload."""

    __slots__ = ("_at", "_bytes")

    def __init__(self, payload: bytes) -> None:
        self._bytes = payload
        self._at = 0

    def flag(self) -> bool:
        value = self._bytes[self._at : self._at + 1]
        if value not in (b"\0", b"\1"):
            raise ProtocolError("a task has a malformed flag")
        self._at += 1
        return value == b"\1"

    def byte(self) -> int:
        value = self._bytes[self._at : self._at + 1]
        if not value:
            raise ProtocolError("a task is cut short")
        self._at += 1
        return value[0]

    def count(self) -> int:
        number = self._bytes[self._at : self._at + 4]
        if len(number) < 4:
            raise ProtocolError("a task is cut short")
        self._at += 4
        return int.from_bytes(number, "little")

    def text(self) -> bytes:
        start = self._at + 4
        end = start + int.from_bytes(self._bytes[self._at : start], "little")
        if end > len(self._bytes):
            raise ProtocolError("a task is cut short")
        self._at = end
        return self._bytes[start:end]

    def string(self) -> str:
        return str(self.text(), "utf-8", "surrogateescape")

    def pairs(self) -> Environment:
        return [(self.text(), self.text()) for _ in range(self.count())]

    def end(self) -> None:
        if self._at != len(self._bytes):
            raise ProtocolError("a task is too long")


class PutFile:
    """One piece of a file for the workspace."""

    __slots__ = ("append", "data", "executable", "path")

    def __init__(self, payload: bytes) -> None:
        reader = Reader(payload)
        self.path, self.append, self.executable = reader.string(), reader.flag(), reader.flag()
        self.data = reader.text()
        reader.end()


class RunScript:
    """A program to run as __main__."""

    __slots__ = ("arguments", "as_cell", "code", "directory", "environment", "file_name", "has_file", "tools")

    def __init__(self, payload: bytes) -> None:
        reader = Reader(payload)
        self.code, self.file_name, self.has_file = reader.text(), reader.string(), reader.flag()
        self.arguments = [reader.string() for _ in range(reader.count())]
        self.environment, self.as_cell, self.directory = reader.pairs(), reader.flag(), reader.string()
        self.tools = reader.text()
        reader.end()

    @staticmethod
    def encode_plain(code: bytes) -> bytes:
        """The frame of a program of which nothing else is said, as nearly always."""
        name = b"<string>"
        return encode_frame(RUN_SCRIPT, len(code).to_bytes(4, "little") + code + len(name).to_bytes(4, "little") + name + bytes(18))

    @classmethod
    def plain(cls, code: bytes) -> RunScript:
        return cls(cls.encode_plain(code)[5:])


class OpenShell:
    """An interpreter that stays for cells."""

    __slots__ = ("environment", "ipython")

    def __init__(self, payload: bytes) -> None:
        reader = Reader(payload)
        self.environment, self.ipython = reader.pairs(), reader.flag()
        reader.end()


class RunInSession:
    """A cell of a session, or a command for its shell."""

    __slots__ = ("code", "input", "input_text", "is_command", "tools")

    def __init__(self, payload: bytes) -> None:
        reader = Reader(payload)
        self.code, self.is_command = reader.text(), reader.flag()
        self.input, self.input_text, self.tools = reader.byte(), reader.text(), reader.text()
        reader.end()


def decode_run_cell(payload: bytes) -> bytes:
    reader = Reader(payload)
    code = reader.text()
    reader.end()
    return code


class Ask:
    """A question about the namespace, between cells."""

    __slots__ = ("code", "cursor", "detail", "name", "what")

    def __init__(self, payload: bytes) -> None:
        reader = Reader(payload)
        self.what, self.code, self.cursor = reader.byte(), reader.string(), reader.count()
        self.name, self.detail = reader.string(), reader.count()
        reader.end()


class ToolResult:
    """What became of a call."""

    __slots__ = ("code", "number", "ok", "text")

    def __init__(self, payload: bytes) -> None:
        reader = Reader(payload)
        self.number, self.ok = reader.count(), reader.flag()
        self.text, self.code = str(reader.text(), "utf-8", "replace"), reader.string()
        reader.end()


def encode_tool_call(number: int, name: str, given: bytes) -> bytes:
    return number.to_bytes(4, "little") + _text(name, 256) + len(given).to_bytes(4, "little") + given


def encode_changes(variables: list[tuple[str, int, str, str]], more: bool, directory: str, packages: list[str]) -> bytes:
    parts = [len(variables).to_bytes(4, "little")]
    for name, change, kind, summary in variables:
        parts += [_text(name, 256), bytes((change,)), _text(kind, 256), _text(summary, 480)]
    parts += [bytes((more,)), _text(directory, 4096), len(packages).to_bytes(4, "little")]
    return b"".join(parts + [_text(package, 256) for package in packages])


def _text(value: str, most: int) -> bytes:
    """At most `most` bytes, cut before encoding too: the text may be enormous."""
    encoded = str.encode(value[:most], "utf-8", "backslashreplace")
    if len(encoded) > most:
        encoded = encoded[:most].decode("utf-8", "ignore").encode()
    return len(encoded).to_bytes(4, "little") + encoded


def _int32(value: int) -> bytes:
    in_range = -(1 << 31) <= value < 1 << 31
    return (value if in_range else 0).to_bytes(4, "little", signed=True)


class PythonError:
    """What is known about an uncaught exception."""

    __slots__ = ("column", "error_number", "line", "module_name", "name", "similar", "source_line", "traceback", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        self.value = self.module_name = self.similar = self.source_line = ""
        self.error_number = self.line = self.column = 0
        self.traceback: list[str] = []

    def encode(self) -> bytes:
        parts = [_text(self.name, 256), _text(self.value, 4096), _text(self.module_name, 256), _text(self.similar, 256)]
        parts += [_int32(self.error_number), _int32(self.line), _int32(self.column)]
        parts += [_text(self.source_line[:512], 2048)]
        entries = self.traceback[:20]
        parts += [len(entries).to_bytes(4, "little"), *(_text(entry, 2048) for entry in entries)]
        return b"".join(parts)
