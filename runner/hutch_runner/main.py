"""The runner: reads tasks from the engine until one of them is the program or the shell, and never returns."""
from __future__ import annotations

import _signal
import builtins
import gc
import os
import sys

from . import finish, script
from .wire import OPEN_PORTER, OPEN_SHELL, PUT_FILE, RUN_SCRIPT
from .wire import Channel, Environment, OpenShell, ProtocolError, PutFile, RunScript

__builtins__ = dict(vars(builtins))

WORKSPACE = "/workspace"
SETUP_FAILED = 125  # the exit code that says: not the program's fault

_close, _exit, _fchmod, _open, _write = os.close, os._exit, os.fchmod, os.open, os.write


def run(channel: Channel, workspace: str = WORKSPACE) -> None:
    """Serves the engine; ends the process."""
    try:
        task = next_task(channel, workspace)
    except BaseException as error:
        give_up(error)
    if isinstance(task, RunScript) and not task.as_cell:
        script.run(task, channel, workspace)
    if task is None:
        from . import porter

        porter.run(channel, workspace)
    from . import cell

    if isinstance(task, RunScript):
        cell.run_script(task, channel, workspace)
    cell.run(channel, workspace, task.ipython)


def start(fd: int, workspace: str) -> None:
    """The runner without a zygote, which would have done this before its fork."""
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "surrogateescape"),
                           (sys.stderr, "backslashreplace")):
        if stream is not None and (stream.encoding != "utf-8" or stream.errors != errors):
            stream.reconfigure(encoding="utf-8", errors=errors)  # whatever the locale says
    os.set_inheritable(fd, False)
    finish.remember_start()
    gc.enable()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    run(Channel(fd, announces=True), workspace)


def next_task(channel: Channel, workspace: str) -> RunScript | OpenShell | None:
    """Stores the files that come first. None: be the porter."""
    while True:
        frame = channel.receive()
        if frame is None:
            _exit(0)  # nobody wanted this runner
        kind, payload = frame
        if kind == PUT_FILE:
            put_file(PutFile(payload), workspace)
        elif kind == RUN_SCRIPT:
            task = RunScript(payload)
            add_environment(task.environment)
            if task.directory:
                os.makedirs(task.directory, exist_ok=True)
                os.chdir(task.directory)
            return task
        elif kind == OPEN_SHELL:
            shell = OpenShell(payload)
            add_environment(shell.environment)
            return shell
        elif kind == OPEN_PORTER:
            return None
        else:
            raise ProtocolError("task %d was not expected" % kind)


def give_up(error: BaseException) -> None:
    """The engine reads this line and the code; user code has not run, or cannot go on."""
    what = "%s: %s" % (type(error).__name__, error)
    try:
        _write(2, ("hutch: the runner cannot start the program: %s\n" % what).encode("utf-8", "backslashreplace"))
    finally:
        _exit(SETUP_FAILED)


def put_file(task: PutFile, workspace: str) -> None:
    """Files are written from inside, with no more rights than the program has."""
    if not task.path or task.path.startswith("/") or ".." in task.path.split("/"):
        raise ProtocolError("the path %r is not below the workspace" % task.path)
    path = os.path.join(workspace, task.path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_APPEND if task.append else os.O_TRUNC)
    try:
        fd = _open(path, flags, 0o644)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = _open(path, flags, 0o644)
    try:
        rest = memoryview(task.data)
        while rest:
            rest = rest[_write(fd, rest):]
        if task.executable:
            _fchmod(fd, 0o755)
    finally:
        _close(fd)


def add_environment(environment: Environment) -> None:
    for name, value in environment:
        os.environb[name] = value
