"""What a zygote does between its imports and its first fork, so that no child has to: everything that a run needs is
loaded, walked through once, and put where fork is cheap."""
from __future__ import annotations

import _signal
import builtins
import contextlib
import gc
import os
import sys

import _hutch_zygote

from . import cell, changes, finish, hooks, inspector, ipython_shell, main as runner, script, source, wire
from .wire import CONTROL_FD
from .zygote import open_stream

_receive, _leave = _hutch_zygote.receive, finish.leave  # each module that is named costs a child two pages

OPEN_SHELL = wire.encode_frame(wire.OPEN_SHELL, bytes(5))  # without variables and IPython
OPEN_IPYTHON = wire.encode_frame(wire.OPEN_SHELL, bytes(4) + b"\1")
PROGRAM = wire.RunScript.encode_plain(b"x = 1\nprint(x, 'a')")
# None ends with a value: it would be displayed, and the one that is tried out would wait for somebody who has seen it.
USUAL_CELLS = (b"import json, math\nclass A:\n    def f(self, a=1, *b):\n        return [a for _ in b]\ny = A().f(1, 2)",
               b"with open('/dev/null') as f:\n    text = f.read()\nfor i in range(3):\n    print(f'{i:3}', end='')",
               b"try:\n    import pandas as pd\n    print(pd.DataFrame({'a': [1, 2]}).describe())\nexcept ImportError:\n"
               b"    pass", b"z = repr({'a': [1, 2.5], 'b': None})", b"def g(n):\n    return n and g(n - 1)\ng(3) / 0")
PANDAS = b"""import pandas as pd
table = pd.DataFrame({'name': ['a', 'b', 'a'] * 5, 'count': range(15)})
table['share'] = table['count'] * 0.5
print(table.head(3), table[table['count'] > 2].describe())
print(table.groupby('name')['count'].sum(), table.groupby('name').agg({'count': 'mean', 'share': 'max'}))
"""
SPECIALIZED = 20  # after so many calls CPython has chosen its quick instructions, and no child need change the code


def prepare(workspace: str) -> tuple[script.Stage, list]:
    """Returns what a child begins with, and what has to be called in it to reseed random number generators."""
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    prepare_displays()
    if "IPython.core.interactiveshell" in sys.modules:
        ipython_shell.prepare()
    reseeders = find_random_states()
    changes.note_installed()
    finish.take_over_exit_functions()
    rehearse_cells()
    if "pandas" in sys.modules:
        rehearse_programs((PANDAS,))
    rehearse_programs()
    forget_start()
    stage = script.Stage(wire.Channel(wire.CONTROL_FD), workspace)
    set_fork_hooks_aside()
    cell.rest = _hutch_zygote.rest
    gc.collect()
    _hutch_zygote.fill_gaps()
    finish.remember_start()
    _hutch_zygote.make_fork_cheap()
    try_out(stage, workspace)
    return stage, reseeders


def become_runner(in_advance: bool, stage: script.Stage, reseeders: list, workspace: str) -> None:
    """In a child, behind its walls. Never returns."""
    for reseed in reseeders:
        reseed()
    if in_advance:
        os.write(CONTROL_FD, wire.RESTED_FRAME)
    code, said = _receive(CONTROL_FD)
    stage.channel.begin(said)
    if code is not None:
        _leave(stage.perform(code), stage.main, stage.channel)
    stage.clear()
    runner.run(stage.channel, workspace)


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


@contextlib.contextmanager
def unheard():
    """A channel to nobody, and everything that a program or cell changes put back afterwards."""
    channel = wire.Channel(os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC))
    sink = open_stream(channel.fd, "w", "backslashreplace", "<stderr>")
    main, path, names = sys.modules["__main__"], list(sys.path), dict(vars(builtins))
    kept = {name: getattr(sys, name) for name in ("argv", "displayhook", "orig_argv", "stderr", "stdout")}
    sys.stdout = sys.stderr = sink
    finish.count_modules()
    gc.freeze()  # a collection at the end of each would look at everything that was imported
    yield channel
    gc.unfreeze()
    for name, value in kept.items():
        setattr(sys, name, value)
    sys.path[:] = path
    sys.modules["__main__"] = main
    for name in vars(builtins).keys() - names.keys():
        delattr(builtins, name)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    os.close(channel.fd)


def rehearse_programs(programs: tuple = (b"print(end='')", b"import sys\ndef f():\n    1/0\nf()", b"1 +")) -> None:
    """Walks the paths a run takes, so that what is made lazily is made before the fork."""
    ours, theirs = _hutch_zygote.make_channel()
    with unheard() as channel:
        for code in programs * SPECIALIZED:
            stage = script.Stage(channel, "/nowhere")
            os.write(ours, wire.RunScript.encode_plain(code))
            code, said = _hutch_zygote.receive(theirs)
            channel.begin(said)
            stage.perform(code)
            finish.somebody_waits()
            finish.tidy(stage.main)
    os.close(ours)
    os.close(theirs)


def rehearse_cells(cells: tuple = (b"x = 1", b"x += 1", b"x", b"1/0", *USUAL_CELLS[:2])) -> None:
    """The same for a session."""
    ours, theirs = _hutch_zygote.make_channel()
    heard = wire.Channel(theirs)
    with unheard() as channel:
        for _ in range(SPECIALIZED):
            script.Stage(channel, "/nowhere").clear()
            os.write(ours, OPEN_SHELL)
            runner.next_task(heard, "/nowhere")
            session = cell.Session(channel, "/nowhere", cell.Shell(channel, "/nowhere"))
            for code in cells:
                os.write(ours, run_cell(code))
                session.carry_out(*heard.receive())
    os.close(ours)
    os.close(theirs)


def sessions() -> tuple[tuple[bytes, bytes], ...]:
    """What each kind is told when it is tried out: how it begins, and what is often done in one."""
    kinds = (OPEN_SHELL, OPEN_IPYTHON) if "IPython.core.interactiveshell" in sys.modules else (OPEN_SHELL,)
    usual = b"".join(run_cell(code) for code in USUAL_CELLS)
    return tuple((kind + run_cell(b"x = 1"), usual) for kind in kinds)


def run_cell(code: bytes) -> bytes:
    return wire.encode_frame(wire.RUN_CELL, len(code).to_bytes(4, "little") + code)


def try_out(stage: script.Stage, workspace: str) -> None:
    """A run in a child that nobody hears, for the sake of the pages it touches: every child will need them."""
    ours, theirs = _hutch_zygote.make_channel()
    pid = os.fork()
    if pid == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.dup2(theirs, CONTROL_FD)
        os.closerange(CONTROL_FD + 1, 64)
        _hutch_zygote.come_alone()
        _hutch_zygote.rehearse_fork()
        become_runner(False, stage, [], workspace)
    os.close(theirs)
    try:
        os.write(ours, PROGRAM)
        heard = wire.Channel(ours)
        while (frame := heard.receive()) is not None and frame[0] != wire.FINISHED:
            pass
        if frame is not None:  # else it died: then forks are a little slower
            _hutch_zygote.remember_pages(pid)
    finally:
        os.close(ours)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def set_fork_hooks_aside() -> None:
    """What the libraries do around a fork is mostly to clean up after threads and caches of the parent: locks are made
    anew, caches emptied. Done once in the zygote, which has one thread and then only waits, it is done for all children,
    and they touch nothing of it. What may be different in each child, they still do; and what they fork themselves
    does everything."""
    _hutch_zygote.rehearse_fork()
    lists = fork_hooks()
    locks = [hook.__self__ for hooks in lists for hook in hooks if name_of(hook) == "_at_fork_reinit"]

    def only_cleans(hook: object) -> bool:
        """random's seeds, and is taken care of by find_random_states()."""
        if name_of(hook) in ("acquire", "release", "_at_fork_reinit"):
            return any(hook.__self__ is lock for lock in locks)
        return getattr(hook, "__module__", "") in ("threading", "logging", "random") or name_of(hook) == "cache_clear"

    for hooks in lists:
        hooks.sort(key=only_cleans)
        _hutch_zygote.set_aside(hooks, sum(not only_cleans(hook) for hook in hooks))


def fork_hooks() -> list[list]:
    """CPython's own lists of what os.register_at_fork was given, by what is in them and was not before."""
    def mark() -> None:
        pass

    os.register_at_fork(before=mark, after_in_parent=mark, after_in_child=mark)
    found = [holder for holder in gc.get_referrers(mark) if type(holder) is list]
    for hooks in found:
        hooks.remove(mark)
    return found


def name_of(function: object) -> str:
    return getattr(function, "__name__", "")


def find_random_states() -> list:
    """What must be called in each child so that no two draw the same numbers. The generators of every loaded library
    are found, not only the one behind random.random()."""
    import random

    generators = [thing for thing in gc.get_objects()
                  if issubclass(type(thing), random.Random) and not issubclass(type(thing), random.SystemRandom)]
    found = [generator.seed for generator in generators if not reseed_natively(generator)]
    if "numpy.random" in sys.modules and not reseed_numpy_natively():
        numpy_seed = sys.modules["numpy.random"].seed
        found.append(lambda: numpy_seed([*os.urandom(32)]))
    if "ssl" in sys.modules:
        found.append(find_openssl_state())
    return found


def reseed_natively(generator) -> bool:
    """random.Random seeds itself in a hundred pages of Python. Its state is 624 words, somewhere in the object; when it
    has just been seeded, random bytes there are a seed too."""
    import random

    try:
        generator.seed()
        *words, position = generator.getstate()[1]
        place = _hutch_zygote.find_bytes(generator, b"".join(word.to_bytes(4, sys.byteorder) for word in words))
        if type(generator).seed is not random.Random.seed or position != 624 or not place:
            return False
        _hutch_zygote.reseed_at(place, 624 * 4)
        return True
    except (AttributeError, TypeError, ValueError):
        return False


def reseed_numpy_natively() -> bool:
    """numpy's own way takes hundreds of page faults in each child. The state of its global Mersenne Twister is 624
    words at an address that numpy tells; random bytes there are as good a seed as any."""
    try:
        generator = sys.modules["numpy.random"].mtrand._rand._bit_generator
        if type(generator).__name__ != "MT19937":
            return False
        _hutch_zygote.reseed_at(generator.ctypes.state_address, 624 * 4)
        return True
    except (AttributeError, ValueError):
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
