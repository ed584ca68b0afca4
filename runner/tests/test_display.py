"""Displays: values, display(), updates, caps, hostile reprs, and the conversation with the engine about them."""
from __future__ import annotations

import os
import signal
import struct
import unittest

from support import CELL_DONE, DISPLAY, Display, RunnerTest, ShellTest, needs, put_file, run_cell, run_script, shown

FAILED, INCOMPLETE = 1, 2


class Both:
    """What holds in plain cells and in IPython's."""

    def test_a_value_is_a_result_and_none_is_nothing(self) -> None:
        value = self.one("20 + 2")
        self.assertEqual((value.kind, value.data, value.id, value.metadata), ("result", {"text/plain": b"22"}, "", {}))
        self.assertEqual(self.one("_ + 1").text, "23")
        self.assertEqual(self.show("None"), [])
        self.assertEqual(self.show("x = 1"), [])
        self.assertEqual(self.end(), ("", "", 0))

    def test_lists_and_dicts_are_json_too(self) -> None:
        self.assertEqual(self.one("{'a': [1, None, 2.5, 'é']}").json(), {"a": [1, None, 2.5, "é"]})
        self.assertEqual(self.one("[float('nan')]").json(), [None])
        for code in ("[object()]", "{1: 2}", "['x' * 70000]", "a = []; a.append(a); a", "[10 ** 5000]"):
            with self.subTest(code=code):
                self.assertNotIn("application/json", self.one(code).data)

    def test_display_shows_every_kind(self) -> None:
        self.show("class Rich:\n" + "".join(
            "    def _repr_%s_(self): return %r\n" % (name, value) for name, value in (
                ("html", "<b>"), ("markdown", "#"), ("latex", "$x$"), ("svg", "<svg/>"), ("javascript", "1"),
                ("json", {"a": 1}), ("png", b"\x89PNG\r\n\x1a\n."), ("jpeg", b"\xff\xd8\xff."), ("pdf", b"%PDF-1"))))
        value = self.one("display(Rich())")
        self.assertEqual(value.kind, "display")
        expected = {"text/html": b"<b>", "text/markdown": b"#", "text/latex": b"$x$", "image/svg+xml": b"<svg/>",
                    "application/javascript": b"1", "application/json": b'{"a":1}',
                    "image/png": b"\x89PNG\r\n\x1a\n.", "image/jpeg": b"\xff\xd8\xff.", "application/pdf": b"%PDF-1"}
        self.assertEqual({mime: data for mime, data in value.data.items() if mime != "text/plain"}, expected)
        self.assertEqual(self.one("display({'text/latex': 'x'}, raw=True)").data, {"text/latex": b"x"})

    def test_a_mimebundle_comes_with_metadata(self) -> None:
        self.show("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                  "        return {'text/plain': 'p', 'text/html': 'h'}, {'text/html': {'isolated': True}}")
        value = self.one("B()")
        self.assertEqual((value.data, value.metadata), ({"text/plain": b"p", "text/html": b"h"},
                                                        {"text/html": {"isolated": True}}))

    def test_displays_are_updated_and_cleared(self) -> None:
        got = self.show("h = display(1, display_id='here')\nh.update(2)\nh.display(3)\n"
                        "display(4, display_id=True) is not None")
        self.assertEqual([(each.kind, each.id, each.text) for each in got[:3]],
                         [("display", "here", "1"), ("update", "here", "2"), ("display", "here", "3")])
        self.assertEqual((len(got[3].id), got[4].text), (32, "True"))
        clear = "from IPython.display import clear_output\n" if self.ipython else ""
        got = self.show(clear + "clear_output()\nclear_output(wait=True)")
        self.assertEqual([(each.kind, each.wait, each.data) for each in got], [("clear", False, {}), ("clear", True, {})])

    def test_only_known_types_pass(self) -> None:
        value = self.one("display({'text/html': 'h', 'application/x-evil': 'e', 5: 6}, raw=True)")
        self.assertEqual(value.data, {"text/html": b"h"})
        self.assertEqual(self.one("display({'application/x-evil': 'e'}, raw=True)").text,
                         "[nothing to show: application/x-evil is not supported]")
        for item, why in (("'???'", "not valid base64"), ("'aGk='", "content is of another type"),
                          ("b'GIF89a'", "content is of another type"), ("5", "int and not bytes")):
            with self.subTest(item=item):
                value = self.one("display({'image/png': %s}, raw=True)" % item)
                self.assertEqual(list(value.data), ["text/plain"])
                self.assertIn(why, value.text)
        value = self.one("import base64\ndisplay({'image/png': base64.encodebytes(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(99))."
                         "decode()}, raw=True)")
        self.assertEqual(value.data["image/png"], b"\x89PNG\r\n\x1a\n" + bytes(99))

    def test_what_is_too_large_is_left_out_in_words(self) -> None:
        value = self.one("display({'text/html': 'x' * (5 << 20), 'text/plain': 'small'}, raw=True)")
        self.assertEqual(list(value.data), ["text/plain"])
        self.assertRegex(value.text, r"^small\n\[text/html was left out: it has 5.0 MiB, .* save it to a file\]$")
        value = self.one("display({'text/html': 'x' * (4 << 20), 'text/markdown': 'y' * (3 << 20)}, raw=True)")
        self.assertEqual(sorted(value.data), ["text/markdown", "text/plain"])
        self.assertEqual(self.one("display({'text/html': 'h'}, metadata={'a': 'x' * 70000}, raw=True)").metadata, {})
        for code in ("'x' * 10 ** 8", "b'x' * 10 ** 8", "['x' * 10 ** 6] * 1000", "'é' * 10 ** 6", "list(range(10 ** 7))",
                     "dict.fromkeys(range(10 ** 6))", "set(range(10 ** 6))", "class L:\n    def __repr__(self): "
                     "return 'y' * 10 ** 8\nL()"):
            with self.subTest(code=code):
                value = self.one(code)
                self.assertLessEqual(len(value.data["text/plain"]), 256 << 10)
                self.assertRegex(value.text[-60:], r"cut here|\.\.\.")

    def test_hostile_reprs_end_in_words(self) -> None:
        for body, words in (("raise ValueError('no')", "<A: repr raised ValueError: no>"),
                            ("return repr(self)", "<A: repr raised RecursionError: "),
                            ("raise SystemExit(3)", "<A: repr raised SystemExit: 3>"),
                            ("raise MemoryError", "<A: repr raised MemoryError"),
                            ("raise NotImplementedError", "<A: repr raised NotImplementedError"),
                            ("return 5", "<A: repr raised TypeError: "),
                            ("class E(Exception):\n            def __str__(self): 1/0\n        raise E",
                             "<A: repr raised E: <exception str() failed>>")):
            with self.subTest(body=body):
                self.assertTrue(self.one("class A:\n    def __repr__(self):\n        %s\nA()" % body).text.startswith(words),
                                self.connection.displays[-1])
        for method in ("html", "png", "json", "mimebundle", "latex"):
            for body in ("1/0", "return 5", "return object()", "return (1, 2, 3)", "raise SystemExit", "return ''.x",
                         "return self._repr_%s_()" % method):
                with self.subTest(method=method, body=body):
                    value = self.show("class A:\n    def _repr_%s_(self, *a, **k): %s\n    def __repr__(self): return 'me'\n"
                                      "A()" % (method, body))[0]
                    self.assertTrue(set(value.data) <= {"text/plain", "application/json"}, value)
        for code in ("class A:\n    def __getattr__(self, name): return self\n    def __call__(self, *a, **k): return self\nA()",
                     "class M(type):\n    def __getattribute__(self, name): raise KeyError(name)\n"
                     "class A(metaclass=M): pass\nA()",
                     "class S(str):\n    def __len__(self): return -1\n    def encode(self, *a): 1/0\n"
                     "display({'text/html': S('h'), S('text/plain'): S('p')}, raw=True)"):
            with self.subTest(code=code):
                self.one(code)
        self.assertEqual(self.one("1").text, "1")

    def test_a_repr_that_never_ends_is_interrupted(self) -> None:
        self.show("class A:\n    def __repr__(self):\n        print('go', flush=True)\n        while True: pass")
        self.connection.end.sendall(run_cell("kept = 5\nA()"))
        self.assertEqual(self.process.stdout.readline(), b"go\n")
        self.process.send_signal(signal.SIGINT)
        status, errors = self.outcome()
        self.assertEqual((status, errors[0].name), (FAILED, "KeyboardInterrupt"))
        self.assertEqual(self.one("kept").text, "5")

    def test_text_and_displays_keep_their_order(self) -> None:
        self.connection.answers = False
        self.connection.end.sendall(run_cell("import sys\nfor i in range(20):\n    print('out', i, end='|')\n"
                                             "    sys.stderr.write('err %d|' % i)\n    display(i)"))
        for number in range(20):
            kind, payload = self.connection.receive()
            self.assertEqual((kind, Display(payload).text), (DISPLAY, str(number)))
            self.assertEqual(os.read(self.process.stdout.fileno(), 100), b"out %d|" % number)
            self.assertEqual(os.read(self.process.stderr.fileno(), 100), b"err %d|" % number)
            self.connection.end.sendall(shown(number + 1, verdict=number % 2))
        self.assertEqual(self.outcome(), (0, []))

    def test_other_frames_may_come_before_the_answer(self) -> None:
        self.connection.answers = False
        self.connection.end.sendall(run_cell("display(1)"))
        self.assertEqual(self.connection.receive()[0], DISPLAY)
        early = put_file("early.py", b"x = 7") + run_cell("import early\nprint(early.x)")
        self.connection.end.sendall(early[:9])
        self.connection.end.sendall(early[9:] + shown(1))
        self.assertEqual((self.outcome(), self.outcome()), ((0, []), (0, [])))
        self.assertEqual(self.process.stdout.readline(), b"7\n")

    def test_an_interrupt_ends_the_wait_and_a_late_answer_is_ignored(self) -> None:
        self.connection.answers = False
        for number in (1, 2):
            self.connection.end.sendall(run_cell("display('waits')"))
            self.assertEqual(self.connection.receive()[0], DISPLAY)
            self.process.send_signal(signal.SIGINT)
            status, errors = self.outcome()
            self.assertEqual((status, errors[0].name), (FAILED, "KeyboardInterrupt"))
            self.connection.end.sendall(shown(number))
        self.connection.answers = True
        self.assertEqual(self.one("'alive'").text, "'alive'")

    def test_threads_show_during_a_cell_and_after_it(self) -> None:
        got = self.show("import threading\ndef work(n):\n    for i in range(10): display((n, i))\n"
                        "threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
                        "for t in threads: t.start()\nfor t in threads: t.join()")
        self.assertEqual(sorted(each.text for each in got), sorted(str((n, i)) for n in range(4) for i in range(10)))
        self.assertEqual([each.number for each in got], list(range(1, 41)))
        self.show("go = threading.Event()\ndef late():\n    go.wait()\n    display('late')\n    display('later')\n"
                  "t = threading.Thread(target=late); t.start()\nthreading.Timer(.05, go.set).start()")
        self.show("t.join()")
        self.assertEqual([each.text for each in self.connection.displays[-2:]], ["'late'", "'later'"])

    def test_a_forked_child_prints_its_displays(self) -> None:
        self.assertEqual(self.show("import os\npid = os.fork()\nif pid == 0:\n    display('child')\n    os._exit(0)\n"
                                   "done = os.waitpid(pid, 0)"), [])
        self.assertEqual(self.end()[0], "'child'\n")

    def test_a_displayhook_of_the_user_gets_the_value(self) -> None:
        self.show("import sys\nsys.displayhook = lambda value: print('<%r>' % value)")
        self.assertEqual(self.show("'v'"), [])
        self.assertEqual(self.end()[0], "<'v'>\n")

    def test_cells_are_counted(self) -> None:
        counts = []
        for code in ("1", "x = (", "y = 2", "1/0", "", "3"):
            self.cell(code)
            counts.append(self.count)
        self.assertEqual(counts, [1, 2, 2, 3, 4, 5])
        self.connection.end.sendall(struct.pack("<IB", 1 + 4 + 4 + 1 + 1 + 4 + 4, 5) + struct.pack("<I", 4) + b"true" +
                                    bytes((1, 0)) + struct.pack("<II", 0, 0))
        self.assertEqual((self.outcome()[0], self.count), (0, 0))
        self.cell("4")
        self.assertEqual(self.count, 6)

    def test_indented_cells_are_understood(self) -> None:
        self.assertEqual(self.one("    a = 1\n    if a:\n        a = 5\n    a").text, "5")
        status, errors = self.cell("    b = 1\n    b / 0")
        self.assertEqual((status, errors[0].name, errors[0].line), (FAILED, "ZeroDivisionError", 2))

    def test_a_syntax_error_has_its_place(self) -> None:
        status, errors = self.cell("a = 1\nb = = 2")
        self.assertEqual((status, errors[0].name, errors[0].line, errors[0].column), (FAILED, "SyntaxError", 2, 5))
        self.assertIn("    b = = 2\n        ^\n", self.end()[1])


class PlainDisplayTest(Both, ShellTest):
    pass


@needs("IPython")
class IPythonDisplayTest(Both, ShellTest):
    ipython = True

    def setUp(self) -> None:
        super().setUp()
        reached = self.workspace / "reached"
        self.tools = self.workspace / "tools"
        self.tools.mkdir()
        for name in ("pip", "pip3", "uv", "conda", "python3", "python"):  # no test may install anything
            (self.tools / name).write_text("#!/bin/sh\necho %s >> %s\n" % (name, reached))
            (self.tools / name).chmod(0o755)
        self.show("import os; os.environ['PATH'] = %r + ':/usr/bin:/bin'" % str(self.tools))
        self.connection.displays.clear()

    def test_cells_are_counted(self) -> None:
        self.cell("1")
        self.assertEqual(self.count, 2)
        self.assertEqual(self.cell("x = (")[0], INCOMPLETE)
        self.cell("'kept'")
        self.assertEqual((self.count, self.one("Out[3], _3").text), (3, "('kept', 'kept')"))

    def test_magics_commands_and_await_work(self) -> None:
        self.assertEqual(self.show("!echo out; echo err >&2"), [])
        self.assertEqual(self.one("lines = !echo captured\nlines[0]").text, "'captured'")
        self.assertEqual(self.one("%%html\n<b>").data["text/html"], b"<b>\n")
        self.assertEqual(self.one("import asyncio\nawait asyncio.sleep(0, 'slept')").text, "'slept'")
        self.assertEqual(self.show("1;"), [])
        self.assertEqual(self.end()[:2], ("out\n", "err\n"))

    def test_installing_is_answered_and_never_run(self) -> None:
        for code in ("!pip install no-such-thing", "%pip install no-such-thing", "x = !pip3 install no-such-thing",
                     "!python3 -m pip install -q no-such-thing", "!cd / && pip install no-such-thing==1.0", "%conda install a"):
            with self.subTest(code=code):
                status, errors = self.cell(code)
                self.assertEqual((status, errors[0].name), (FAILED, "PackageInstallError"))
                self.assertIn("template", errors[0].value)
                self.assertEqual(len(errors[0].traceback), 1, errors[0].traceback)
        self.show("!pip install ipython && echo after")
        self.assertEqual(self.end()[0].split(" (")[0], "Requirement already satisfied: ipython")
        self.assertFalse((self.workspace / "reached").exists())


class AsCellTest(RunnerTest):
    """RUN_SCRIPT with as_cell."""

    def run_as_cell(self, code: str, **options):
        return self.send(run_script(code, as_cell=True, **options))

    def test_the_last_value_is_shown_and_the_process_ends(self) -> None:
        got = self.run_as_cell("import sys, asyncio\nprint(sys.argv[1:])\ndisplay('shown')\nawait asyncio.sleep(0)\n6 * 7",
                               arguments=("a", "b"))
        self.assertEqual((got.out, got.err, got.code), ("['a', 'b']\n", "", 0))
        self.assertEqual([(each.kind, each.text) for each in got.displays], [("display", "'shown'"), ("result", "42")])
        self.assertNotIn(CELL_DONE, got.kinds)

    def test_exit_codes_are_those_of_a_script(self) -> None:
        for code, exit_code in (("1/0", 1), ("raise SystemExit(5)", 5), ("exit()", 0), ("if True:", 1), ("x = = 1", 1)):
            with self.subTest(code=code):
                got = self.run_as_cell(code)
                self.assertEqual(got.code, exit_code)
                self.assertEqual(len(got.errors), 1 if exit_code == 1 else 0)
        self.assertIn('File "<string>", line 1', self.run_as_cell("1/0").err)

    def test_scripts_show_no_values(self) -> None:
        got = self.run_code("6 * 7\ntry: display(1)\nexcept NameError: print('as in CPython')")
        self.assertEqual((got.out, got.displays), ("as in CPython\n", []))


if __name__ == "__main__":
    unittest.main()
