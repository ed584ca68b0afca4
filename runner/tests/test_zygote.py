"""The zygote, on a shim that forks without isolation: children look fresh and share no randomness."""
from __future__ import annotations

from support import CELL_DONE, ERROR, RunnerTest, needs, open_shell, run_cell, run_script
from zygote_support import Zygote


class ZygoteTest(RunnerTest):
    def zygote(self, *modules: str, **environment: str) -> Zygote:
        zygote = Zygote(str(self.workspace), modules, environment)
        self.addCleanup(zygote.process.kill)
        self.addCleanup(zygote.close)
        return zygote

    def test_children_run_programs(self) -> None:
        zygote = self.zygote()
        for number in range(3):
            ours = zygote.run(run_script(f"print({number})", arguments=("a",), environment={"A": "b"}))
            self.assertEqual((ours.out, ours.err, ours.kinds), (f"{number}\n", "", []))
        ours = zygote.run(run_script("f = open('out', 'w')\nf.write('hi')\n1/0"))
        self.assertEqual((ours.errors[0].line, ours.kinds), (3, [ERROR]))
        self.assertIn('line 3, in <module>\n    1/0\n', ours.err)
        self.assertEqual((self.workspace / "out").read_text(), "hi")
        self.assertEqual(zygote.close(), (b"", b""))

    def test_a_child_made_in_advance_waits_for_its_task(self) -> None:
        zygote = self.zygote()
        ours = zygote.run(run_script("print(sorted(globals()))\nraise SystemExit(7)"), in_advance=True)
        usual = zygote.run(run_script("print(sorted(globals()))"))
        self.assertEqual((ours.out, ours.err, ours.code), (usual.out, "", 7))

    def test_children_run_cells(self) -> None:
        ours = self.zygote().run(open_shell(), run_cell("x = 4"), run_cell("x"), run_cell("exit()"))
        self.assertEqual((ours.out, ours.err, ours.kinds, ours.results), ("", "", [CELL_DONE] * 3, ["4"]))

    @needs("matplotlib", "IPython")
    def test_figures_are_ready_and_leave_no_trace(self) -> None:
        zygote = self.zygote("matplotlib.pyplot", "IPython.core.interactiveshell", MPLBACKEND="Agg",
                             OPENBLAS_NUM_THREADS="1")
        code = ("import matplotlib.pyplot as plt, IPython\nprint(plt.get_fignums(), IPython.get_ipython())\n"
                "plt.plot([1])\nplt.show()\nprint(plt.gcf().number)")
        ours = zygote.run(run_script(code))
        self.assertEqual((ours.out, ours.err), ("[] None\n1\n", ""))
        self.assertIn("image/png", ours.displays[0].data)
        ours = zygote.run(open_shell(ipython=True), run_cell("import matplotlib.pyplot as plt\nplt.plot([1]);"),
                          run_cell("get_ipython() is not None"), run_cell("exit()"))
        self.assertEqual((ours.out, ours.err, [sorted(each.data)[-1] for each in ours.displays]), ("", "", ["text/plain"] * 2))
        self.assertIn("image/png", ours.displays[0].data)
        self.assertEqual(zygote.run(run_script("x = 6\nx * 7", as_cell=True)).results, ["42"])
        self.assertEqual(zygote.close()[1], b"")

    def test_threads_and_exit_functions_work_in_children(self) -> None:
        ours = self.zygote("concurrent.futures.thread").run(run_script(
            "import atexit, threading, time\natexit.register(print, 'atexit')\n"
            "threading.Thread(target=lambda: (time.sleep(.05), print('thread'))).start()\n"
            "assert threading.current_thread() is threading.main_thread()\n"))
        self.assertEqual((ours.out, ours.err), ("thread\natexit\n", ""))

    def test_no_two_children_draw_the_same_numbers(self) -> None:
        code = ("import random, tempfile, uuid, own_generator\n"
                "print(random.random(), random.getrandbits(64))\nprint(own_generator.mine.random())\n"
                "print(tempfile.mktemp())\nprint(uuid.uuid4())\n")
        zygote = self.zygote("tempfile", "uuid", "ssl", "own_generator")
        outputs = [zygote.run(run_script(code)).out.splitlines() for _ in range(4)]
        self.assertEqual([len(lines) for lines in outputs], [4] * 4)
        for lines in zip(*outputs):
            self.assertEqual(len(set(lines)), 4, lines)

    def test_a_preload_that_fails_is_reported_and_skipped(self) -> None:
        zygote = self.zygote("no_such_module", "json")
        self.assertEqual(zygote.run(run_script("import sys\nprint('json' in sys.modules)")).out, "True\n")
        self.assertEqual(zygote.close(), (b"", b"hutch: cannot preload no_such_module: ModuleNotFoundError: "
                                          b"No module named 'no_such_module'\n"))

    def test_the_child_looks_like_a_fresh_interpreter(self) -> None:
        code = ("import sys\nprint(sorted(globals()))\nprint(sys.argv, sys.orig_argv[1:], hasattr(sys, 'last_value'))\n"
                "print([p for p in sys.path if p.endswith('/runner')])\n"
                "print(sys.stdin, sys.stdout, sys.stderr, sys.stdout is sys.__stdout__)\n"
                "import builtins, threading, linecache, os\nprint(hasattr(builtins, '_'), threading.active_count())\n"
                "print(list(linecache.cache), [n for n in os.environ if n.startswith('HUTCH_')])\n"
                "print(sys.stdout.line_buffering, sys.stderr.line_buffering, sys.modules['__main__'].__dict__ is globals())\n"
                "print(sys.exc_info(), sys.stdout.write_through, sys.stderr.write_through)")
        cold = self.run_code(code)
        ours = self.zygote(HUTCH_SOMETHING="x").run(run_script(code))
        self.assertEqual(ours.err, "")
        self.assertEqual(ours.out.replace("['<string>']", "[]"), cold.out)

    def test_the_skeleton_is_copied_home(self) -> None:
        skeleton, home = self.workspace / "skeleton", self.workspace / "home"
        (skeleton / ".config/tool").mkdir(parents=True)
        (skeleton / ".config/tool/settings").write_text("s")
        (skeleton / "run.sh").write_text("")
        (skeleton / "run.sh").chmod(0o755)
        self.zygote(HUTCH_SKELETON=str(skeleton), HOME=str(home))
        self.assertEqual((home / ".config/tool/settings").read_text(), "s")
        self.assertTrue((home / "run.sh").stat().st_mode & 0o100)

    def test_a_preload_that_starts_a_thread_is_refused_by_name(self) -> None:
        zygote = self.zygote("json", "own_thread", "re")
        self.assertFalse(zygote.ready)
        self.assertIn(b"preloading own_thread starts a thread", zygote.close()[1])
        self.assertEqual(zygote.process.returncode, 1)

    def test_what_a_preload_prints_is_not_the_programs(self) -> None:
        zygote = self.zygote("this")
        self.assertEqual(zygote.run(run_script("print(1)")).out, "1\n")
        self.assertIn(b"Zen of Python", zygote.close()[0])
