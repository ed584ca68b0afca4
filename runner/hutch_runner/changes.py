"""What a cell did to its surroundings: variables created, changed and removed, the current directory, packages.

It looks after every cell, so it must be cheap: two or three comparisons in C for each variable, and more only for
those that are not small values. Rebinding is seen, but for one case: a list, dict or long text that the cell does not
mention, replaced by one of the same length at the same address. A change in place is seen where a fingerprint shows
it: the length or the shape for every variable; some elements, attributes or bytes for those that the cell's text
mentions. After a simple assignment only the names in it are looked at; what else may have changed, in a thread or by
an operator with a will of its own, is told after the next cell that calls anything.
"""
from __future__ import annotations

import builtins
import os
import re
import sys
from itertools import compress, repeat
from operator import is_not

from . import summaries
from .fingerprints import Fingerprint, held
from .wire import encode_changes

__builtins__ = dict(vars(builtins))

CREATED, CHANGED, REMOVED = 0, 1, 2
MOST_TOLD = 100
MOST_READ = 32 << 10  # bytes of a cell in which mentioned names are looked for
NOT_TOLD = frozenset(("In", "Out", "exit", "quit", "get_ipython", "open"))
WORD = re.compile(r"[^\W\d]\w*")
# `x += 1`, `total = a * b - 2`: nothing is called, so nothing but small values of the names in it can have changed.
SIMPLE = re.compile(rb"[A-Za-z]\w* *[-+*/%&|^]{0,2}= *[\w\"'-][-\w +*/%&|^~<>.\"']*\n*")
METADATA = ".dist-info"

_getcwd, _listdir, _stat = os.getcwd, os.listdir, os.stat
_missing = object()


def is_told(name: object) -> bool:
    """Whether a variable is the user's, and no secret."""
    return type(name) is str and name[:1] != "_" and name not in NOT_TOLD


class Changes:
    """Remembers the state after one cell to compare it with that after the next. Keeps nothing large alive."""

    def __init__(self, names: dict, workspace: str) -> None:
        self._known: dict[str, object] = {}  # by name: a small value itself, or the fingerprint of another
        self._told: list[tuple[str, int, str, str]] = []
        self._count = 0
        self._directory = current_directory("")
        self._packages = Packages(workspace)
        self.after(b"", names)

    def after(self, text: bytes, names: dict) -> bytes:
        """To be called when a cell has run. The payload of a CHANGES frame, empty when there is nothing to tell."""
        try:
            self._told, self._count = [], 0
            mentioned = frozenset(WORD.findall(str(text[:MOST_READ], "utf-8", "replace")))
            directory, packages = "", []
            if not (SIMPLE.fullmatch(text) and self._compare_values(mentioned, names)):
                self._compare_all(mentioned, names.copy())  # threads may go on
                directory, packages = self._moved_to(), self._packages.added()
            if not (self._count or directory or packages):
                return b""
            return encode_changes(self._told, self._count > MOST_TOLD, directory, packages)
        except BaseException:  # keys with a will of their own, no memory: a cell is not to suffer from it
            return b""

    def _compare_values(self, mentioned: frozenset, names: dict) -> bool:
        """Looks at a few names alone. False when one of them has, or had, more than a small value."""
        known = self._known
        for name in mentioned:
            if not held(names.get(name)) or type(known.get(name)) is Fingerprint:
                return False
        for name in mentioned:
            value = names.get(name, _missing)
            if value is not known.get(name, _missing) and value is not _missing:
                self._note(name, value)
        return True

    def _compare_all(self, mentioned: frozenset, now: dict) -> None:
        known, foreign = self._known, 0
        for name in compress(now, map(is_not, now.values(), map(known.get, now, repeat(_missing)))):
            if type(name) is not str:
                foreign += 1
                continue
            value, before = now[name], known.get(name)
            if type(before) is not Fingerprint or not before.fits(value, name in mentioned):
                self._note(name, value)
        if len(known) + foreign != len(now):
            for name in [name for name in known if name not in now]:
                del known[name]
                self._tell(name, REMOVED, "", "")

    def _note(self, name: str, value: object) -> None:
        change = CHANGED if name in self._known else CREATED
        if not is_told(name):
            self._known[name] = value if held(value) else None
            return
        self._known[name] = value if held(value) else Fingerprint(value)
        if len(self._told) < MOST_TOLD:
            self._tell(name, change, *summaries.describe(value))
        else:
            self._count += 1

    def _tell(self, name: str, change: int, kind: str, summary: str) -> None:
        if is_told(name):
            self._count += 1
            if len(self._told) < MOST_TOLD:
                self._told.append((name, change, kind, summary))

    def _moved_to(self) -> str:
        """The current directory, if it is another one."""
        before, self._directory = self._directory, current_directory(self._directory)
        return "" if self._directory == before else self._directory


def current_directory(otherwise: str) -> str:
    try:
        return _getcwd()
    except OSError:  # it was removed
        return otherwise


_installed: dict[str, tuple[int, list[str]]] = {}  # by directory: when it was written to, and what was in it


def note_installed() -> None:
    """In the zygote, so that a session lists a directory only when something has been added."""
    for path in sys.path:
        try:
            if path.endswith("-packages"):
                _installed[path] = _stat(path).st_mtime_ns, metadata_in(path)
        except OSError:
            continue


def metadata_in(path: str) -> list[str]:
    return [name for name in _listdir(path) if name.endswith(METADATA)]


class Packages:
    """What is installed in the directories that Python imports from: those of packages, and those that were added to
    sys.path. Python's own library and the workspace are not among them."""

    def __init__(self, workspace: str) -> None:
        self._path: list = []  # sys.path as it was the last time
        self._ignored = {workspace, *(path for path in sys.path if not path.endswith("-packages"))}
        self._times: dict[str, int] = {}  # when each directory was last written to
        self._known: set[str] = set()
        self.added()

    def added(self) -> list[str]:
        """The packages that were not there the last time, as "name version"."""
        found = []
        for path in self._directories():
            try:
                written = _stat(path).st_mtime_ns
                if self._times[path] != written:
                    self._times[path] = written
                    found += metadata_in(path)
            except OSError:
                continue
        if not found:
            return []
        new = sorted(set(found).difference(self._known, *(names for _, names in _installed.values())))
        self._known.update(new)
        return [name[: -len(METADATA)].replace("-", " ", 1).replace("_", "-") for name in new[:MOST_TOLD]]

    def _directories(self) -> dict[str, int]:
        now = sys.path
        if type(now) is list and now != self._path and all(type(path) is str for path in now):
            self._path = now.copy()
            self._times = {path: self._times.get(path) or _installed.get(path, (0,))[0] for path in now
                           if path.startswith("/") and path not in self._ignored}
        return self._times
