"""The zygote: a CPython that has imported everything and run nothing. Each fork of it becomes a runner."""
from __future__ import annotations

import gc
import os
import sys
import threading
import time

from . import home

WORKSPACE = "/workspace"
# What nearly every program, its end or our own part needs: loaded once here instead of in every child.
USUAL = ("ast", "atexit", "codeop", "contextlib", "inspect", "io", "json", "keyword", "linecache", "random", "re", "select",
         "signal", "tokenize", "traceback", "warnings", "weakref")


def main(arguments: list[str], workspace: str = WORKSPACE) -> None:
    """`arguments`: the keeper's descriptor, then the modules to preload. Never returns."""
    import _hutch_zygote

    begin = time.perf_counter()
    control, modules = int(arguments[0]), arguments[1:]
    make_streams()
    home.fill()
    count = getattr(_hutch_zygote, "thread_count", count_threads)
    for name in (*USUAL, *modules):
        preload(name)
        if max(count(), threading.active_count()) > 1:
            sys.exit("hutch: preloading %s starts a thread; a zygote must have only one" % name)
    gc.collect()
    _hutch_zygote.fill_gaps()
    from . import rehearsal  # only now: what every child runs lies side by side, and not between what was preloaded

    stage, reseeders = rehearsal.prepare(workspace)
    trials = rehearsal.sessions()
    in_advance = _hutch_zygote.serve(control, int((time.perf_counter() - begin) * 1e6), trials)
    rehearsal.become_runner(in_advance, stage, reseeders, workspace)


def make_streams() -> None:
    """Before any import can hold on to the old ones, and on pipes, because that is what a run gives them."""
    saved = [os.dup(fd) for fd in range(3)]
    reading, writing = os.pipe()
    for fd, end in enumerate((reading, writing, writing)):
        os.dup2(end, fd)
    sys.stdin = sys.__stdin__ = open_stream(0, "r", "surrogateescape", "<stdin>")
    sys.stdout = sys.__stdout__ = open_stream(1, "w", "surrogateescape", "<stdout>")
    sys.stderr = sys.__stderr__ = open_stream(2, "w", "backslashreplace", "<stderr>")
    for fd, old in enumerate(saved):
        os.dup2(old, fd)
        os.close(old)
    os.close(reading)
    os.close(writing)


def open_stream(fd: int, mode: str, errors: str, name: str):
    """As CPython's create_stdio does it."""
    stream = open(fd, mode, -1, "utf-8", errors, "\n" if mode == "w" else None, False)
    stream.buffer.raw.name = name
    stream.mode = mode
    if fd == 2:
        stream.reconfigure(line_buffering=True)
    return stream


def preload(name: str) -> None:
    """A template with one broken package still is of use."""
    try:
        __import__(name)
    except (Exception, SystemExit) as error:
        what = " ".join(str(error).split())
        print("hutch: cannot preload %s: %s: %s" % (name, type(error).__name__, what), file=sys.stderr)


def count_threads() -> int:
    """Threads of native libraries too, where /proc is mounted."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1
