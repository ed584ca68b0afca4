"""A program must not notice that it runs here: the same files under the real python3 and under the runner."""
from __future__ import annotations

import os
import re

from support import RunnerTest, run_script

PROGRAMS: dict[str, str | bytes] = {
    "prints": "print('hello')",
    "is empty": "",
    "is only a comment": "# nothing\n",
    "divides by zero": "def f(x):\n    return 1 / x\n\nf(0)\n",
    "raises its own exception": "class Broken(Exception):\n    pass\nraise Broken('so', 1)\n",
    "raises from another": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('no') from e\n",
    "raises while handling": "try:\n    {}['a']\nexcept KeyError:\n    open('/no/such/file')\n",
    "misspells a name": "counter = 1\nprint(countr)\n",
    "misspells an attribute": "import math\nmath.sqrtt(1)\n",
    "imports what is not there": "import no_such_module\n",
    "fails in a library": "import json\njson.loads('{')\n",
    "has an exception that cannot be printed": "class E(Exception):\n    def __str__(self):\n        1/0\nraise E\n",
    "has a note": "e = ValueError('x')\nif hasattr(e, 'add_note'):\n    e.add_note('look here')\nraise e\n",
    "asserts": "assert 1 == 2, 'numbers'\n",
    "has a syntax error": "x = 1\nif x\n    print(x)\n",
    "has a wrong indentation": "def f():\nreturn 1\n",
    "mixes tabs": "if 1:\n\tx=1\n        y=2\n",
    "has an open bracket": "print((1, 2\n",
    "returns outside a function": "return 1\n",
    "imports a broken module": "open('broken.py', 'w').write('x = = 1')\nimport broken\n",
    "exits with nothing": "import sys\nsys.exit()\n",
    "exits with 0": "import sys\nsys.exit(0)\n",
    "exits with 3": "import sys\nsys.exit(3)\n",
    "exits with 256": "import sys\nsys.exit(256)\n",
    "exits with -1": "import sys\nsys.exit(-1)\n",
    "exits with a huge number": "import sys\nsys.exit(2**70)\n",
    "exits with True": "import sys\nsys.exit(True)\n",
    "exits with a message": "import sys\nsys.exit('goodbye')\n",
    "exits with a tuple": "import sys\nsys.exit((1, 'a'))\n",
    "exits with a float": "import sys\nsys.exit(2.0)\n",
    "raises SystemExit with attributes": "e = SystemExit()\ne.code = 5\nraise e\n",
    "exits hard": "import os\nprint('lost')\nos._exit(7)\n",
    "kills itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "aborts": "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nos.abort()\n",
    "waits for threads": (
        "import threading, time\n"
        "def work():\n    time.sleep(.1)\n    print('thread')\n"
        "threading.Thread(target=work).start()\nprint('main')\n"),
    "leaves a daemon thread": (
        "import threading, time\n"
        "def work():\n    while True:\n        time.sleep(.001)\n"
        "threading.Thread(target=work, daemon=True).start()\nprint('main')\n"),
    "fails in a thread": "import threading\nt = threading.Thread(target=lambda: 1/0, name='T')\nt.start()\nt.join()\n",
    "has exit functions": (
        "import atexit\n"
        "atexit.register(print, 'first registered')\natexit.register(print, 'second registered')\nprint('end')\n"),
    "fails in an exit function": "import atexit\n@atexit.register\ndef f():\n    1/0\nprint('end')\n",
    "exits in an exit function": "import atexit, sys\natexit.register(sys.exit, 4)\n",
    "uses a pool until the end": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "import time\npool = ThreadPoolExecutor(2)\n"
        "pool.submit(lambda: (time.sleep(.05), print('done')))\nprint('end')\n"),
    "orders threads before exit functions": (
        "import atexit, threading, time\natexit.register(print, 'atexit')\n"
        "threading.Thread(target=lambda: (time.sleep(.05), print('thread'))).start()\n"),
    "does not close a file": "f = open('out', 'w')\nf.write('hi')\n",
    "does not close a file in an object": (
        "class Log:\n    def __init__(self):\n        self.file = open('out', 'w')\n"
        "    def note(self, x):\n        self.file.write(x)\n"
        "log = Log()\ndef g():\n    log.note('hi')\ng()\n"),
    "does not close a file in a module of its own": (
        "open('helper.py', 'w').write('f = open(\"out\", \"w\")\\ndef w(x): f.write(x)\\n')\n"
        "import helper\nhelper.w('hi')\n"),
    "does not close a file in a cycle": "l = [open('out', 'wb')]\nl[0].write(b'hi')\nl.append(l)\n",
    "hides a file in a library": "import os\nos.hidden = open('out', 'w')\nos.hidden.write('hi')\n",
    "does not close a file and fails": "f = open('out', 'w')\nf.write('hi')\ndef g():\n    f.nothing\ng()\n",
    "does not close a gzip file": "import gzip\nf = gzip.GzipFile('out', 'wb', mtime=0)\nf.write(b'hi')\nf.close()\n",
    "holds a file in a signal handler": (
        "import signal\nf = open('out', 'w')\nf.write('hi')\n"
        "def handler(*a):\n    f.write('x')\nsignal.signal(signal.SIGUSR1, handler)\n"),
    "has finalizers": (
        "class A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('del', self.n)\n"
        "a = A('a')\nb = A('b')\nc = [A('c')]\nc.append(c)\nprint('end')\n"),
    "fails in a finalizer": "class A:\n    def __del__(self):\n        raise ValueError('in del')\na = A()\n",
    "replaces stdout": "import io, sys\nprint('before')\nsys.stdout = io.StringIO()\nprint('after')\n",
    "closes stdout": "import sys\nprint('x')\nsys.stdout.close()\n",
    "deletes stdout": "import sys\nprint('x')\ndel sys.stdout\n",
    "has a stdout that cannot flush": "import sys\nclass O:\n    def write(self, s): pass\nsys.stdout = O()\nprint(1)\n",
    "has no stderr": "import sys\nsys.stderr = None\n1/0\n",
    "writes without newline": "import sys\nsys.stdout.write('abc')\nsys.stderr.write('def')\n",
    "writes surrogates": "print('\\udcff')\n",
    "writes odd text to stderr": "import sys\nprint('\\ud800 é', file=sys.stderr)\n",
    "sets excepthook": "import sys\nsys.excepthook = lambda t, v, b: print('hook', t.__name__, b.tb_lineno)\n1/0\n",
    "exits in excepthook": "import sys\nsys.excepthook = lambda *a: sys.exit(9)\n1/0\n",
    "fails in excepthook": "import sys\ndef hook(*a):\n    {}['k']\nsys.excepthook = hook\n1/0\n",
    "has no excepthook": "import sys\ndel sys.excepthook\n1/0\n",
    "warns": "import warnings\nwarnings.warn('careful')\n",
    "has a deprecated escape": "print('\\d')\n",
    "starts with a byte order mark": b"\xef\xbb\xbfprint('\xc3\xa9')\n",
    "has a coding cookie": b"# -*- coding: latin-1 -*-\nprint('\xe9')\n",
    "has an unknown coding": b"# coding: nonsense\nprint(1)\n",
    "has windows lines": b"x = 1\r\nif x:\r\n    print('crlf')\r\n",
    "has its names": (
        "print(__name__, __doc__, __package__, __spec__, __builtins__.__name__, type(__loader__).__name__)\n"
        "print(sorted(globals()))\nimport sys\nprint(sys.argv[1:], sys.modules['__main__'].__dict__ is globals())\n"),
    "has annotations": "x: int = 1\nprint(__annotations__)\n",
    "has a docstring": "'''doc'''\nprint(__doc__)\n",
    "looks at its flags": "import sys\nprint(sys.stdout.encoding, sys.stderr.errors, sys.stdout.line_buffering)\n",
    "describes its streams": "import sys\nprint(sys.stdin, sys.stdout, sys.stderr, sys.stdout is sys.__stdout__)\n",
    "reads an empty stdin": "import sys\nprint(repr(sys.stdin.read()))\n",
    "pickles its classes": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)\n",
    "forks": (
        "import os, sys\nprint('once', flush=True)\npid = os.fork()\n"
        "if pid:\n    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\nelse:\n    sys.exit(6)\n"),
    "forks and fails in the child": (
        "import os\npid = os.fork()\nif pid == 0:\n    1/0\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"),
    "uses processes": (
        "from multiprocessing import get_context\ndef f(x): return x * x\n"
        "if __name__ == '__main__':\n    with get_context('fork').Pool(2) as p:\n        print(p.map(f, [1, 2, 3]))\n"),
    "spawns processes": (
        "from multiprocessing import get_context\ndef f(x): print(x * x)\n"
        "if __name__ == '__main__':\n    p = get_context('spawn').Process(target=f, args=(3,))\n    p.start()\n    p.join()\n"),
    "awaits in a function": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    print('a')\nasyncio.run(f())\n",
    "logs": "import logging\nlogging.basicConfig(filename='out')\nlogging.error('x')\nlogging.getLogger().warning('y')\n",
    "runs unittest": (
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 1)\n"
        "if __name__ == '__main__':\n    unittest.main(argv=['x', '-q'])\n"),
    "has a dataclass that checks": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n"
        "    def __post_init__(self):\n        raise ValueError(self.x)\nP(3)\n"),
    "groups exceptions": "import sys\nif sys.version_info >= (3, 11):\n    raise ExceptionGroup('g', [ValueError(1), TypeError(2)])\n",
    "recurses": "import sys\nsys.setrecursionlimit(80)\ndef f(): f()\ntry:\n    f()\nexcept RecursionError as e:\n    print(e.args[0][:33])\n",
}

# Where the runner says more than CPython (a source line during shutdown, a frame), or words it differently.
OTHER_STDERR = {"exits in an exit function", "exits with a huge number", "fails in a finalizer", "has an unknown coding"}
# What only a file can have, or a warning that shows its line.
FILE_ONLY = {"has a deprecated escape", "has its names", "spawns processes", "warns"}


def normal(text: bytes | str) -> str:
    """Without what differs from run to run: addresses and times."""
    text = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    return re.sub(r"in \d\.\d+s|0x[0-9a-f]+", "…", text)


class LikeCpythonTest(RunnerTest):
    def test_a_program_in_a_file_behaves_as_under_python3(self) -> None:
        for name, code in PROGRAMS.items():
            with self.subTest(program=name):
                self.clean()
                real = self.real(code)
                real_file = self.left_behind()
                self.clean()
                ours = self.run_file(code)
                self.assertEqual(normal(ours.out), normal(real.stdout))
                if name not in OTHER_STDERR:
                    self.assertEqual(normal(ours.err), normal(real.stderr))
                self.assertEqual(ours.code, real.returncode)
                self.assertEqual(self.left_behind(), real_file)

    def test_code_in_no_file_has_the_same_output_and_exit_code(self) -> None:
        for name, code in PROGRAMS.items():
            if name in FILE_ONLY:
                continue
            with self.subTest(program=name):
                self.clean()
                real = self.real(code)
                self.clean()
                ours = self.run_code(code)
                self.assertEqual(normal(ours.out), normal(real.stdout))
                self.assertEqual(ours.code, real.returncode)
                if name not in OTHER_STDERR:
                    self.assertEqual(normal(ours.err).splitlines()[-1:], normal(real.stderr).splitlines()[-1:])

    def test_a_broken_pipe_is_code_120(self) -> None:
        for code in ("print('x' * 10)", "print('x' * 10)\nraise SystemExit(3)"):
            reader, writer = os.pipe()
            os.close(reader)
            ours = self.send(run_script(code), stdout=writer)
            os.close(writer)
            self.assertEqual(ours.code, 120)
            self.assertIn("BrokenPipeError: [Errno 32] Broken pipe", ours.err)

    def test_an_uncaught_interrupt_is_code_130(self) -> None:
        ours = self.run_code("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('not reached')")
        self.assertEqual((ours.code, ours.out), (130, ""))
        self.assertEqual(ours.errors[0].name, "KeyboardInterrupt")
        self.assertTrue(ours.err.endswith("KeyboardInterrupt\n"), ours.err)

    def test_a_deep_recursion_ends_as_under_python3(self) -> None:
        code = "def f():\n    f()\nf()\n"
        ours, real = self.run_file(code), self.real(code)

        def without_count(text: str) -> str:
            return re.sub(r"repeated \d+ more", "repeated … more", text)

        self.assertEqual(without_count(ours.err), without_count(real.stderr.decode()))
        self.assertEqual(ours.code, 1)
        self.assertEqual(len(ours.errors[0].traceback), 20)

    def test_a_large_program_runs(self) -> None:
        code = "".join(f"x{i} = {i}\n" for i in range(1000)) + "#" + "x" * 5_000_000 + "\nprint(x999)\n1/0\n"
        ours = self.run_code(code)
        self.assertEqual((ours.out, ours.code), ("999\n", 1))
        self.assertEqual(ours.errors[0].line, 1003)

    def clean(self) -> None:
        for name in ("out", "helper.py", "broken.py"):
            (self.workspace / name).unlink(missing_ok=True)

    def left_behind(self) -> bytes | None:
        path = self.workspace / "out"
        return path.read_bytes() if path.exists() else None
