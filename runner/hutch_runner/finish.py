"""The end of a program: what Py_Finalize does that a program can notice, without its slow rest."""
from __future__ import annotations

import _io
import _thread
import _weakref
import atexit
import builtins
import gc
import os
import sys

from .wire import Channel

__builtins__ = dict(vars(builtins))

FLUSH_FAILED = 120  # CPython's code for output that was lost

_exit, _write = os._exit, os.write
_collect, _get_objects = gc.collect, gc.get_objects
_display = sys.__excepthook__
_run_exit_functions, _count_exit_functions = atexit._run_exitfuncs, atexit._ncallbacks
_count_threads, _modules = _thread._count, sys.modules
_start: dict = {"streams": (), "modules": 0, "handlers": None, "last_wishes": 0}


def remember_start() -> None:
    """Called before user code: what is flushed in the end even when sys.stdout has become something else, and which
    objects are not the program's, so that the collection at the end need not look at them."""
    _start["streams"] = (sys.stdout, sys.stderr)
    _start["last_wishes"] = count_last_wishes()
    count_modules()
    gc.freeze()


def take_over_exit_functions() -> None:
    """In the zygote. Libraries that were preloaded want to be called at the end of every program, and each call copies
    pages. Those that have nothing to do unless the program used them are called by us, and only then."""
    ours = {"logging": ("shutdown",), "weakref": ("finalize", "_exitfunc"), "PIL.Image": ("core", "clear_cache"),
            "matplotlib._pylab_helpers": ("Gcf", "destroy_all")}
    for name, path in ours.items():
        function = _modules.get(name)
        for attribute in path:
            function = getattr(function, attribute, None)
        if function is not None:
            atexit.unregister(function)
    if "weakref" in _modules:
        _modules["weakref"].finalize._registered_with_atexit = False  # it registers again when it has something to do
    if "logging" in _modules:
        _start["handlers"] = handlers()
    if not exit_functions():
        atexit._clear()  # of the empty places too, which count


def exit_functions() -> list:
    """Those that are registered: each is compared with one that is to be unregistered."""
    found = []

    class Any:
        def __eq__(self, function: object) -> bool:
            found.append(function)
            return False

    atexit.unregister(Any())
    return found


def handlers() -> tuple:
    """Of the log: enough to see that there are others."""
    present = _modules["logging"]._handlerList
    return len(present), present[-1:]


def has_handlers() -> bool:
    return _start["handlers"] is not None and "logging" in _modules and handlers() != _start["handlers"]


def call_exit_functions() -> None:
    _run_exit_functions()
    if has_handlers():
        _modules["logging"].shutdown()


def count_modules() -> None:
    """Those that are there now are not the program's."""
    _start["modules"] = len(sys.modules)


def exit_code(stop: SystemExit) -> int:
    """SystemExit as CPython reads it: None is 0, a number is cut to a byte, anything else is printed and means 1."""
    code = stop.code
    if code is None:
        return 0
    if isinstance(code, int):
        number = int.__add__(code, 0)
        return number & 0xFF if -(1 << 63) <= number < 1 << 63 else 255
    try:
        stream = sys.stderr
        stream.write(str(code) + "\n")
        stream.flush()
    except BaseException:
        pass
    return 1


def leave(code: int, main: list, channel: Channel) -> None:
    """Ends the process: says with which code, and waits for the engine to take it from there."""
    flushed = False
    try:
        flushed = end(main)
    finally:
        code = code if flushed else FLUSH_FAILED
        try:
            channel.finish(code)
        finally:
            _exit(code)


def end(main: list) -> bool:
    """Everything but the exit itself. `main` holds the only reference to the __main__ module that is ours. False when
    output was lost."""
    waited = take((join_threads, call_exit_functions)) if somebody_waits() else True
    return tidy(main) and waited


def somebody_waits() -> bool:
    """For the end of the program: its threads, what they left to be done, functions. Mostly nobody does, and asking
    touches less memory than calling them all for nothing."""
    if _count_threads() or _count_exit_functions():
        return True
    return count_last_wishes() != _start["last_wishes"] or has_handlers()


def count_last_wishes() -> int:
    """What is to be done when the last thread has ended."""
    return len(getattr(_modules.get("threading"), "_threading_atexits", ()))


def tidy(main: list) -> bool:
    """What can be done more than once, and is, to warm up."""
    return take((flush_streams, flush_files, lambda: release(main), flush_files, flush_first_streams))


def take(steps: tuple) -> bool:
    complete = True
    for step in steps:
        try:
            complete = step() is not False and complete
        except BaseException:  # a hostile object, no memory, a signal: the next step may still work
            pass
    return complete


def join_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is None:
        return
    try:
        threading._shutdown()
    except BaseException as error:
        ignore(error, "Exception ignored in: %r" % (threading,))


def flush_streams() -> bool:
    """sys.stdout and sys.stderr, whatever they are by now."""
    complete = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is None or is_closed(stream):
            continue
        try:
            stream.flush()
        except BaseException as error:
            complete = False
            if name == "stdout":
                ignore(error, flush_headline(stream))
    return complete


def flush_headline(stream: object) -> str:
    """As this version of CPython words it."""
    if sys.version_info < (3, 13):
        return "Exception ignored in: %r" % (stream,)
    return "Exception ignored %s flushing sys.stdout:" % ("on" if sys.version_info < (3, 14) else "while")


def is_closed(stream: object) -> bool:
    try:
        return bool(stream.closed)
    except BaseException:
        return False


def flush_quietly(stream: object) -> bool:
    try:
        stream.flush()
        return True
    except BaseException:
        return False


def ignore(error: BaseException, headline: str) -> None:
    """What CPython writes about an exception that it cannot raise."""
    try:
        sys.stderr.write(headline + "\n")
        trace = error.__traceback__.tb_next  # without our own frame
        _display(type(error), BaseException.with_traceback(error, trace), trace)
    except BaseException:
        pass


class Watch:
    """Lives exactly as long as the namespace it is put into."""

    __slots__ = ("__weakref__", "namespace")

    def __init__(self, namespace: dict) -> None:
        self.namespace = namespace


def release(main: list) -> None:
    """Lets go of the program's objects, so that files are flushed and finalizers run."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)
    for name in newest(sys.modules, len(sys.modules) - _start["modules"]):
        if is_the_users(sys.modules.get(name)):
            del sys.modules[name]
    sys.modules.pop("__main__", None)
    alive = watch(main)
    _collect()
    rest = alive()
    if rest is not None and not other_threads():
        clear(rest.namespace)
        del rest
        _collect()  # a namespace that was made before the fork is none that the collector looks at


def newest(names: dict, count: int) -> list:
    """The last `count` keys. A list of all would write a reference count into each, and so copy their pages."""
    found = []
    for name in reversed(names):
        if len(found) >= count:
            break
        found.append(name)
    return found[::-1]


def is_the_users(module: object) -> bool:
    """Installed packages stay: they are many, and hold nothing of the program's that flush_files() would miss."""
    try:
        path = module.__file__
        installed = path.startswith(sys.base_prefix + "/lib") or "/site-packages/" in path or "/dist-packages/" in path
        return not installed
    except Exception:
        return False


def watch(main: list):
    """A weak reference that tells whether the namespace of `main` is gone; takes the module out of `main`."""
    if not main:
        return lambda: None
    namespace = main.pop().__dict__
    guard = namespace["__hutch_watch__"] = Watch(namespace)
    return _weakref.ref(guard)


def other_threads() -> bool:
    """A daemon thread must not find its globals gone: in CPython it would be stopped by now."""
    thread = sys.modules.get("_thread")
    return thread is None or thread._count() > 0


def clear(namespace: dict) -> None:
    """In CPython's order: private names, then the others, in the order of their making."""
    names = [name for name in namespace if isinstance(name, str) and name != "__builtins__"]
    private = [name for name in names if name.startswith("_") and not name.startswith("__")]
    for name in private + names:
        namespace[name] = None


def flush_files() -> None:
    """Every open file of the program. Before the collection, because the collector may close a file below the buffer
    that still has text for it; after it, for what finalizers wrote. Text first: it writes into the buffers below."""
    files = [thing for thing in _get_objects() if issubclass(type(thing), _io._IOBase)]
    for kind in (_io.TextIOWrapper, (_io.BufferedWriter, _io.BufferedRandom, _io.BufferedRWPair)):
        for file in files:
            if issubclass(type(file), kind) and not is_closed(file):
                flush_quietly(file)


def flush_first_streams() -> bool:
    """The streams the program began with, if they are not sys.stdout and sys.stderr any more or again."""
    complete = True
    for stream in _start["streams"]:
        try:
            stream.flush()
        except BaseException:
            complete = complete and (stream is None or is_closed(stream))
    return complete
