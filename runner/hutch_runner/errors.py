"""An uncaught exception: the traceback on stderr as CPython writes it, and a frame for the engine."""
from __future__ import annotations

import _io
import builtins
import os
import sys

from . import finish
from .source import Program, Sources, programs
from .wire import ERROR, Channel, PythonError

__builtins__ = dict(vars(builtins))

INTERRUPTED = 130
MOST_ENTRIES = 20

_display = sys.__excepthook__  # CPython's own: suggestions, groups and all
_own_directory = os.path.dirname(__file__) + "/"


def report(error: BaseException, channel: Channel, program: Program) -> int:
    """Tells the engine, then the user; the exit code."""
    trace = users_part(error.__traceback__, program)
    BaseException.with_traceback(error, trace)
    try:
        payload = describe(error, trace, program).encode()
    except BaseException:  # a hostile class, or no memory
        payload = PythonError(type.__dict__["__name__"].__get__(type(error))).encode()
    channel.send(ERROR, payload)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    code = call_hook(error, trace)
    if code is not None:
        return code
    return INTERRUPTED if type(error) is KeyboardInterrupt else 1


def users_part(trace, program: Program):
    """Without the runner's frames, and without asyncio's below a program that awaits."""
    program.find_code(trace)
    part = trace
    while part is not None:
        if part.tb_frame.f_code in program.codes:
            return part
        part = part.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_own_directory):
        trace = trace.tb_next
    return trace


def call_hook(error: BaseException, trace) -> int | None:
    """sys.excepthook as PyErr_Print calls it. An exit code when the hook asked for one."""
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        write("sys.excepthook is missing\n")
    elif hook is not _display:
        try:
            hook(type(error), error, trace)
            return None
        except BaseException as raised:
            failure = raised
        if isinstance(failure, SystemExit):
            return finish.exit_code(failure)
        trace_of_hook = failure.__traceback__.tb_next  # without our own frame
        write("Error in sys.excepthook:\n")
        show(BaseException.with_traceback(failure, trace_of_hook), trace_of_hook)
        write("\nOriginal exception was:\n")
    show(error, trace)
    return None


def show(error: BaseException, trace) -> None:
    """CPython up to 3.12 shows no source of code that is in no file: it is added here. Later ones ask linecache."""
    try:
        stream = sys.stderr
        if stream is None:
            return
        if type(error) is MemoryError and sys.version_info >= (3, 13):
            stream.write(plainly(error, trace))  # CPython would import modules now, and may crash for want of memory
        elif not programs:
            _display(type(error), error, trace)
        elif sys.version_info >= (3, 13):
            import linecache  # noqa: F401  CPython loads it now in any case

            for program in programs.values():
                program.show_to_linecache()
            _display(type(error), error, trace)
        else:
            sys.stderr = captured = _io.StringIO()
            try:
                _display(type(error), error, trace)
            finally:
                sys.stderr = stream
            stream.write(with_source(captured.getvalue()))
            stream.flush()
    except BaseException:
        pass


def plainly(error: BaseException, trace) -> str:
    """A traceback made with as little as possible."""
    sources = Sources()
    lines = ["Traceback (most recent call last):"] if trace is not None else []
    lines += ["  " + entry_text(entry, sources) for entry in cut(entries_of(trace))]
    text = str(error)
    lines.append("MemoryError: " + text if text else "MemoryError")
    return "\n".join(lines) + "\n"


def write(text: str) -> None:
    try:
        sys.stderr.write(text)
    except BaseException:
        pass


def with_source(text: str) -> str:
    """The traceback with a program's lines below the entries that come from it."""
    sources = Sources()
    result = []
    for line in text.split("\n"):
        result.append(line)
        entry = line.lstrip(" |")
        if entry.startswith('File "<') and ", in " in entry:
            file_name, _, rest = entry[6:].partition('", line ')
            number, _, function = rest.partition(", in ")
            source = sources.generated(file_name, int(number), function) if number.isdecimal() else ""
            if source:
                result.append(line[: len(line) - len(entry)] + "  " + source.strip())
    return "\n".join(result)


def similar_modules(name: str) -> str:
    """What can be imported and is spelled like it; a hint, so that whatever goes wrong here does not matter."""
    try:
        import difflib

        known = {module for module in sys.stdlib_module_names if not module.startswith("_")}
        for place in sys.path:
            if place.endswith("-packages"):
                known.update(entry.partition(".")[0] for entry in os.listdir(place) if "-" not in entry)
        return ", ".join(difflib.get_close_matches(name.partition(".")[0][:100], known, 3, 0.6))
    except BaseException:
        return ""


def describe(error: BaseException, trace, program: Program) -> PythonError:
    """Everything the engine may want to know, from an object that may lie."""
    kind = type(error)
    about = PythonError(kind.__name__)
    try:
        about.value = str.__getitem__(str(error), slice(0, 4096))
    except BaseException:
        about.value = "<exception str() failed>"
    if issubclass(kind, ModuleNotFoundError) and isinstance(error.name, str):
        about.module_name = error.name
        about.similar = similar_modules(error.name)
    if issubclass(kind, OSError) and isinstance(error.errno, int):
        about.error_number = error.errno
    entries = entries_of(trace)
    sources = Sources()
    if issubclass(kind, SyntaxError) and error.filename == program.file_name:
        about.line, about.column = error.lineno or 0, max(error.offset or 0, 0)
        about.source_line = (error.text or "").strip("\r\n")
    elif entries:
        here = [entry for entry in entries if entry.tb_frame.f_code.co_filename == program.file_name]
        where = (here or entries)[-1]
        about.line = where.tb_lineno or 0
        about.source_line = sources.line(where.tb_frame.f_code, about.line).rstrip("\r\n")
        about.column = column(where, about.source_line)
    about.traceback = [entry_text(entry, sources) for entry in cut(entries)]
    return about


def entries_of(trace) -> list:
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    return entries


def cut(entries: list) -> list:
    """Of a deep recursion, how it began and how it ended."""
    half = MOST_ENTRIES // 2
    return entries if len(entries) <= MOST_ENTRIES else entries[:half] + entries[-half:]


def entry_text(entry, sources: Sources) -> str:
    code, number = entry.tb_frame.f_code, entry.tb_lineno or 0
    text = 'File "%s", line %d, in %s' % (code.co_filename[:512], number, code.co_name[:128])
    source = sources.line(code, number).strip()
    return text + "\n    " + source[:512] if source else text


def column(entry, source_line: str) -> int:
    """1-based, in characters; 0 where this CPython does not know (before 3.11)."""
    code, wanted = entry.tb_frame.f_code, entry.tb_lasti // 2
    if not hasattr(code, "co_positions"):
        return 0
    for index, position in enumerate(code.co_positions()):
        if index == wanted:
            if position[2] is None:
                return 0
            return len(source_line.encode("utf-8", "replace")[: position[2]].decode("utf-8", "replace")) + 1
    return 0
