"""Questions about the namespace: answered between cells, at no cost to the session."""
from __future__ import annotations

import json
import signal
import struct
import unittest

from support import COLD, ShellTest, frame, text
from test_changes import HOSTILE, TEMPLATES

ANSWER = 74
COMPLETE, INSPECT, VARIABLES, PREVIEW = range(4)


class AskTest(ShellTest):
    """A shell that is asked."""

    def send_ask(self, what: int, code: str = "", cursor: int | None = None, name: str = "", detail: int = 0) -> None:
        at = struct.pack("<I", len(code) if cursor is None else cursor)
        self.connection.end.sendall(frame(8, bytes((what,)) + text(code) + at + text(name) + struct.pack("<I", detail)))

    def receive_answer(self) -> dict:
        kind, payload = self.connection.receive() or self.fail("the runner ended: %r" % (self.process.communicate(),))
        self.assertEqual(kind, ANSWER)
        self.assertLessEqual(len(payload), 512 << 10)
        return json.loads(payload)

    def ask(self, *question, **options) -> dict:
        self.send_ask(*question, **options)
        return self.receive_answer()

    def matches(self, code: str, cursor: int | None = None) -> dict[str, str | None]:
        answer = self.ask(COMPLETE, code, cursor)
        for match in answer["matches"]:
            self.assertEqual((match["start"], match["end"]), (answer["cursor_start"], answer["cursor_end"]))
        return {match["text"]: match["type"] for match in answer["matches"]}

    def interrupt(self, *question, **options) -> dict:
        """Asks what prints `go` and then never ends."""
        self.send_ask(*question, **options)
        self.assertEqual(self.process.stdout.readline(), b"go\n")
        self.process.send_signal(signal.SIGINT)
        return self.receive_answer()


class Common:
    """What is answered alike with IPython and without."""

    def test_names_attributes_and_keywords_complete(self) -> None:
        self.cell("value_one = 1\nvalue_two = 'a'\nclass Thing:\n    def method_one(self): pass\n    size = 1\nt = Thing()")
        self.assertEqual(set(self.matches("value_")), {"value_one", "value_two"})
        self.assertIn("method_one", {name.lstrip(".") for name in self.matches("t.me")})
        self.assertIn("while", self.matches("whi"))
        self.assertIn("print", self.matches("pri"))
        self.assertEqual(self.matches("nowhere_to_be_found.x"), {})
        answer = self.ask(COMPLETE, "x = value_o + 1", 11)
        self.assertEqual((answer["cursor_start"], answer["cursor_end"]), (4, 11))

    def test_the_cursor_counts_characters(self) -> None:
        self.cell("größe_a = 1")
        answer = self.ask(COMPLETE, "'😀é'; größe_")
        self.assertEqual([match["text"] for match in answer["matches"]], ["größe_a"])
        self.assertEqual((answer["cursor_start"], answer["cursor_end"]), (6, 12))
        self.assertEqual(self.ask(INSPECT, "'😀é'; größe_a", 8)["value"], "1")
        self.assertIn("matches", self.ask(COMPLETE, "abc", 4000000000))
        self.assertIn("found", self.ask(INSPECT, "abc", 4000000000))

    def test_a_function_is_explained(self) -> None:
        self.cell("def add(a, b=2):\n    '''Adds them.'''\n    return a + b")
        for code, cursor in (("add", 2), ("x = add(1, ", 11), ("add(1", 5)):
            with self.subTest(code=code):
                about = self.ask(INSPECT, code, cursor)
                self.assertEqual((about["found"], about["name"], about["type"]), (True, "add", "function"))
                self.assertEqual((about["signature"], about["documentation"]), ("add(a, b=2)", "Adds them."))
                self.assertEqual((about["source"], about["file"], about["value"]), (None, None, "(a, b)"))
        self.assertIn("return a + b", self.ask(INSPECT, "add", 1, detail=1)["source"])
        self.assertEqual(self.ask(INSPECT, name="add")["signature"], "add(a, b=2)")
        self.assertIn("Return the number of items", self.ask(INSPECT, "len(", 4)["documentation"])
        self.assertFalse(self.ask(INSPECT, "nothing_here", 3)["found"])
        self.assertFalse(self.ask(INSPECT, "", 0)["found"])

    def test_variables_are_listed(self) -> None:
        self.cell("import math\nx, _hidden, text = 5, 1, 'abc'\nclass K: pass\nk = K()")
        answer = self.ask(VARIABLES)
        found = {entry["name"]: (entry["type"], entry["summary"]) for entry in answer["variables"]}
        self.assertEqual(found, {"math": ("module", "math"), "x": ("int", "5"), "text": ("str", "'abc'"),
                                 "K": ("type", "K"), "k": ("K", "")})
        sizes = {entry["name"]: entry["size"] for entry in answer["variables"]}
        self.assertEqual((sizes["k"], sizes["x"] > 0, answer["more"]), (None, True, False))
        self.cell("for i in range(600): globals()['ä' * 200 + str(i)] = 1")
        answer = self.ask(VARIABLES)
        self.assertTrue(answer["more"])
        self.assertLessEqual(len(answer["variables"]), 500)

    def test_a_value_is_previewed(self) -> None:
        self.cell("l = list(range(100000))\nd = {'a': [1, (2,)], 'b': {3}}\ndeep = [[[[[[1]]]]]]\ns = 'x' * 10 ** 7\n"
                  "loop = []; loop.append(loop)\nhuge = 10 ** 100000\nwide = [[0] * 10 ** 6] * 3")
        shown = {name: self.ask(PREVIEW, name=name) for name in ("l", "d", "deep", "s", "loop", "huge", "wide")}
        plain = {name: answer["mime"]["text/plain"] for name, answer in shown.items()}
        self.assertEqual((shown["l"]["found"], shown["l"]["type"], shown["l"]["summary"]), (True, "list", "100000 items"))
        self.assertEqual(plain["l"], "[%s, … (100000 in all)]" % ", ".join(map(str, range(20))))
        self.assertEqual(plain["d"], "{'a': [1, (2,)], 'b': {3}}")
        self.assertEqual(plain["deep"], "[[[[[…]]]]]")
        self.assertEqual(plain["s"], "'%s'… (10000000 in all)" % ("x" * 1600))
        self.assertEqual(plain["loop"], "[[[[[…]]]]]")
        self.assertEqual(plain["huge"], "<int of 332193 bits>")
        self.assertLess(len(plain["wide"]), 1000)
        self.assertEqual(self.ask(PREVIEW, name="l", detail=2)["mime"]["text/plain"], "[0, 1, … (100000 in all)]")
        for name in ("nothing", "", "l[0]", "__import__('os')"):
            self.assertFalse(self.ask(PREVIEW, name=name)["found"])

    def test_hostile_objects_end_in_an_answer(self) -> None:
        self.cell(HOSTILE + "h, y = Hostile(), Listy([1])\nclass Loud:\n    def __repr__(self): return 'x' * 10 ** 7\n"
                  "    def __dir__(self): return ['ok', 5, None]\n    __doc__ = property(lambda s: 5)\nloud = Loud()\n"
                  "class Raises:\n    def __getattr__(self, name): raise SystemExit(name)\nraises = Raises()")
        for name in ("h", "y", "loud", "raises", "raises.x", "Hostile"):
            for what in (INSPECT, PREVIEW):
                with self.subTest(name=name, what=what):
                    answer = self.ask(what, name=name, detail=1)
                    self.assertTrue("found" in answer or "error" in answer)
            answer = self.ask(COMPLETE, name + ".")
            self.assertTrue("matches" in answer or "error" in answer)
        self.assertIn("variables", self.ask(VARIABLES))
        self.assertEqual(self.ask(99), {"error": "there is no such question"})
        self.assertEqual(self.cell("1"), (0, []))

    def test_an_interrupt_ends_the_answer_only(self) -> None:
        self.cell("class Slow:\n    def __repr__(self):\n        print('go')\n        while True: pass\nslow = Slow()\n"
                  "class Keys(dict):\n    def __dir__(self):\n        print('go')\n        while True: pass\n"
                  "    _ipython_key_completions_ = __dir__\nd = Keys()\n"
                  "import signal\nsignal.signal(signal.SIGINT, lambda *a: print('mine'));")
        self.assertEqual(self.interrupt(PREVIEW, name="slow"), {"error": "interrupted"})
        self.assertEqual(self.interrupt(COMPLETE, self.slow), {"error": "interrupted"})
        self.process.send_signal(signal.SIGINT)
        self.assertTrue(self.ask(INSPECT, name="len")["found"])
        self.assertEqual(self.cell("signal.getsignal(signal.SIGINT).__name__ == '<lambda>' or 1 / 0;"), (0, []))

    def test_nothing_of_the_session_changes(self) -> None:
        self.cell("10 + 1")
        count = self.count
        for what in range(4):
            self.ask(what, "pri", 3, name="print")
        self.assertEqual(self.cell("(_, len(globals()) > 1)"), (0, []))
        self.assertEqual((self.results()[-1], self.count), ("(11, True)", count + 1))
        self.assertEqual(self.cell("x = 1"), (0, []))
        self.assertEqual(len(self.connection.changes), 1)


class PlainInspectorTest(Common, AskTest):
    slow = "d."

    def test_types_are_told(self) -> None:
        self.cell("import os\nclass Thing:\n    @property\n    def size(self): raise SystemExit\n    def go(self): pass\n"
                  "thing = Thing()")
        self.assertEqual(self.matches("thing."), {"go": "function", "size": "property"})
        self.assertEqual(self.matches("thin"), {"thing": "instance"})
        self.assertEqual(self.matches("os.pat"), {"path": "module", "pathconf": "function", "pathconf_names": "instance",
                                                  "pathsep": "instance"})
        self.assertEqual(self.matches("whil"), {"while": "keyword"})
        self.assertEqual(self.matches("f().x"), {})
        self.assertEqual(self.matches(""), {})


@unittest.skipUnless(TEMPLATES, "needs the default template below /var/tmp/hutch-data/templates")
class IPythonInspectorTest(Common, AskTest):
    ipython = True
    slow = "d['"

    def start(self, command=None, **options):
        return super().start([str(TEMPLATES[-1]), *COLD[1:]], **options)

    def test_keys_magics_and_files_complete(self) -> None:
        (self.workspace / "data_file.csv").touch()
        self.cell("d = {'first key': 1, 'second': 2}")
        self.assertIn("first key", "".join(self.matches("d['fi")))
        self.assertIn("%timeit", self.matches("%timei"))
        self.assertIn("data_file.csv", "".join(self.matches("open('data_")))
        self.assertIn("machine", "".join(self.matches("import platform; platform.mach")))

    def test_a_magic_is_explained(self) -> None:
        about = self.ask(INSPECT, "%timeit x", 3)
        self.assertTrue(about["found"])
        self.assertIn("Time execution", about["documentation"])

    def test_tables_are_previewed_as_tables(self) -> None:
        self.cell("import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': range(1000), 'b': 0.5})\ns = df['a']\n"
                  "n = np.arange(10 ** 6).reshape(1000, 1000)\nbroken = pd.DataFrame.__new__(pd.DataFrame)")
        answer = self.ask(PREVIEW, name="df", detail=3)
        self.assertEqual(answer["summary"], "1000 rows x 2 columns: a, b")
        table = answer["mime"]["application/vnd.hutch.table+json"]
        self.assertEqual((table["rows"], table["shape"]), ([[0, 0.5], [1, 0.5], [2, 0.5]], [1000, 2]))
        self.assertEqual(answer["mime"]["text/plain"], "   a    b\n0  0  0.5\n1  1  0.5\n2  2  0.5\n… 997 rows more")
        self.assertIn("<table", answer["mime"]["text/html"])
        self.assertIn("… 980 values more", self.ask(PREVIEW, name="s")["mime"]["text/plain"])
        self.assertIn("application/vnd.hutch.table+json", self.ask(PREVIEW, name="n")["mime"])
        self.assertTrue(self.ask(PREVIEW, name="broken")["found"])
        self.assertEqual(self.ask(INSPECT, name="df.describe")["type"], "method")
        sizes = {entry["name"]: entry["size"] for entry in self.ask(VARIABLES)["variables"]}
        self.assertEqual((sizes["n"], sizes["df"] >= 16000, sizes["broken"]), (8000000, True, None))


if __name__ == "__main__":
    unittest.main()
