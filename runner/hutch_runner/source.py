"""Source text: what was given to run, and the lines that tracebacks show."""
from __future__ import annotations

import _io
import builtins
import os
import stat
import sys

__builtins__ = dict(vars(builtins))

ALLOW_TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, without importing ast
MOST_SOURCE = 8 << 20  # bytes of a file that are read to show one line of it

_open, _stat = _io.open, os.stat
programs: dict[str, Program] = {}  # those whose source is in no file, by the name tracebacks use


class Program:
    """Source text under the name tracebacks use for it."""

    __slots__ = ("codes", "file_name", "raw")

    def __init__(self, file_name: str, raw: bytes, in_file: bool) -> None:
        self.file_name = file_name
        self.raw = raw
        self.codes: list = []  # what it was compiled to
        if not in_file:
            programs[file_name] = self
            self.show_to_linecache()

    def forget(self) -> None:
        """It is not to be run."""
        programs.pop(self.file_name, None)
        sys.modules["linecache"].cache.pop(self.file_name, None)

    def compile(self):
        """Bytes, not text: CPython itself then honours a byte order mark and a coding cookie."""
        try:
            code = compile(self.raw, self.file_name, "exec", ALLOW_TOP_LEVEL_AWAIT, True)
        except ValueError as error:
            if isinstance(error, (SyntaxError, UnicodeError)) or b"\0" not in self.raw:
                raise
            raise SyntaxError("source code cannot contain null bytes") from None
        self.codes.append(code)
        return code

    def find_code(self, trace) -> None:
        """Of a program that ran as text and failed: the first frame that bears its name. There is none if it did not
        compile."""
        while trace is not None and not self.codes:
            code = trace.tb_frame.f_code
            if code.co_filename == self.file_name and code.co_name == "<module>":
                self.codes.append(code)
            trace = trace.tb_next

    def lines(self) -> list[str]:
        """Split as the tokenizer does, which str.splitlines does not."""
        lines = self.raw.removeprefix(b"\xef\xbb\xbf").splitlines(True)
        try:
            return [line.decode() for line in lines]
        except UnicodeDecodeError:
            return [line.decode("latin-1") for line in lines]

    def show_to_linecache(self) -> None:
        """So that the program's own traceback.print_exc and inspect.getsource see code that is in no file. Where
        linecache is not loaded this waits, because loading it would be most of a cold start."""
        linecache = sys.modules.get("linecache")
        if linecache is not None:
            linecache.cache[self.file_name] = (0, None, Lines(self), self.file_name)  # what has no time has no size


class Lines:
    """The lines of a program for linecache, split when somebody asks: nearly nobody does."""

    __slots__ = ("_lines", "_program")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lines: list[str] | None = None

    def _list(self) -> list[str]:
        if self._lines is None:
            self._lines = self._program.lines()
        return self._lines

    def __len__(self) -> int:
        return len(self._list())

    def __getitem__(self, index):
        return self._list()[index]

    def __iter__(self):
        return iter(self._list())


class Sources:
    """Lines of source for one report. Reads files itself: linecache is slow to load and may have been tampered with."""

    def __init__(self) -> None:
        self._files: dict[str, list[bytes]] = {}
        self._programs: dict[str, tuple[list[str], dict[str, list]]] = {}

    def line(self, code, number: int) -> str:
        if code.co_filename in programs:
            return self.generated(code.co_filename, number, code.co_name)
        lines = self._read(code.co_filename)
        return lines[number - 1].decode("utf-8", "replace") if 0 < number <= len(lines) else ""

    def generated(self, file_name: str, number: int, function: str) -> str:
        """A line of a program that is in no file. Others (dataclasses, namedtuple) generate code under the name
        "<string>" as well: only a function that has this line in what we compiled is the program's."""
        if file_name not in programs:
            return ""
        if file_name not in self._programs:
            program = programs[file_name]
            self._programs[file_name] = (program.lines(), codes_by_name(program.codes))
        lines, functions = self._programs[file_name]
        if not any(line == number for code in functions.get(function, ()) for _, _, line in code.co_lines()):
            return ""
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def _read(self, path: str) -> list[bytes]:
        if path not in self._files:
            self._files[path] = []
            try:
                if stat.S_ISREG(_stat(path).st_mode):  # a pipe of that name would keep us waiting
                    with _open(path, "rb") as file:
                        self._files[path] = file.read(MOST_SOURCE).splitlines(True)
            except (OSError, ValueError):
                pass
        return self._files[path]


def codes_by_name(codes: list) -> dict[str, list]:
    found: dict[str, list] = {}
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        found.setdefault(code.co_name, []).append(code)
        waiting += [constant for constant in code.co_consts if type(constant) is type(code)]
    return found
