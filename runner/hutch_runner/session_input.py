"""What the cells of a session find on standard input: nothing, a text, or what somebody sends while they run."""
from __future__ import annotations

import io
import os
import sys

from .wire import INPUT_LIVE, INPUT_NONE, INPUT_WANTED, Channel


class SessionInput:
    """Owns the pipe from the engine; descriptor 0 is whatever the current cell was given."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._pipe = -1
        self._now = -1

    def give(self, kind: int, text: bytes) -> None:
        if kind == self._now == INPUT_NONE:
            return
        if self._pipe < 0:
            self._pipe = os.dup(0)
        if kind == INPUT_LIVE:
            os.dup2(self._pipe, 0)
        else:
            replace_input(b"" if kind == INPUT_NONE else text)
        self._now = kind
        self._read_anew()

    def _read_anew(self) -> None:
        """What one cell read ahead is not the next one's. A reader that the program put in place stays."""
        if sys.stdin is not sys.__stdin__:
            return
        old = sys.stdin
        raw = LiveInput(self._channel) if self._now == INPUT_LIVE else io.FileIO(0, "r", False)
        raw.name = "<stdin>"
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw), old.encoding, old.errors)
        sys.stdin.mode = "r"


class LiveInput(io.FileIO):
    """Says that somebody waits, before each wait."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(0, "r", False)
        self._channel = channel

    def readinto(self, buffer) -> int | None:
        self._channel.send(INPUT_WANTED)
        return super().readinto(buffer)


def replace_input(text: bytes) -> None:
    if not text:
        source = os.open("/dev/null", os.O_RDONLY)
    else:
        source = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(source, rest):]
        os.lseek(source, 0, os.SEEK_SET)
    os.dup2(source, 0)
    os.close(source)
