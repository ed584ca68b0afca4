"""Cells: one namespace, values displayed, every end of a cell reported."""
from __future__ import annotations

import os
import signal
import subprocess

from support import Error, ShellTest, needs, put_file, run_cell

OK, FAILED, INCOMPLETE, EXIT = range(4)


class CellTest(ShellTest):
    environment = {"GREETING": "hello"}

    def test_names_live_on_and_the_last_value_is_shown(self) -> None:
        self.assertEqual(self.cell("x = 20\ndef f(y):\n    return x + y"), (OK, []))
        self.assertEqual(self.cell("f(1)\nf(2)"), (OK, []))
        self.assertEqual(self.cell("_ + 1"), (OK, []))
        self.assertEqual(self.cell("None"), (OK, []))
        self.assertEqual(self.cell("x"), (OK, []))
        self.assertEqual(self.cell(""), (OK, []))
        self.assertEqual(self.cell("import os; os.environ['GREETING']"), (OK, []))
        self.assertEqual(self.cell("__name__, __builtins__.__name__, f.__module__"), (OK, []))
        self.assertEqual(self.results(), ["22", "23", "20", "'hello'", "('__main__', 'builtins', '__main__')"])
        self.assertEqual(self.end(), ("", "", 0))

    def test_a_displayhook_gets_the_value(self) -> None:
        self.cell("import sys\nsys.displayhook = lambda v: print('<%r>' % v)")
        self.cell("'v'")
        self.assertEqual(self.end()[0], "<'v'>\n")

    def test_unfinished_code_is_not_run(self) -> None:
        for code in ("print(1)\nif True:", "f(", "'''abc", "def f():\n    return (1,", "@decorator", "x = [1,\n"):
            with self.subTest(code=code):
                self.assertEqual(self.cell(code), (INCOMPLETE, []))
        for code in ("def f(): return 1", "def f():\n    return 1", "if True:\n    pass", "# comment", "class A: pass"):
            with self.subTest(code=code):
                self.assertEqual(self.cell(code), (OK, []))
        self.assertEqual(self.end(), ("", "", 0))

    def test_an_error_ends_the_cell_and_not_the_shell(self) -> None:
        self.cell("def f(x):\n    return 1 / x")
        status, errors = self.cell("y = 5\nf(0)\ny = 6")
        self.assertEqual((status, errors[0].name, errors[0].line), (FAILED, "ZeroDivisionError", 2))
        self.assertEqual(errors[0].traceback, ['File "<cell 2>", line 2, in <module>\n    f(0)',
                                               'File "<cell 1>", line 2, in f\n    return 1 / x'])
        self.assertEqual(self.cell("y"), (OK, []))
        out, err, code = self.end()
        self.assertEqual((out, code, self.results()), ("", 0, ["5"]))
        self.assertIn('  File "<cell 2>", line 2, in <module>\n    f(0)\n', err)
        self.assertIn('  File "<cell 1>", line 2, in f\n    return 1 / x\n', err)
        self.assertNotIn("hutch_runner", err)

    def test_a_syntax_error_runs_nothing(self) -> None:
        for code in ("print('ran')\nx = = 1", "print('ran')\nreturn", b"print('ran')\n'\xff'", b"print('ran')\0"):
            with self.subTest(code=code):
                status, errors = self.cell(code)
                self.assertEqual((status, [error.name for error in errors]), (FAILED, ["SyntaxError"]))
        self.assertEqual(self.end()[0], "")

    def test_exit_ends_the_shell(self) -> None:
        self.cell("import atexit\natexit.register(print, 'bye')\nf = open('out', 'w')\nf.write('hi')")
        self.assertEqual(self.cell("import sys\nsys.exit(3)"), (EXIT, []))
        out, err, code = self.end()
        self.assertEqual((out, err, code, self.results()), ("bye\n", "", 3, ["2"]))
        self.assertEqual((self.workspace / "out").read_text(), "hi")

    def test_hanging_up_ends_the_shell_in_order(self) -> None:
        self.cell("import atexit\natexit.register(print, 'bye');")
        self.assertEqual((self.end(), self.results()), (("bye\n", "", 0), ["<built-in function print>"]))

    def test_await_shares_one_loop(self) -> None:
        self.assertEqual(self.cell("import asyncio\nasync def later(): return 7\nt = asyncio.ensure_future(later()) "
                                   "if 0 else None\nawait asyncio.sleep(0)\nlock = asyncio.Lock()\n"
                                   "loop = asyncio.get_running_loop()\nt = loop.create_task(later())"), (OK, []))
        self.assertEqual(self.cell("await t"), (OK, []))
        self.assertEqual(self.cell("(await later(), asyncio.get_running_loop() is loop)"), (OK, []))
        status, errors = self.cell("async def bad():\n    raise KeyError('k')\nawait bad()")
        self.assertEqual((status, errors[0].traceback[0].split(",")[0]), (FAILED, 'File "<cell 4>"'))
        self.assertEqual(self.results(), ["7", "(7, True)"])

    def test_future_imports_stay(self) -> None:
        self.cell("from __future__ import annotations")
        self.cell("def f(x: undefined): pass\nf.__annotations__")
        self.assertEqual(self.results(), ["{'x': 'undefined'}"])

    def interrupt_in(self, code: str) -> tuple[int, list[Error]]:
        self.connection.end.sendall(run_cell("print('go')\n" + code))
        self.assertEqual(self.process.stdout.readline(), b"go\n")
        self.process.send_signal(signal.SIGINT)
        return self.outcome()

    def test_an_interrupt_ends_the_cell_only(self) -> None:
        for code in ("while True: pass", "import time\ntime.sleep(60)", "import asyncio\nawait asyncio.sleep(60)"):
            with self.subTest(code=code):
                status, errors = self.interrupt_in(code)
                self.assertEqual((status, errors[0].name), (FAILED, "KeyboardInterrupt"))
        self.assertEqual(self.cell("1"), (OK, []))

    def test_interrupts_between_cells_do_nothing(self) -> None:
        self.cell("1")
        for _ in range(20):
            self.process.send_signal(signal.SIGINT)
            self.assertIn(self.cell("2;")[0], (OK, FAILED))  # it may come a moment late
        for _ in range(20):
            self.process.send_signal(signal.SIGINT)
        self.cell("import signal, time\nseen = []")
        self.cell("signal.signal(signal.SIGINT, lambda *a: seen.append(1));")
        for _ in range(3):
            self.process.send_signal(signal.SIGINT)
        self.connection.end.sendall(run_cell("seen.clear()\nprint('go')\nwhile not seen: time.sleep(.01)\nprint('mine')"))
        while self.process.stdout.readline() != b"go\n":
            pass
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.outcome(), (OK, []))
        self.assertEqual(self.end()[0], "mine\n")

    def test_output_is_complete_when_a_cell_is_done_and_streams_before(self) -> None:
        self.connection.end.sendall(run_cell("import sys, time\nprint('line')\nsys.stdout.write('rest')\ntime.sleep(.1)"))
        self.assertEqual(self.process.stdout.readline(), b"line\n")
        self.outcome()
        os.set_blocking(self.process.stdout.fileno(), False)
        self.assertEqual(self.process.stdout.read(), b"rest")

    def test_a_forked_child_does_not_read_the_next_cell(self) -> None:
        self.assertEqual(self.cell("import os\npid = os.fork()"), (OK, []))
        self.assertEqual(self.cell("pid == 0 or os.waitpid(pid, 0)[1]"), (OK, []))
        self.assertEqual(self.results(), ["0"])

    def test_files_arrive_between_cells(self) -> None:
        self.cell("1")
        self.connection.end.sendall(put_file("late.py", b"x = 5"))
        self.cell("import late\nlate.x")
        self.assertEqual(self.results(), ["1", "5"])

    def test_a_closed_channel_ends_the_shell(self) -> None:
        self.connection.end.sendall(run_cell("import os\nos.close(3)"))
        self.assertIsNone(self.connection.receive())
        try:
            self.assertEqual(self.process.wait(60), 0)
        except subprocess.TimeoutExpired:
            self.fail("it waits for cells that cannot come")


class ErrorPlaces:
    """In plain cells and in IPython's."""

    def test_an_error_names_its_line_and_shows_it(self) -> None:
        for code, name, line, frames in (
                ("\n\nx = 1\n1/0", "ZeroDivisionError", 4, ["line 4, in <module>\n    1/0"]),
                ("def f():\n  return 1/0\n\nf()", "ZeroDivisionError", 2,
                 ["line 4, in <module>\n    f()", "line 2, in f\n    return 1/0"]),
                ("\n  x = 5\n  1/0", "ZeroDivisionError", 3, ["line 3, in <module>\n    1/0"]),
                ("\n\nx = = 1", "SyntaxError", 3, []),
                ("x = 1\nfor i in range(3)\n  print(i)", "SyntaxError", 2, [])):
            with self.subTest(code=code):
                status, [error] = self.cell(code)
                self.assertEqual((status, error.name, error.line), (FAILED, name, line))
                self.assertEqual([frame.partition(", ")[2] for frame in error.traceback], frames)

    def test_the_function_of_an_earlier_cell_is_shown(self) -> None:
        self.cell("\ndef f():\n  return 1/0\n'shown'")
        _, [error] = self.cell("f()")
        self.assertEqual(error.traceback[1], 'File "<cell 1>", line 3, in f\n    return 1/0')


class PlainErrorPlacesTest(ErrorPlaces, ShellTest):
    pass


@needs("IPython")
class IPythonErrorPlacesTest(ErrorPlaces, ShellTest):
    ipython = True

    def test_a_magic_below_empty_lines(self) -> None:
        self.assertEqual(self.cell("\n\n%%bash\nexit 0"), (OK, []))


@needs("IPython")
class IPythonSyntaxTest(ShellTest):
    ipython = True

    def test_cells_without_its_syntax_are_what_ipython_would_make_of_them(self) -> None:
        from IPython.core.inputtransformer2 import TransformerManager
        from hutch_runner.ipython_shell import UNUSUAL

        plain = ("x += 1", "def f(a):\n    return a\n", "a = [\n  1,\n]\n\nf(a)", "x = '''\ntext\n'''", "", "@d\ndef f(): ...",
                 "x = 1;", "print(a,\n b)", "lambda: 1/2", "ä = 'é'\r\nä")
        unusual = ("%timeit 1", "x = !ls", "x?", " x = 1", "\nx", "x\n  /f 1", ",f a", ";f a", ">>> x", "... x", "In [1]: x",
                   "[ins] In [1]: x", "a\n   ...: b", "%%bash\nls", "x = 5 % 3")
        for cell in plain:
            with self.subTest(cell=cell):
                self.assertFalse(UNUSUAL(cell))
                self.assertEqual(TransformerManager().transform_cell(cell), cell if cell.endswith("\n") else cell + "\n")
        for cell in unusual:
            with self.subTest(cell=cell):
                self.assertTrue(UNUSUAL(cell))

    def test_whoever_adds_a_transformation_gets_it(self) -> None:
        self.cell("def change(lines):\n    return [line.replace('apple', '42') for line in lines]\n"
                  "get_ipython().input_transformers_post.append(change)")
        self.cell("apple + 1")
        self.assertEqual(self.results(), ["43"])
