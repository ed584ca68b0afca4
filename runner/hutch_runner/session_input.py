"""What the cells of a session find on standard input: nothing, a text, or what somebody sends while they run."""
from __future__ import annotations

import os
import sys

from .wire import INPUT_LIVE, INPUT_NONE


class SessionInput:
    """Owns the pipe from the engine; descriptor 0 is whatever the current cell was given."""

    def __init__(self) -> None:
        self._pipe = -1
        self._now = INPUT_LIVE

    def give(self, kind: int, text: bytes) -> None:
        if kind == self._now == INPUT_NONE:
            return
        if self._pipe < 0:
            self._pipe = os.dup(0)
        if kind == INPUT_LIVE:
            os.dup2(self._pipe, 0)
        else:
            self._replace(b"" if kind == INPUT_NONE else text)
        self._now = kind
        forget_what_was_read_ahead()

    @staticmethod
    def _replace(text: bytes) -> None:
        if not text:
            source = os.open("/dev/null", os.O_RDONLY)
        else:
            source = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
            os.write(source, text)
            os.lseek(source, 0, os.SEEK_SET)
        os.dup2(source, 0)
        os.close(source)


def forget_what_was_read_ahead() -> None:
    """A new reader, unless the program has put its own in place."""
    if sys.stdin is not sys.__stdin__:
        return
    old = sys.stdin
    sys.stdin = sys.__stdin__ = open(0, "r", -1, old.encoding, old.errors, None, False)
    sys.stdin.mode = "r"
