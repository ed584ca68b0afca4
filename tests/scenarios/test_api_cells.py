"""What cells give back over HTTP: values, displays in order, plots, tables, charts, changes; and what can be asked."""
from __future__ import annotations

import base64
import struct
import time

import api_support
import support
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish

TABLE, CHART = "application/vnd.hutch.table+json", "application/vnd.hutch.chart+json"


def png_size(text: str) -> tuple[int, int]:
    data = base64.b64decode(text, validate=True)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def resident(pid: int) -> int:
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * 4096


class InSession(ApiScenario):
    def open(self, **options) -> api_support.Session:
        session = self.api.session(**{"template": "default", "mode": "ipython", **options})
        self.addCleanup(session.__exit__)
        return session

    def cell(self, code: str, **more) -> dict:
        return self.api.run(code, template="default", **more)

    def mime(self, run: dict) -> dict:
        self.assertEqual((run["status"], run["error"]), ("ok", None), run["stderr"])
        return run["result"]["mime"]


class Values(InSession):
    def test_the_last_value_is_the_result_in_both_modes(self):
        for mode in ("ipython", "plain"):
            with self.subTest(mode=mode):
                session = self.open(mode=mode)
                run = session.run("x = {'a': [1, 2]}\nx")
                self.assertEqual(run["stdout"], "")
                self.assertEqual(self.mime(run), {"text/plain": "{'a': [1, 2]}", "application/json": {"a": [1, 2]}})
                self.assertIsNone(session.run("x = 1")["result"])
                self.assertIsNone(session.run("None")["result"])
                self.assertEqual(self.mime(session.run("_['a']"))["text/plain"], "[1, 2]")

    def test_every_kind_of_representation(self):
        session = self.open()
        session.run("from IPython.display import *")
        for code, mime, wanted in (
                ("HTML('<b>a</b>')", "text/html", "<b>a</b>"), ("Markdown('*a*')", "text/markdown", "*a*"),
                ("Latex('$x$')", "text/latex", "$x$"), ("Math('x')", "text/latex", "$\\displaystyle x$"),
                ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "image/svg+xml",
                 '<svg xmlns="http://www.w3.org/2000/svg"/>'),
                ("JSON({'a': 1})", "application/json", {"a": 1}),
                ("Javascript('1')", "application/javascript", "1"),
                ("display({'text/latex': 'only'}, raw=True)", "text/latex", "only")):
            with self.subTest(code=code):
                run = session.run(code)
                shown = run["result"] or run["displays"][0]
                self.assertEqual(shown["mime"][mime], wanted)

    def test_binary_kinds_travel_as_base64(self):
        session = self.open()
        run = session.run("import io\nfrom PIL import Image\nImage.new('RGB', (7, 5), 'red')")
        self.assertEqual(png_size(self.mime(run)["image/png"]), (7, 5))
        for kind, mime, begin in (("JPEG", "image/jpeg", b"\xff\xd8\xff"), ("GIF", "image/gif", b"GIF8"),
                                  ("PDF", "application/pdf", b"%PDF-"), ("WEBP", "image/webp", b"RIFF")):
            with self.subTest(kind=kind):
                run = session.run("b = io.BytesIO(); Image.new('RGB', (7, 5)).save(b, %r)\n"
                                  "display({%r: b.getvalue()}, raw=True)" % (kind, mime))
                self.assertTrue(base64.b64decode(run["displays"][0]["mime"][mime], validate=True).startswith(begin))

    def test_order_updates_and_clearing(self):
        session = self.open()
        run = session.run("print('a')\nh = display('one', display_id=True)\nprint('b')\nh.update('two')\nprint('c')\n'v'")
        self.assertEqual([(event["type"], event.get("text")) for event in run["events"]],
                         [("stdout", "a\n"), ("display", None), ("stdout", "b\n"), ("display_update", None),
                          ("stdout", "c\n"), ("result", None)])
        self.assertEqual([shown["mime"]["text/plain"] for shown in run["displays"]], ["'two'"])
        self.assertIn("mime", run["events"][1])
        self.assertEqual(run["events"][3]["display"], 0)
        run = session.run("from IPython.display import clear_output\ndisplay(1)\nclear_output(wait=True)\ndisplay(2)")
        self.assertEqual(run["stderr"], "")
        self.assertEqual([shown["mime"]["text/plain"] for shown in run["displays"]], ["2"])

    def test_a_stream_tells_displays_as_they_come(self):
        session = self.open()
        with self.api.stream("POST", session.at + "/runs", {"code": "print('a')\ndisplay(1)\n2"}) as stream:
            events = list(stream)
        kinds = [event["type"] for event in events]
        self.assertEqual([kind for kind in kinds if kind in ("stdout", "display", "result")],
                         ["stdout", "display", "result"])
        self.assertEqual(events[kinds.index("result")]["mime"], {"text/plain": "2"})

    def test_one_shot_as_a_cell(self):
        run = self.cell("import asyncio\nprint('x')\nawait asyncio.sleep(0)\n6 * 7", mode="cell")
        self.assertEqual((run["stdout"], self.mime(run)["text/plain"], run["exit_code"]), ("x\n", "42", 0))
        failed = self.cell("print(1)\n1/0", mode="cell")
        self.assertEqual((failed["exit_code"], failed["error"]["python"]["ename"]), (1, "ZeroDivisionError"))
        script = self.cell("6 * 7")
        self.assertEqual((script["stdout"], script["result"], script["displays"]), ("", None, []))
        self.refused("POST", "/v1/run", {"code": "1", "mode": "page"}, 400, "invalid_request", "bad_arguments", "mode")


class Pictures(InSession):
    def test_figures_at_show_and_at_the_end(self):
        session = self.open()
        run = session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], label='a')\nplt.title('T')\n"
                          "plt.xlabel('t (s)')\nplt.show()\nprint('between')\nplt.bar(['p', 'q'], [3, 4])")
        self.assertEqual(run["stderr"], "")
        self.assertEqual([event["type"] for event in run["events"]], ["display", "stdout", "result", "display"])
        line, bar = (shown["mime"] for shown in run["displays"])
        width, height = png_size(line["image/png"])
        self.assertTrue(300 < width < 1000 and 300 < height < 1000)
        self.assertEqual(line[CHART]["type"], "line")
        self.assertEqual((line[CHART]["title"], line[CHART]["x_label"], line[CHART]["x_unit"]), ("T", "t (s)", "s"))
        self.assertEqual(line[CHART]["elements"], [{"label": "a", "points": [[0, 1], [1, 2], [2, 3]]}])
        self.assertEqual(bar[CHART]["type"], "bar")
        self.assertEqual([(one["label"], one["value"]) for one in bar[CHART]["elements"]], [("p", 3), ("q", 4)])
        self.assertEqual(session.run("plt.get_fignums()")["result"]["mime"]["text/plain"], "[]")

    def test_scripts_show_too(self):
        run = self.cell("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nprint('done')")
        self.assertEqual((run["stdout"], run["stderr"]), ("done\n", ""))
        self.assertGreater(png_size(run["displays"][0]["mime"]["image/png"])[0], 100)

    def test_text_of_other_scripts_has_no_missing_glyphs(self):
        run = self.open().run("import matplotlib.pyplot as plt\nplt.title('中文 日本語 한국어 עברית العربية')\nplt.show()")
        self.assertEqual((run["stderr"], len(run["displays"])), ("", 1))

    def test_many_plots_do_not_add_up(self):
        session = self.open(limits={"memory": 400 << 20, "timeout": 120})
        code = "import matplotlib.pyplot as plt\nfor i in range(%d):\n  plt.plot(range(100)); plt.show()"
        session.run(code % 20)
        before = session.show()["memory_bytes"]
        for _ in range(3):
            self.assertEqual(session.run(code % 20)["error"], None)
        self.assertLess(session.show()["memory_bytes"] - before, 40 << 20)


class Tables(InSession):
    def test_frames_as_data(self):
        run = self.open().run("import pandas as pd, numpy as np\n"
                              "pd.DataFrame({'n': [1, 2], 'x': [.5, np.nan], 's': ['a', None],"
                              " 't': pd.to_datetime(['2026-01-02', None])})")
        mime = self.mime(run)
        self.assertIn("<table", mime["text/html"])
        table = mime[TABLE]
        self.assertEqual([column["name"] for column in table["columns"]], ["n", "x", "s", "t"])
        self.assertEqual((table["shape"], table["truncated"]), ([2, 4], False))
        self.assertEqual(table["rows"][0][:3], [1, 0.5, "a"])
        self.assertTrue(table["rows"][0][3].startswith("2026-01-02"))
        self.assertEqual(table["rows"][1], [2, None, None, None])

    def test_large_ones_are_summarised(self):
        run = self.open().run("import pandas as pd\npd.DataFrame({'n': range(1_000_000)})")
        mime = self.mime(run)
        self.assertEqual((mime[TABLE]["shape"], mime[TABLE]["truncated"]), ([1_000_000, 1], True))
        self.assertLessEqual(len(mime[TABLE]["rows"]), 100)
        self.assertLess(sum(len(str(value)) for value in mime.values()), 100_000)


class Hostile(InSession):
    def process_of(self, session: api_support.Session, mark: str) -> int:
        """Its interpreter, as the host numbers it."""
        session.run("import ctypes, os; ctypes.CDLL(None).prctl(15, b'%s', 0, 0, 0)" % mark)
        return next(pid for pid, (name, _, _) in support.all_processes().items() if name == mark)

    def test_bad_reprs_leave_a_living_session(self):
        session = self.open()
        session.run("class A:\n  def __init__(self, f): self.f = f\n  def __repr__(self): return self.f()\n"
                    "  def _repr_html_(self): return self.f()\n"
                    "def raises(): raise ValueError('no')\ndef loops(): return loops()\n"
                    "def huge(): return 'x' * (50 << 20)\ndef wrong(): return 7")
        for name in ("raises", "loops", "huge", "wrong"):
            with self.subTest(name=name):
                run = session.run("A(%s)" % name)
                self.assertEqual(run["session"]["state"], "kept")
                self.assertLess(len(str(run)), 2 << 20)
        self.assertEqual(self.mime(session.run("1 + 1"))["text/plain"], "2")

    def test_a_refused_fork_names_the_limit_and_the_session_lives(self):
        storm = "import os, time\nfor i in range(3): os.fork()\nwhile True:\n  if os.fork() == 0: os._exit(0)"
        for code in ("import os, time\nfor i in range(9):\n  if os.fork() == 0: time.sleep(30)", storm):
            with self.subTest(code):
                session = self.open(template="bare", mode="plain", limits={"processes": 8})
                run = session.run(code)
                self.assertEqual(run["error"]["code"], "too_many_processes", run["error"])
                self.assertEqual(run["session"]["state"], "kept")
                self.assertEqual(session.run("print(1)")["stdout"], "1\n")

    def test_a_late_cell_takes_its_processes_along_but_not_the_threads_of_the_session(self):
        session = self.open(template="bare", mode="plain")
        session.run("import os, threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
        late = session.run("pid = os.fork()\nif pid == 0: time.sleep(60)\nwhile True: time.sleep(.01)", timeout=1)
        self.assertEqual((late["status"], late["session"]["state"]), ("timeout", "kept"))
        self.assertEqual(session.run("print(os.waitpid(pid, 0)[1], threading.active_count())")["stdout"], "9 2\n")
        self.assertEqual(session.run("pid = os.fork()\nif pid == 0: os._exit(3)\nprint(os.waitpid(pid, 0)[1])")["stdout"],
                         "768\n")

    def test_nothing_of_a_fork_bomb_is_left_when_its_cell_is_over(self):
        """A child that is born while its parents are killed is in no list of those to be killed."""
        bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
        session = self.open(template="bare", mode="plain", limits={"processes": 60})
        for number in range(5):
            self.assertEqual(session.run(bomb, timeout=1)["status"], "timeout")
            groups = support.groups_of_process(self.process_of(session, "bomb-%d" % number))
            place = "pids%s/tasks" % groups["pids"] if "pids" in groups else groups["unified"] + "/cgroup.threads"
            with open("/sys/fs/cgroup/" + place) as file:
                self.assertEqual(len(file.read().split()), 2, "init and the interpreter")

    def test_the_limits_stand_for_the_next_interpreter_too(self):
        """They are lifted for a moment, so that what the last one leaves behind dies soon and has no more children."""
        session = self.open(template="bare", mode="plain", limits={"cpu_percent": 50, "processes": 20})
        seen = []
        for mark, end in (("limits-one", "while True: os.fork()"), ("limits-two", "os._exit(0)"), ("limits-three", "1")):
            groups = support.groups_of_process(self.process_of(session, mark))
            files = (("cpu", "cpu", "cpu.cfs_quota_us", "50000"), ("pids", "pids", "pids.max", "21"))
            if "pids" not in groups:
                files = (("", "unified", "cpu.max", "50000 100000"), ("", "unified", "pids.max", "21"))
            for mount, controller, file, value in files:
                place = "/sys/fs/cgroup/%s%s/%s" % (mount, groups[controller], file)
                with self.subTest(mark, file=file), open(place) as opened:
                    self.assertEqual(opened.read().strip(), value)
            seen.append(groups)
            session.run(end, timeout=1)
        self.assertEqual(seen[0], seen[2], "it is the same sandbox")

    def test_a_repr_that_never_ends_is_ended(self):
        session = self.open()
        session.run("class A:\n  def __repr__(self):\n    while True: pass")
        late = session.run("A()", timeout=1)
        self.assertEqual(late["status"], "timeout")
        self.assertEqual(self.mime(session.run("2"))["text/plain"], "2")

    def test_wrong_types_and_contents_do_not_come_through(self):
        session = self.open()
        run = session.run("display({'application/x-sh': 'rm', 'text/plain': 'a'}, raw=True)\n"
                          "display({'image/png': '!!! not base64'}, raw=True)\n"
                          "display({'image/png': b'<svg/>', 'text/plain': 'b'}, raw=True)")
        self.assertEqual(run["displays"][0]["mime"], {"text/plain": "a"})
        for shown in run["displays"]:
            self.assertLessEqual(set(shown["mime"]), {"text/plain"})

    def test_a_flood_of_displays_is_cut_and_said(self):
        session = self.open()
        run = session.run("for i in range(1000): display(i)")
        self.assertEqual((run["status"], run["truncated"]["displays"], len(run["displays"])), ("ok", True, 200))
        self.assertIn("displays left out: 800;", str(run["notices"]))
        run = session.run("for i in range(10): display({'text/html': 'x' * (3 << 20)}, raw=True)")
        self.assertTrue(run["truncated"]["displays"])
        self.assertLess(len(str(run)), 14 << 20)
        self.assertEqual(self.mime(session.run("3"))["text/plain"], "3")

    def test_an_update_counts_for_every_display_that_it_changes(self):
        session = self.open()
        run = session.run("for i in range(150): display('small', display_id='d')\n"
                          "display({'text/html': 'x' * (3 << 20)}, display_id='d', update=True, raw=True)")
        self.assertEqual((run["status"], run["truncated"]["displays"], len(run["displays"])), ("ok", True, 150))
        self.assertLess(len(str(run)), 1 << 20)
        run = session.run("h = display('small', display_id=True)\nfor i in range(150): h.update('y' * 1000)")
        self.assertFalse(run["truncated"]["displays"])
        self.assertEqual(run["displays"][0]["mime"]["text/plain"], repr("y" * 1000))

    def test_a_runner_that_talks_nonsense_hurts_only_itself(self):
        session = self.open()
        broken = session.run("import os\nos.write(3, (6 << 20).to_bytes(4, 'little') + bytes((72,)) + b'x' * 100)\n"
                             "os.write(3, b'\\xff' * 1000)\nimport time\ntime.sleep(.2)", timeout=3)
        self.assertNotEqual(broken["status"], "ok")
        self.assertEqual(self.mime(session.run("1"))["text/plain"], "1")

    def test_displays_whose_answers_nobody_reads_take_no_memory(self):
        session = self.open()
        daemon = api_support.server.process.pid
        before = resident(daemon)
        code = ("import os, struct\n"
                "frame = struct.pack('<IB', 28, 72) + struct.pack('<I', 1) + bytes(1 + 4 + 1 + 4 + 4)\n"
                "frame = struct.pack('<IB', len(frame) - 4, 72) + frame[5:]\n"
                "while True: os.write(3, frame * 2000)")
        self.assertNotEqual(session.run(code, timeout=3)["status"], "ok")
        self.assertLess(resident(daemon) - before, 32 << 20)
        self.assertEqual(self.mime(session.run("1"))["text/plain"], "1")

    def test_threads_that_show_after_their_cell_do_no_harm(self):
        session = self.open()
        session.run("import threading, time\ndef later():\n  time.sleep(.3)\n  display('late')\n"
                    "  display({'text/html': 'x' * (3 << 20)}, raw=True)\nthreading.Thread(target=later).start()")
        time.sleep(0.6)
        self.assertEqual(self.mime(session.run("1"))["text/plain"], "1")


class Changed(InSession):
    def changes(self, run: dict) -> dict:
        return {one["name"]: (one["change"], one["type"], one["summary"]) for one in run["changes"]["variables"]}

    def test_variables_and_directory(self):
        session = self.open()
        self.assertEqual(self.changes(session.run("x = 1\ns = 'abc'")),
                         {"x": ("created", "int", "1"), "s": ("created", "str", "'abc'")})
        self.assertEqual(self.changes(session.run("x += 1")), {"x": ("changed", "int", "2")})
        self.assertEqual(self.changes(session.run("del s"))["s"][0], "removed")
        self.assertIsNone(session.run("print(x)")["changes"])
        frame = self.changes(session.run("import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})"))["d"]
        self.assertEqual(frame[:2], ("created", "DataFrame"))
        self.assertIn("3 rows", frame[2])
        self.assertEqual(session.run("import os\nos.mkdir('sub'); os.chdir('sub')")["changes"]["cwd"], "/workspace/sub")


class Asked(InSession):
    def test_completions(self):
        session = self.open()
        session.run("import math\nalphabet = [1]")
        answer = self.api.post(session.at + "/complete", {"code": "math.sq", "cursor": 7}).json
        self.assertIn("sqrt", [match["text"].rpartition(".")[2] for match in answer["matches"]])
        self.assertEqual(answer["cursor_end"], 7)
        self.assertIn("alphabet", str(self.api.post(session.at + "/complete", {"code": "y = alph"}).json))

    def test_inspection(self):
        session = self.open(mode="plain")
        session.run("def area(width, height=2):\n  'Of a rectangle.'\n  return width * height")
        found = self.api.post(session.at + "/inspect", {"code": "area(3", "cursor": 4, "detail": 1}).json
        self.assertEqual((found["found"], found["documentation"]), (True, "Of a rectangle."))
        self.assertIn("(width, height=2)", found["signature"])
        self.assertIn("return width * height", found["source"])
        self.assertFalse(self.api.post(session.at + "/inspect", {"code": "nothing"}).json["found"])

    def test_variables_and_previews(self):
        session = self.open()
        session.run("import pandas as pd\nd = pd.DataFrame({'a': range(500)})\nn = 3\n_hidden = 1")
        listed = {one["name"]: one for one in self.api.get(session.at + "/variables").json["variables"]}
        self.assertEqual((listed["n"]["type"], listed["n"]["summary"]), ("int", "3"))
        self.assertNotIn("_hidden", listed)
        shown = self.api.get(session.at + "/variables/d?rows=5").json
        self.assertEqual(shown["mime"][TABLE]["shape"], [500, 1])
        self.assertEqual(len(shown["mime"][TABLE]["rows"]), 5)
        self.api.get(session.at + "/variables/none", expect=404)
        self.assertEqual(session.run("1")["execution_count"], 2)

    def test_not_while_something_runs(self):
        session = self.open()
        session.run("import time; time.sleep(20)", expect=202, wait_ms=0)
        self.refused("GET", session.at + "/variables", None, 409, "session_busy", "not_idle")

    def test_an_object_that_hangs_is_interrupted(self):
        session = self.open()
        session.run("class A:\n  def __dir__(self):\n    while True: pass\na = A()")
        begin = time.monotonic()
        answer = self.api.call("POST", session.at + "/complete", {"code": "a."})
        self.assertIn(answer.status, (200, 422))
        self.assertLess(time.monotonic() - begin, 9)
        self.assertEqual(self.mime(session.run("1"))["text/plain"], "1")


if __name__ == "__main__":
    support.main()
