"""The zygote: a CPython that has imported everything and run nothing. Each fork of it becomes a runner."""
from __future__ import annotations

import gc
import os
import sys
import threading
import time

from . import cell, finish, home, hooks, inspector, ipython_shell, main as runner, script, source, wire

# What nearly every program or its end needs: loaded once here instead of in every child.
USUAL = ("atexit", "contextlib", "io", "linecache", "random", "re", "signal", "tokenize", "traceback", "warnings",
         "weakref")


SPECIALIZED = 20  # after so many calls CPython has chosen its quick instructions, and no child need change the code


def main(arguments: list[str], workspace: str = runner.WORKSPACE) -> None:
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
    warm_up()
    prepare_displays()
    if "IPython.core.interactiveshell" in sys.modules:
        ipython_shell.prepare()
    reseeders = find_random_states()
    forget_start()
    script.prepare()
    gc.collect()
    finish.remember_start()
    _hutch_zygote.make_fork_cheap()
    try_out(b"print()", workspace)
    fd, in_advance = _hutch_zygote.serve(control, int((time.perf_counter() - begin) * 1e6))
    for reseed in reseeders:
        reseed()
    if in_advance:
        os.write(fd, wire.RESTED_FRAME)
    runner.run(fd, workspace)


def prepare_displays() -> None:
    """What shows values and figures, loaded and tried once for all children."""
    from . import charts, figures, images, plots, reprs, tables  # noqa: F401

    hooks.watch()
    for value in (1, "text", [1, {"a": None}]):
        reprs.bundle(value)
    try:
        figures.warm_up()
    except Exception as error:
        print("hutch: cannot plot: %s: %s" % (type(error).__name__, error), file=sys.stderr)


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


def warm_up(programs: tuple = (b"print(end='')", b"import sys\ndef f():\n    1/0\nf()", b"1 +")) -> None:
    """Walks the paths a run takes, so that what is made lazily is made before the fork."""
    import _hutch_zygote

    ours, theirs = _hutch_zygote.make_channel()
    heard = wire.Channel(theirs)
    unheard = wire.Channel(os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC))
    sink = open_stream(unheard.fd, "w", "backslashreplace", "<stderr>")
    before = sys.modules["__main__"], list(sys.path), list(sys.argv), list(sys.orig_argv), sys.stderr
    sys.stderr = sink
    finish.count_modules()
    gc.freeze()  # a collection at the end of each would look at everything that was imported
    for code in programs * SPECIALIZED:
        os.write(ours, script_frame(code))
        task = runner.next_task(heard, "/nowhere")
        main = [script.new_main(None)]
        script.set_arguments(task, "/nowhere")
        script.execute(task, unheard, main[0])
        finish.tidy(main)
    sys.stderr = before[4]
    sys.modules["__main__"] = before[0]
    sys.path[:], sys.argv, sys.orig_argv = before[1], before[2], before[3]
    for fd in (ours, theirs, unheard.fd):
        os.close(fd)
    gc.unfreeze()


def try_out(code: bytes, workspace: str) -> None:
    """One whole run in a child that nobody hears, for the sake of the pages it touches: every child will need them."""
    import _hutch_zygote

    ours, theirs = _hutch_zygote.make_channel()
    pid = os.fork()
    if pid == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.dup2(theirs, wire.CONTROL_FD)
        os.closerange(wire.CONTROL_FD + 1, 64)
        runner.run(wire.CONTROL_FD, workspace)
    os.close(theirs)
    try:
        os.write(ours, script_frame(code))
        said = b""
        while said[-10:-9] != bytes((wire.FINISHED,)):
            piece = os.read(ours, 4096)
            if not piece:
                return  # it died: then forks are a little slower
            said += piece
        _hutch_zygote.remember_pages(pid)
    finally:
        os.close(ours)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def script_frame(code: bytes) -> bytes:
    name = b"<string>"
    task = len(code).to_bytes(4, "little") + code + len(name).to_bytes(4, "little") + name + bytes(18)
    return (len(task) + 1).to_bytes(4, "little") + bytes((wire.RUN_SCRIPT,)) + task


def find_random_states() -> list:
    """What must be called in each child so that no two draw the same numbers. The generators of every loaded library
    are found, not only the one behind random.random()."""
    import random

    found = [thing.seed for thing in gc.get_objects()
             if issubclass(type(thing), random.Random) and not issubclass(type(thing), random.SystemRandom)]
    if "numpy.random" in sys.modules and not reseed_numpy_natively():
        numpy_seed = sys.modules["numpy.random"].seed
        found.append(lambda: numpy_seed([*os.urandom(32)]))
    if "ssl" in sys.modules:
        found.append(find_openssl_state())
    return found


def reseed_numpy_natively() -> bool:
    """numpy's own way takes hundreds of page faults in each child. The state of its global Mersenne Twister is 624
    words at an address that numpy tells; random bytes there are as good a seed as any."""
    try:
        from _hutch_zygote import reseed_at

        generator = sys.modules["numpy.random"].mtrand._rand._bit_generator
        if type(generator).__name__ != "MT19937":
            return False
        reseed_at(generator.ctypes.state_address, 624 * 4)
        return True
    except (AttributeError, ImportError):
        return False


def find_openssl_state():
    """OpenSSL reseeds itself when its process id changes. In a new pid namespace it may not, and only then do we."""
    add, zygote = sys.modules["ssl"].RAND_add, os.getpid()
    add(os.urandom(32), 32.0)  # the first call sets up the generator, which takes a millisecond
    sys.modules["ssl"].RAND_bytes(1)

    def reseed() -> None:
        if os.getpid() == zygote:
            add(os.urandom(32), 32.0)

    return reseed


def forget_start() -> None:
    """Whatever user code could see of the way here: the preload's own state, our path, the warm-up."""
    own = os.path.dirname(os.path.dirname(__file__))
    sys.path[:] = [path for path in sys.path if path != own]
    for path in [path for path in sys.path_importer_cache if path.startswith(own)]:
        del sys.path_importer_cache[path]
    sys.modules["linecache"].clearcache()
    source.programs.clear()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)
    for module, name in (("tempfile", "_name_sequence"), ("tempfile", "tempdir"), ("uuid", "_node"),
                         ("uuid", "_last_timestamp"), ("uuid", "_last_timestamp_v7")):
        if hasattr(sys.modules.get(module), name):
            setattr(sys.modules[module], name, None)  # made anew, in the child, on first use
    sys.stdout.flush()
    sys.stderr.flush()


assert cell and inspector  # imported for the children
