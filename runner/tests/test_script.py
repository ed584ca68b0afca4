"""What the engine asks for and gets told: files, arguments, environment, error frames; and programs that attack us."""
from __future__ import annotations

import os
import sys

from support import COLD, ERROR, STARTED, Error, RunnerTest, frame, put_file, run_script


class TaskTest(RunnerTest):
    def test_files_are_written_before_the_program_runs(self) -> None:
        ours = self.send(
            put_file("a/b/data.txt", b"one "), put_file("a/b/data.txt", b"two", append=True),
            put_file("tool.sh", b"#!/bin/sh\necho tool\n", executable=True),
            run_script("print(open('a/b/data.txt').read(), flush=True)\nimport os\nos.system('./tool.sh')"))
        self.assertEqual((ours.out, ours.err, ours.code), ("one two\ntool\n", "", 0))
        self.assertEqual((self.workspace / "tool.sh").stat().st_mode & 0o777, 0o755)

    def test_a_file_replaces_an_older_one(self) -> None:
        (self.workspace / "x").write_bytes(b"longer than the new one")
        self.send(put_file("x", b"new"), run_script(""))
        self.assertEqual((self.workspace / "x").read_bytes(), b"new")

    def test_a_file_that_cannot_be_written_ends_the_run(self) -> None:
        (self.workspace / "directory").mkdir()
        os.symlink("/etc/passwd", self.workspace / "link")
        for path in ("directory", "link", "../outside", "/etc/x", ""):
            with self.subTest(path=path):
                ours = self.send(put_file(path, b"x"), run_script("print('ran')"))
                self.assertEqual((ours.out, ours.code, ours.kinds), ("", 125, []))
                self.assertRegex(ours.err, r"\Ahutch: the runner cannot start the program: [^\n]+\n\Z")

    def test_malformed_tasks_end_the_run(self) -> None:
        for task in (frame(9, b""), frame(2, b"\xff\xff\xff\xff"), frame(3, b"\0\0\0\0x"), frame(4, b"\0\0\0\0"),
                     b"\0\0\0\0", b"\xff\xff\xff\xff", frame(1, b"\1\0\0\0a\2\0\0\0\0\0")):
            with self.subTest(task=task):
                self.assertEqual(self.send(task).code, 125)

    def test_a_runner_nobody_wants_ends_quietly(self) -> None:
        process, connection = self.start()
        connection.end.close()
        self.assertEqual(process.communicate(timeout=60), (b"", b""))
        self.assertEqual(process.returncode, 0)

    def test_arguments_and_environment_arrive(self) -> None:
        code = "import os, sys\nprint(sys.argv, os.environ['A'], os.getenv('B'), 'HUTCH_WORKSPACE' in os.environ)"
        ours = self.run_code(code, arguments=("one", "zwei ü"), environment={"A": "1=2", "B": "ü"})
        self.assertEqual(ours.out, "['-c', 'one', 'zwei ü'] 1=2 ü False\n", ours.err)

    def test_names_and_paths_are_those_of_the_way_it_was_started(self) -> None:
        code = "import sys\nprint(sys.argv[0], sys.path[0], globals().get('__file__'), __name__)\n"
        here = str(self.workspace)
        self.assertEqual(self.run_code(code).out, f"-c {here} None __main__\n")
        self.assertEqual(self.run_code(code, name="<stdin>").out, f"- {here} None __main__\n")
        name = f"{here}/sub/p.py"
        self.assertEqual(self.run_file(code, name="sub/p.py").out, f"{name} {here}/sub {name} __main__\n")

    def test_the_runner_is_not_on_the_path(self) -> None:
        ours = self.run_code("import sys\nprint([p for p in sys.path if 'runner' in p.split('/')])")
        self.assertEqual(ours.out, "[]\n")

    def test_stdin_is_the_programs(self) -> None:
        reader, writer = os.pipe()
        os.write(writer, "erste\nzwei ü\n".encode())
        os.close(writer)
        ours = self.send(run_script("print(input(), input())"), stdin=reader)
        os.close(reader)
        self.assertEqual(ours.out, "erste zwei ü\n")

    def test_output_is_buffered_as_on_a_pipe(self) -> None:
        ours = self.run_code("import os\nprint('second')\nos.write(1, b'first ')")
        self.assertEqual(ours.out, "first second\n")


class AwaitTest(RunnerTest):
    def test_await_at_the_top_level(self) -> None:
        ours = self.run_code("import asyncio\nawait asyncio.sleep(0)\nx = [i async for i in aiter_()] if 0 else 1\n"
                             "async with asyncio.Lock():\n    print('held', x, __name__)")
        self.assertEqual((ours.out, ours.err, ours.code), ("held 1 __main__\n", "", 0))

    def test_its_traceback_shows_no_machinery(self) -> None:
        ours = self.run_code("import asyncio\nasync def f():\n    raise KeyError('k')\nawait f()\n")
        self.assertEqual([entry.split("\n")[0] for entry in ours.errors[0].traceback],
                         ['File "<string>", line 4, in <module>', 'File "<string>", line 3, in f'])
        self.assertNotIn("asyncio", ours.err.replace("import asyncio", ""))

    def test_exit_from_a_coroutine(self) -> None:
        self.assertEqual(self.run_code("import sys, asyncio\nawait asyncio.sleep(0)\nsys.exit(4)").code, 4)


class ErrorFrameTest(RunnerTest):
    def error(self, code: str | bytes, **options) -> Error:
        ours = self.run_code(code, **options)
        self.assertEqual(ours.kinds, [STARTED, ERROR], ours.err)
        self.assertEqual(ours.code, 1)
        return ours.errors[0]

    def test_a_success_sends_no_error(self) -> None:
        self.assertEqual(self.run_code("print(1)").kinds, [STARTED])
        self.assertEqual(self.run_code("raise SystemExit(3)").kinds, [STARTED])

    def test_where_it_happened(self) -> None:
        error = self.error("def f(ü):\n    é = 1; return é / ü\n\nf(0)\n")
        self.assertEqual((error.name, error.value, error.line), ("ZeroDivisionError", "division by zero", 2))
        self.assertEqual(error.source_line, "    é = 1; return é / ü")
        self.assertEqual(error.column, 19 if sys.version_info >= (3, 11) else 0)
        self.assertEqual(error.traceback, ['File "<string>", line 4, in <module>\n    f(0)',
                                           'File "<string>", line 2, in f\n    é = 1; return é / ü'])

    def test_an_error_in_a_library_points_at_the_programs_line(self) -> None:
        error = self.error("import json\n\njson.loads('{')\n")
        self.assertEqual((error.name, error.line, error.source_line), ("JSONDecodeError", 3, "json.loads('{')"))
        self.assertIn("json/decoder.py", error.traceback[-1])
        self.assertIn("\n    ", error.traceback[-1])

    def test_what_the_engine_explains_failures_by(self) -> None:
        self.assertEqual(self.error("import numpy_is_not_here.x").module_name, "numpy_is_not_here")
        self.assertEqual(self.error("open('/no/such')").error_number, 2)
        self.assertEqual(self.error("import socket\nraise socket.gaierror(-3, 'try again')").error_number, -3)
        self.assertEqual(self.error("raise OSError(2**40, 'x')").error_number, 0)

    def test_a_syntax_error_has_its_place(self) -> None:
        error = self.error("x = 1\ny = = 2\n")
        self.assertEqual((error.name, error.line, error.column, error.source_line), ("SyntaxError", 2, 5, "y = = 2"))
        self.assertEqual(error.traceback, [])
        for bad in (b"x = '\xff'\n", b"x = 1\0\n", b"# coding: nonsense\n"):
            with self.subTest(code=bad):
                self.assertEqual(self.error(bad).name, "SyntaxError")

    def test_a_syntax_error_made_while_running_is_placed_where_it_was_made(self) -> None:
        error = self.error("\n\ncompile('x = = 1', 'other', 'exec')")
        self.assertEqual((error.name, error.line), ("SyntaxError", 3))

    def test_huge_and_hostile_values_are_cut(self) -> None:
        error = self.error("raise ValueError('ü' * 50_000_000)")
        self.assertEqual(error.value, "ü" * 2048)
        self.assertEqual(self.error("class E(Exception):\n    def __str__(self): return 1\nraise E").value,
                         "<exception str() failed>")
        self.assertEqual(self.error("raise ValueError('\\ud800')").value, "\\ud800")
        self.assertEqual(len(self.error("x = '" + "y" * 5000 + "'; 1/0").source_line), 512)
        hostile = ("class M(type):\n    @property\n    def __name__(c): raise SystemExit(0)\n"
                   "class E(Exception, metaclass=M):\n    pass\nraise E('x')")
        self.assertEqual(self.error(hostile).name, "E")

    def test_generated_code_does_not_borrow_the_programs_lines(self) -> None:
        ours = self.run_code("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 0\n"
                             "    def __post_init__(self):\n        raise ValueError('no')\nP()\n")
        generated = [entry for entry in ours.errors[0].traceback if entry.endswith("in __init__")]
        self.assertEqual(len(generated), 1, ours.errors[0].traceback)

    def test_the_traceback_shows_code_that_is_in_no_file(self) -> None:
        ours = self.run_code("def f():\n    undefined_name\n\nf()\n")
        self.assertIn('  File "<string>", line 2, in f\n    undefined_name\n', ours.err)
        self.assertNotIn("hutch_runner", ours.err)
        ours = self.run_code("lenght = 1\nprint(lenght, lenhgt)")
        self.assertIn("Did you mean: 'lenght'?", ours.err)

    def test_the_programs_own_tracebacks_show_it_too(self) -> None:
        code = ("import inspect, traceback\ndef f():\n    return 1 / 0\ntry:\n    f()\nexcept Exception:\n"
                "    traceback.print_exc()\nprint(inspect.getsource(f), end='')\n")
        ours = self.send(run_script(code), command=[*COLD[:-1], "-c", "import linecache, runpy, sys\n"
                                                    f"runpy.run_path({COLD[-1]!r})"])
        self.assertEqual(ours.out, "def f():\n    return 1 / 0\n", ours.err)
        self.assertIn("line 3, in f\n    return 1 / 0\n", ours.err)

    def test_no_memory(self) -> None:
        code = ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
                "keep = []\nwhile True:\n    keep.append(bytearray(1 << 20))\n")
        self.assertEqual(self.error(code).name, "MemoryError")


class AttackTest(RunnerTest):
    def test_a_replaced_world_does_not_change_the_end(self) -> None:
        for name, code in {
            "builtins": "import builtins\nput = setattr\nfor n in dir(builtins):\n    if n[0] != '_': put(builtins, n, None)\n[][1]",
            "import": "import builtins\nbuiltins.__import__ = None\n[][1]",
            "os": "import os, sys\nfor n in dir(os):\n    if n[0] != '_' or n == '_exit': setattr(os, n, None)\n[][1]",
            "streams": "import sys\nsys.stdout = sys.stderr = sys.__stderr__ = 7\n[][1]",
            "modules": "import sys\nsys.modules.clear()\n[][1]",
            "sys": "import sys\nfor n in dir(sys):\n    if n[0] != '_' and n != 'stderr': delattr(sys, n)\n[][1]",
            "gc": "import gc\ngc.collect = gc.get_objects = None\ngc.disable()\n[][1]",
            "threads": "import threading\nthreading._shutdown = None\n[][1]",
            "trace": "import sys\nsys.settrace(lambda *a: 1/0)\n[][1]",
            "profile": "import sys\nsys.setprofile(lambda f, e, a: e == 'c_call' and f.f_code.co_name == 'execute' and 1/0)\n[][1]",
        }.items():
            with self.subTest(replaced=name):
                ours = self.run_code(code)
                self.assertIn(ours.code, (1, 120))
                self.assertEqual([error.name for error in ours.errors], ["IndexError"])

    def test_a_closed_channel_is_no_concern(self) -> None:
        ours = self.run_code("import os\nos.closerange(3, 100)\nprint('on')\n1/0")
        self.assertEqual((ours.out, ours.code, ours.kinds), ("on\n", 1, [STARTED]))

    def test_a_file_in_the_place_of_the_channel_is_not_written_to(self) -> None:
        ours = self.run_code("import os\nos.close(3)\nf = open('mine', 'w')\nassert f.fileno() == 3\nf.write('x')\n1/0")
        self.assertEqual((self.workspace / "mine").read_bytes(), b"x", ours.err)

    def test_closed_streams_do_not_hang_it(self) -> None:
        self.assertEqual(self.run_code("import os\nprint('x')\nos.closerange(0, 100)").code, 120)
        self.assertIn(self.run_code("import os\nos.closerange(0, 100)\n1/0").code, (1, 120))

    def test_a_forked_child_does_not_speak_for_the_program(self) -> None:
        ours = self.run_code("import os\npid = os.fork()\nif pid == 0:\n    1/0\nos.waitpid(pid, 0)")
        self.assertEqual((ours.kinds, ours.code), ([STARTED], 0))

    def test_children_do_not_inherit_the_channel(self) -> None:
        ours = self.run_code("import os\nos.system('test -e /dev/fd/3 && echo leaked')")
        self.assertEqual(ours.out, "")


class PrivateFileTest(RunnerTest):
    def test_a_file_a_daemon_thread_holds_is_flushed(self) -> None:
        self.run_code("import threading, time\nf = open('out', 'w')\nf.write('hi')\n"
                      "def work():\n    while True:\n        f, time.sleep(.01)\n"
                      "threading.Thread(target=work, daemon=True).start()\n")
        self.assertEqual((self.workspace / "out").read_bytes(), b"hi")
