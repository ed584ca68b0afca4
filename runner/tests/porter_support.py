"""Plays the engine to a porter in a forked child. Encodes frames on its own, as support.py does."""
from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import traceback

from support import RUNNER, Connection, RunnerTest, frame, text

sys.path.insert(0, str(RUNNER))
from hutch_runner import porter, wire  # noqa: E402

WRITE, DATA, END, ABORT, REMOVE, MKDIR, MOVE, PACK, UNPACK, WRITE_FILES, NEXT_FILE = range(10, 21)
DONE, FAILED, PIECE = 80, 81, 82
TAR, ZIP = 0, 1


class Porter(Connection):
    """The engine's end, and the process at the other."""

    def __init__(self, workspace: str, prepare=None, first=None) -> None:
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ours.close()
                if prepare is not None:
                    prepare()
                channel = wire.Channel(theirs.fileno())
                if first is not None:
                    first(channel)
                porter.run(channel, workspace)
            except BaseException:
                traceback.print_exc()
            os._exit(99)
        theirs.close()
        super().__init__(ours)
        self.message = ""  # of the last failure

    def wait(self) -> int:
        """Hangs up; the exit code."""
        self.end.close()
        if self.pid:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.pid = 0
        return self.code

    def say(self, kind: int, payload: bytes = b"") -> None:
        self.end.sendall(frame(kind, payload))

    def data(self, *pieces: bytes) -> None:
        for piece in pieces:
            for start in range(0, len(piece), 1 << 20):
                self.say(DATA, piece[start:start + (1 << 20)])

    def answer(self) -> tuple:
        """(created, count, size) or the code of a failure."""
        got = self.receive()
        assert got is not None, "the porter is gone"
        kind, payload = got
        if kind == DONE:
            created, count, size = struct.unpack("<BIQ", payload)
            return bool(created), count, size
        assert kind == FAILED, kind
        length, = struct.unpack_from("<I", payload)
        code, rest = payload[4:4 + length].decode(), payload[4 + length:]
        assert struct.unpack_from("<I", rest)[0] == len(rest) - 4 > 0, rest
        self.message = rest[4:].decode()
        return code

    def write(self, path: str, *pieces: bytes, executable: bool = False, exclusive: bool = False, last: int = END):
        self.say(WRITE, text(path) + bytes((executable, exclusive)))
        self.data(*pieces)
        self.say(last)
        return self.answer()

    def write_files(self, *files: tuple[str, bytes], last: int = END):
        self.say(WRITE_FILES)
        for path, content in files:
            self.say(NEXT_FILE, text(path))
            self.data(content)
        self.say(last)
        return self.answer()

    def remove(self, path: str, recursive: bool = False):
        self.say(REMOVE, text(path) + bytes((recursive,)))
        return self.answer()

    def mkdir(self, path: str):
        self.say(MKDIR, text(path))
        return self.answer()

    def move(self, old: str, new: str, overwrite: bool = False):
        self.say(MOVE, text(old) + text(new) + bytes((overwrite,)))
        return self.answer()

    def pack(self, path: str, form: int):
        """(the archive, the answer)."""
        self.say(PACK, text(path) + bytes((form,)))
        pieces = []
        while True:
            head = self._exactly(5)
            size, kind = struct.unpack("<IB", head)
            if kind != PIECE:
                self.receive = lambda: (kind, self._exactly(size - 1))
                answer = self.answer()
                del self.receive
                return b"".join(pieces), answer
            assert 0 < size - 1 <= 256 << 10
            pieces.append(self._exactly(size - 1))

    def unpack(self, path: str, form: int, archive: bytes, most_files: int = 1000, last: int = END):
        self.say(UNPACK, text(path) + bytes((form,)) + struct.pack("<I", most_files))
        self.data(archive)
        self.say(last)
        return self.answer()


class PorterTest(RunnerTest):
    """A workspace with a porter, and a directory beside it that must stay as it is."""

    def setUp(self) -> None:
        super().setUp()
        self.outside = self.workspace / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret")
        self.inside = self.workspace / "inside"
        self.inside.mkdir()
        self.porter = self.start_porter()

    def tearDown(self) -> None:
        self.assertEqual(self.tree(self.outside), ["secret"])
        self.assertEqual((self.outside / "secret").read_text(), "secret")

    def start_porter(self, prepare=None, first=None) -> Porter:
        started = Porter(str(self.inside), prepare, first)
        self.addCleanup(started.wait)
        return started

    def wait_for(self, condition) -> None:
        for _ in range(60_000):
            if condition():
                return
            threading.Event().wait(.001)
        self.fail("it did not happen")

    def tree(self, top=None) -> list[str]:
        top = top or self.inside
        found = []
        for here, directories, files in os.walk(top):
            found += [os.path.relpath(os.path.join(here, name), top) for name in directories + files]
        return sorted(found)
