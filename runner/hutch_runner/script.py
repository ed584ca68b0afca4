"""Script mode: the code is __main__, as if `python3 file.py` or `python3 -c code` had been called."""
# Without a future import: exec hands the flags of the code that calls it on.

import builtins
import os
import sys

from . import errors, finish, hooks
from .source import Program
from .wire import Channel, RunScript

__builtins__ = dict(vars(builtins))

TEXT = "<string>"  # what exec calls source that has no name
COROUTINE = 0x80  # inspect.CO_COROUTINE

_set_profile, _set_trace = sys.setprofile, sys.settrace
_has_annotations = sys.version_info < (3, 14)  # later ones make __annotations__ on demand
_arguments_zero = {"<string>": "-c", "<stdin>": "-"}
_staged: list = []  # the entry of sys.path that a stage has put there


class Stage:
    """Everything around a program that is only text, which most are, set up in the zygote before there is one: a
    __main__, sys.argv, sys.path, somebody to show displays to. Each child that has to do so itself copies pages for it."""

    __slots__ = ("channel", "main", "program")

    def __init__(self, channel: Channel, workspace: str) -> None:
        self.channel = channel
        self.main = [new_main(None)]
        self.program = Program(TEXT, b"", False)
        set_arguments(RunScript.plain(b""), workspace)
        _staged[:] = sys.path[:1]
        hooks.connect(channel)

    def perform(self, code: bytes) -> int:
        """Runs the program; its exit code."""
        self.program.raw = code
        return perform(self.program, self.channel, self.main)

    def clear(self) -> None:
        """It will be something else."""
        self.program.forget()


def run(task: RunScript, channel: Channel, workspace: str) -> None:
    """Runs the program and ends the process with its exit code."""
    main = []
    try:
        main.append(new_main(task.file_name if task.has_file else None))
        set_arguments(task, workspace)
        hooks.connect(channel)
        program = Program(task.file_name, task.code, task.has_file)
    except BaseException:
        finish.leave(1, main, channel)
    finish.leave(perform(program, channel, main), main, channel)


def perform(program: Program, channel: Channel, main: list) -> int:
    try:
        return execute(program, channel, main[0].__dict__)
    except BaseException:  # a second failure while the first was reported
        return 1


def execute(program: Program, channel: Channel, names: dict) -> int:
    """The exit code CPython would give. On return nothing of ours refers to the program's objects."""
    channel.start()
    error = None
    try:
        run_program(program, names)
    except BaseException as raised:
        error = raised  # dealt with below: a hook must not find itself inside our except clause
    try:  # a tracer the program has set is not to see, or to stop, what follows
        _set_trace(None)
        _set_profile(None)
    except BaseException:  # raised by the tracer, which CPython then removes
        pass
    if error is None:
        finish.flush_first_streams()  # somebody waits for it; threads and exit functions may take their time
        return 0
    if isinstance(error, SystemExit):
        return finish.exit_code(error)
    return errors.report(error, channel, program)


def run_program(program: Program, names: dict) -> None:
    """As text if that will do: compile() first makes a type for every kind of node in a syntax tree, which is a twentieth
    of a cold start."""
    raw = program.raw
    # Not `await` and `async`, which are allowed outside functions here, nor zeros, which it refuses in other words.
    find = raw.find  # `in` would first raise and catch an error: bytes are no number
    if program.file_name == TEXT and find(b"await") < 0 and find(b"async") < 0 and find(b"\0") < 0:
        return exec(raw, names)
    code = program.compile()
    if code.co_flags & COROUTINE:
        import asyncio

        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def new_main(file_name: str | None):
    """A __main__ with exactly the names a fresh interpreter gives it."""
    module = type(sys)("__main__")
    names = module.__dict__
    names["__loader__"] = builtins.__loader__
    if _has_annotations:
        names["__annotations__"] = {}
    names["__builtins__"] = builtins
    if file_name is not None:
        names["__loader__"] = type(__loader__)("__main__", file_name)
        names["__file__"] = file_name
        names["__cached__"] = None
    sys.modules["__main__"] = module
    return module


def set_arguments(task: RunScript, workspace: str) -> None:
    first = task.file_name if task.has_file else _arguments_zero.get(task.file_name, task.file_name)
    sys.argv = [first, *task.arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    set_first_path(os.path.dirname(task.file_name) if task.has_file else workspace)


def set_first_path(directory: str) -> None:
    if sys.path[:1] == _staged:
        del sys.path[0]
    sys.path.insert(0, directory)
