"""`hutch notebook run`: notebooks in, notebooks with outputs out, valid by the field's own validator."""
from __future__ import annotations

import contextlib
import glob
import json
import os
import pty
import re
import select
import signal
import subprocess

import support
from support import Scenario

try:
    import nbformat
except ImportError:
    nbformat = None

setUpModule, tearDownModule = support.begin, support.finish

NOTEBOOKS = os.path.join(support.ROOT, "tests/notebooks")
STOPS = {"stops": "undefined_name", "exit": "SystemExit"}  # notebooks that are not to come to their end


def code(source: str, tags: tuple = (), **more) -> dict:
    return {"cell_type": "code", "execution_count": None, "metadata": {"tags": list(tags)} if tags else {}, "outputs": [],
            "source": source, **more}


def notebook(*cells: str | dict, minor: int = 4, **metadata) -> dict:
    return {"cells": [code(cell) if isinstance(cell, str) else cell for cell in cells], "metadata": metadata,
            "nbformat": 4, "nbformat_minor": minor}


def text_of(output: dict) -> str:
    return "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])


class Ran:
    """A command and the notebook that it wrote."""

    def __init__(self, done: support.Done, document: dict | None) -> None:
        self.done, self.document = done, document

    @property
    def cells(self) -> list[dict]:
        return self.document["cells"]

    def outputs(self, number: int) -> list[dict]:
        return self.cells[number]["outputs"]

    def text(self, number: int) -> str:
        return "".join(text_of(output) for output in self.outputs(number))


class NotebookScenario(Scenario):
    def run_notebook(self, given: dict | str, *options: str, expect: int = 0, **more) -> Ran:
        with self.home.folder() as folder:
            source, target = os.path.join(folder, "in.ipynb"), os.path.join(folder, "out.ipynb")
            with open(source, "w") as file:
                file.write(given if isinstance(given, str) else json.dumps(given))
            done = self.home.call("notebook", "run", source, "-o", target, *options, **more)
            self.assertEqual(done.code, expect, done.errors)
            document = None
            if os.path.exists(target):
                with open(target) as file:
                    document = json.load(file)
                self.check_valid(target)
            return Ran(done, document)

    def check_valid(self, path: str) -> None:
        if nbformat is None:
            support.missing("python3-nbformat")
        with open(path) as file:
            text = file.read()
        read = nbformat.reads(text, as_version=4)
        self.assertEqual((read.nbformat, read.nbformat_minor), (4, 5))
        nbformat.validate(read)
        self.assertEqual(text, nbformat.writes(read) + "\n", "not as Jupyter would write it")


class Running(NotebookScenario):
    def test_cells_run_in_order_in_one_interpreter(self):
        ran = self.run_notebook(notebook("x = 20", "print('hello')\nx += 1", "x * 2"))
        self.assertEqual([cell["execution_count"] for cell in ran.cells], [1, 2, 3])
        self.assertEqual(ran.outputs(1), [{"name": "stdout", "output_type": "stream", "text": ["hello\n"]}])
        self.assertEqual(ran.outputs(2), [{"data": {"text/plain": ["42"]}, "execution_count": 3, "metadata": {},
                                           "output_type": "execute_result"}])
        self.assertIn("3 of 3 cells", ran.done.errors)

    def test_what_is_not_run_stays_as_it_was(self):
        given = notebook({"cell_type": "markdown", "metadata": {"a": [1.0, None]}, "source": ["# T\n", "x"],
                          "attachments": {"d.png": {"image/png": "iVBO"}}},
                         {"cell_type": "raw", "metadata": {"format": "text/x-rst"}, "source": "raw"},
                         code("print('skipped')", ("skip-execution",), execution_count=7), "   ", "1",
                         custom={"deep": {"er": [1, 2.5]}})
        ran = self.run_notebook(given)
        self.assertEqual(ran.document["metadata"], given["metadata"])
        for before, after in zip(given["cells"][:4], ran.cells):
            after.pop("id")
            self.assertEqual(after | {"source": "".join(after["source"])},
                             before | {"source": "".join(before["source"])})
        self.assertEqual(ran.cells[4]["execution_count"], 1)

    def test_old_outputs_do_not_outlive_a_run(self):
        old = code("print('new')", execution_count=9)
        old["outputs"] = [{"name": "stdout", "output_type": "stream", "text": "old"}]
        never = dict(old)
        ran = self.run_notebook(notebook(old, "1 / 0", never), expect=1)
        self.assertEqual(ran.text(0), "new\n")
        self.assertEqual((ran.outputs(2), ran.cells[2]["execution_count"]), ([], None))

    def test_displays_update_and_clear(self):
        ran = self.run_notebook(notebook("h = display('one', display_id='x')", "update_display('two', display_id='x')",
                                         "print('gone')\nclear_output()\nprint('here')",
                                         "for i in range(3):\n    clear_output(wait=True)\n    print(i)"))
        self.assertEqual([ran.text(number) for number in range(4)], ["'two'", "", "here\n", "2\n"])
        self.assertNotIn("transient", json.dumps(ran.document))

    def test_the_first_error_ends_it(self):
        ran = self.run_notebook(notebook("import sys\nprint('warned', file=sys.stderr)\nraise ValueError('bad\\nvalue')",
                                         "print('never')"), expect=1)
        self.assertIn("cell 1 failed: ValueError: bad", ran.done.errors)
        stream, error = ran.outputs(0)
        self.assertEqual((stream["name"], text_of(stream)), ("stderr", "warned\n"))
        self.assertEqual((error["ename"], error["evalue"]), ("ValueError", "bad\nvalue"))
        self.assertEqual(error["traceback"][0], "Traceback (most recent call last):")
        self.assertEqual(error["traceback"][-2:], ["ValueError: bad", "value"])
        self.assertEqual(ran.outputs(1), [])

    def test_errors_can_be_allowed(self):
        ran = self.run_notebook(notebook("x = 1", "undefined", "x"), "--allow-errors", "--json")
        summary = ran.done.record
        self.assertEqual((summary["status"], summary["cells_run"], summary["cells_failed"]), ("ok", 3, 1))
        self.assertEqual((summary["error"]["cell"], summary["error"]["ename"]), (2, "NameError"))
        self.assertEqual(ran.text(2), "1")

    def test_a_cell_may_be_expected_to_fail(self):
        ran = self.run_notebook(notebook(code("1 / 0", ("raises-exception",)), "'on'"))
        self.assertEqual(ran.outputs(0)[0]["ename"], "ZeroDivisionError")
        self.assertEqual(ran.text(1), "'on'")

    def test_errors_of_every_kind_are_outputs(self):
        cases = {"x = = 1": "SyntaxError", "def f(": "SyntaxError", "if 1:\nx": "IndentationError",
                 "import json\njson.loads('{')": "JSONDecodeError", "input()": "EOFError",
                 "raise SystemExit": "SystemExit", "import sys\nsys.exit(3)": "SystemExit",
                 "class Own(Exception): pass\nraise Own": "Own",
                 "try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError(1) from e": "KeyError",
                 "import os\nos.abort()": "signal_abrt"}
        for source, name in cases.items():
            with self.subTest(source):
                ran = self.run_notebook(notebook(source), expect=1)
                self.assertEqual([output.get("ename") for output in ran.outputs(0)], [name], ran.outputs(0))
                self.assertIn("cell 1 failed: " + name, ran.done.errors)
        chained = self.run_notebook(notebook(list(cases)[8]), expect=1).outputs(0)[0]
        self.assertEqual(chained["traceback"].count("Traceback (most recent call last):"), 2)

    def test_a_late_cell_is_interrupted_and_the_rest_goes_on_if_allowed(self):
        given = notebook("x = 5", "import time\nprint('begun')\nwhile True: time.sleep(0.1)", "x")
        ran = self.run_notebook(given, "--cell-timeout", "0.5", expect=1)
        self.assertEqual(ran.outputs(1)[1]["ename"], "TimeoutError")
        self.assertIn("0.5 s", ran.outputs(1)[1]["evalue"])
        self.assertEqual(ran.outputs(2), [])
        ran = self.run_notebook(given, "--cell-timeout", "0.5", "--allow-errors")
        self.assertEqual((ran.text(2), text_of(ran.outputs(1)[0])), ("5", "begun\n"))

    def test_a_late_cell_that_does_not_listen_ends_the_run(self):
        given = notebook("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "1")
        ran = self.run_notebook(given, "--cell-timeout", "0.5", "--allow-errors", expect=1)
        self.assertEqual(ran.outputs(0)[0]["ename"], "TimeoutError")
        self.assertEqual(ran.outputs(1), [])

    def test_each_cell_has_the_time(self):
        given = notebook(*["import time\ntime.sleep(0.4)"] * 3)
        self.run_notebook(given, "--cell-timeout", "0.9")

    def test_limits_and_files(self):
        with self.home.folder() as folder:
            with open(os.path.join(folder, "data.csv"), "w") as file:
                file.write("1\n41\n")
            ran = self.run_notebook(notebook("sum(map(int, open('data.csv')))"), "--in", os.path.join(folder, "data.csv"))
            self.assertEqual(ran.text(0), "42")
        ran = self.run_notebook(notebook("x = bytearray(1 << 30)\nx[::4096] = x[::4096]", "1"), "--memory", "64M",
                                "--allow-errors", expect=1)
        self.assertEqual(ran.outputs(0)[0]["ename"], "MemoryError")

    def test_an_interrupt_stops_and_what_was_done_is_written(self):
        with self.home.folder() as folder:
            source, target = os.path.join(folder, "in.ipynb"), os.path.join(folder, "out.ipynb")
            with open(source, "w") as file:
                json.dump(notebook("print('done')", "import time\ntime.sleep(60)", "1"), file)
            ours, theirs = pty.openpty()
            with self.home.start("notebook", "run", source, "-o", target, "--allow-errors", stdout=subprocess.DEVNULL,
                                 stderr=theirs) as process:
                os.close(theirs)
                self.interrupt_at(process, ours, b"cell 2")
            os.close(ours)
            self.assertEqual(process.returncode, 130)
            with open(target) as file:
                cells = json.load(file)["cells"]
            self.assertEqual(text_of(cells[0]["outputs"][0]), "done\n")
            self.assertEqual(cells[1]["outputs"][0]["ename"], "KeyboardInterrupt")
            self.assertEqual(cells[2]["outputs"], [])

    @staticmethod
    def interrupt_at(process: subprocess.Popen, terminal: int, mark: bytes) -> None:
        """Again and again until it is over, as a person would: one that comes between two cells does nothing."""
        shown = b""
        with contextlib.suppress(OSError):
            while True:
                if select.select([terminal], [], [], 0.3)[0]:
                    shown += os.read(terminal, 65536)
                elif mark in shown:
                    process.send_signal(signal.SIGINT)

    def test_the_notebook_goes_through_pipes_and_over_itself(self):
        done = self.home.call("notebook", "run", "-", "-o", "-", stdin=json.dumps(notebook("6 * 7")).encode())
        self.assertEqual(done.record["cells"][0]["outputs"][0]["data"]["text/plain"], ["42"])
        with self.home.folder() as folder:
            path = os.path.join(folder, "same.ipynb")
            with open(path, "w") as file:
                json.dump(notebook("1"), file)
            os.chmod(path, 0o640)
            self.assertEqual(self.home.call("notebook", "run", path, "-o", path).code, 0)
            self.check_valid(path)
            self.assertEqual((os.stat(path).st_mode & 0o777, os.listdir(folder)), (0o640, ["same.ipynb"]))

    def test_without_a_place_to_write_it_only_says_how_it_went(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "a.ipynb")
            with open(path, "w") as file:
                json.dump(notebook("1"), file)
            done = self.home.call("notebook", "run", path)
            self.assertEqual((done.code, done.text, os.listdir(folder)), (0, "", ["a.ipynb"]))

    def test_a_bar_on_a_terminal_and_none_elsewhere(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "a.ipynb")
            with open(path, "w") as file:
                json.dump(notebook("x = '\x1b[31m'", "2"), file)
            ours, theirs = pty.openpty()
            with self.home.start("notebook", "run", path, stdout=subprocess.DEVNULL, stderr=theirs) as process:
                os.close(theirs)
                shown = b""
                with contextlib.suppress(OSError):
                    while piece := os.read(ours, 65536):
                        shown += piece
            os.close(ours)
            self.assertIn(b"[                    ] 0/2 cell 1: x = '", shown)
            self.assertIn(b"[##########          ] 1/2 cell 2: 2", shown)
            self.assertNotIn(b"\x1b[31m", shown.replace(b"\x1b[31mhutch", b""))
            self.assertNotIn("\r", self.home.call("notebook", "run", path).errors)

    def test_without_the_engine(self):
        self.assertEqual(self.run_notebook(notebook("x = 6", "x * 7"), "--no-engine").text(1), "42")


class Parameters(NotebookScenario):
    GIVEN = notebook(code("n = 1\nname = 'x'", ("parameters",)), "print(repr((n, name, globals().get('more'))))")

    def test_values_come_after_the_defaults(self):
        ran = self.run_notebook(self.GIVEN, "-p", "n=5", "-p", "name=it's \"here\"\\", "-p", "more=[1, {\"a\": null}]")
        self.assertEqual(ran.text(2), "(5, 'it\\'s \"here\"\\\\', [1, {'a': None}])\n")
        self.assertEqual(ran.cells[1]["metadata"]["tags"], ["injected-parameters"])
        again = self.run_notebook(ran.document, "-p", "n=6")
        self.assertEqual((len(again.cells), again.text(2)), (3, "(6, 'x', None)\n"))

    def test_values_from_a_file(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "values.json")
            with open(path, "w") as file:
                json.dump({"n": 1.0, "more": True}, file)
            ran = self.run_notebook(self.GIVEN, "--parameters", path, "-p", "n=0.5")
        self.assertEqual(ran.text(2), "(0.5, 'x', True)\n")

    def test_a_value_is_never_code(self):
        ran = self.run_notebook(self.GIVEN, "-p", "name=\"\n__import__('os').abort()\n#", "-p", "more='+str(1)+'")
        self.assertEqual(ran.text(2), repr((1, "\"\n__import__('os').abort()\n#", "'+str(1)+'")) + "\n")

    def test_names_are_checked(self):
        for given in ("x", "1x=1", "a b=1", "import=1", "x.y=1", "x;import os=1"):
            with self.subTest(given):
                self.assertIn("parameter", self.run_notebook(self.GIVEN, "-p", given, expect=125).done.errors)


class Refusals(NotebookScenario):
    def refused(self, given: dict | str, *words: str) -> None:
        ran = self.run_notebook(given, expect=125)
        self.assertIsNone(ran.document)
        for word in words:
            self.assertIn(word, ran.done.errors)

    def test_other_formats_say_how_to_convert(self):
        self.refused({"worksheets": [], "metadata": {}, "nbformat": 3, "nbformat_minor": 0}, "format 3", "nbconvert")
        self.refused(notebook(minor=9), "format 4.9")

    def test_what_is_no_notebook(self):
        self.refused("<html>", "line 1 is not valid JSON")
        self.refused("{}", "nbformat")
        self.refused(notebook({"cell_type": "sql", "metadata": {}, "source": ""}), "cell 1", "sql")
        self.refused(notebook("1", kernelspec={"name": "ir", "display_name": "R", "language": "R"}), "for r")

    def test_places_are_checked_before_anything_runs(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "a.ipynb")
            with open(path, "w") as file:
                json.dump(notebook("1"), file)
            for options in (("-o", folder), ("-o", "/nowhere/x.ipynb"), ("--html", "/proc/x"), ("-o", "-", "--json")):
                with self.subTest(options):
                    self.assertEqual(self.home.call("notebook", "run", path, *options).code, 125)
            self.assertEqual(self.home.call("notebook", "run", folder + "/missing.ipynb").code, 125)


class Pages(NotebookScenario):
    def test_a_page_holds_everything_and_nothing_acts(self):
        hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>"
        given = notebook({"cell_type": "markdown", "metadata": {}, "source": "# Head\n" + hostile},
                         "print(%r)" % hostile, "class H:\n    def _repr_html_(self): return %r\nH()" % hostile)
        with self.home.folder() as folder:
            page = os.path.join(folder, "page.html")
            self.run_notebook(given, "--html", page)
            with open(page) as file:
                html = file.read()
        self.assertIn("<h1>Head</h1>", html)
        self.assertIn('<iframe sandbox=""', html)
        self.assertNotRegex(html, r"<script|<img src=x|https?://")


class Golden(NotebookScenario):
    """The notebooks that tests/notebooks/compare.py holds against Jupyter's own outputs."""

    def test_all_of_them(self):
        if self.home.call("template", "show", "default", "--json").record["state"] != "ready":
            support.missing("template default is not built")
        paths = sorted(glob.glob(os.path.join(NOTEBOOKS, "*.ipynb")))
        self.assertGreater(len(paths), 19)
        for path in paths:
            name = os.path.basename(path)[:-6]
            with self.subTest(name):
                with open(path) as file:
                    text = file.read()
                ran = self.run_notebook(text, "--template", "default", "--memory", "1G",
                                        expect=1 if name in STOPS else 0)
                self.assertIn(STOPS.get(name, ""), ran.done.errors)
                self.check_outputs(name, ran)

    def check_outputs(self, name: str, ran: Ran) -> None:
        if name == "matplotlib":
            self.assertEqual([sorted(ran.outputs(number)[-1]["data"]) for number in (1, 2, 4)],
                             [["image/png", "text/plain"]] * 3)
        elif name == "pandas":
            self.assertEqual(sorted(ran.outputs(0)[-1]["data"]), ["text/html", "text/plain"])
        elif name == "results":
            self.assertEqual(ran.outputs(6)[0]["data"], {"text/plain": ["{'a': [1, 2], 'b': {'c': None}}"]})
        elif name == "rich":
            kinds = [sorted(set(output["data"]) - {"text/plain"}) for number in range(1, 7)
                     for output in ran.outputs(number)]
            self.assertEqual(kinds, [["text/html"], ["text/markdown"], ["text/latex"], ["image/svg+xml"],
                                     ["application/json"], ["image/png"]])
        elif name == "async_cells":
            self.assertEqual(ran.text(1), "[0, 2, 4]")
        elif name == "update_display":
            self.assertEqual([ran.text(number) for number in (1, 3)], ["", "'done'"])
            self.assertTrue(re.search("'a new one'", json.dumps(ran.outputs(0))))


if __name__ == "__main__":
    support.main()
