"""`hutch run` as people type it: what a program gets, what comes back, and what every mistake is answered with."""
from __future__ import annotations

import os
import signal
import subprocess
import time
import unittest

import support
from support import GRACE, OWN_FAILURE, START, Scenario

setUpModule, tearDownModule = support.begin, support.finish


class Programs(Scenario):
    def test_code_on_the_command_line(self):
        done = self.home.run("print(6 * 7)")
        self.assertEqual((done.code, done.out, done.err), (0, b"42\n", b""))

    def test_arguments_after_the_code_are_the_programs(self):
        done = self.home.call("run", "-c", "import sys; print(sys.argv)", "--", "one", "--json", "-x", "zwei ü")
        self.assertEqual(done.text, "['-c', 'one', '--json', '-x', 'zwei ü']\n")

    def test_a_file_knows_its_name_and_place(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "tool.py")
            with open(path, "w") as file:
                file.write("import sys, os\nprint(__file__, __name__, sys.argv, os.getcwd(), sys.path[0])\n"
                           "print(open(__file__).read().count('sys'))\n")
            done = self.home.call("run", path, "--", "a b", "")
        self.assertEqual(done.text, "/workspace/tool.py __main__ ['/workspace/tool.py', 'a b', ''] /workspace "
                                    "/workspace\n4\n")
        self.assertEqual(done.code, 0)

    def test_a_program_from_standard_input(self):
        done = self.home.call("run", "-", "--", "arg", stdin=b"import sys\nprint(sys.argv, sys.stdin.read() == '')")
        self.assertEqual((done.code, done.text), (0, "['-', 'arg'] True\n"))

    def test_an_empty_program(self):
        for done in (self.home.run(""), self.home.call("run", "-", stdin=b"")):
            self.assertEqual((done.code, done.out, done.err), (0, b"", b""))

    def test_five_megabytes_of_program(self):
        code = b"x = 0\n" + b"x += 1  # a line of a long program\n" * 150_000
        self.assertGreater(len(code), 5_000_000)
        done = self.home.call("run", "--memory", "2G", "-", stdin=code + b"print(x)\n")
        self.assertEqual((done.code, done.text, done.errors), (0, "150000\n", ""))

    def test_a_program_that_is_too_long_is_refused(self):
        done = self.home.call("run", "-", stdin=b"#" * (17 << 20))
        self.check_refused(done, "16 MiB", "hint:")

    def test_top_level_await(self):
        done = self.home.run("import asyncio\nawait asyncio.sleep(0)\nprint('awaited')")
        self.assertEqual((done.code, done.text), (0, "awaited\n"))

    def test_multiprocessing_spawn_finds_the_program_again(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "work.py")
            with open(path, "w") as file:
                file.write("import multiprocessing as m\ndef square(x): return x * x\n"
                           "if __name__ == '__main__':\n"
                           "    with m.get_context('spawn').Pool(2) as pool: print(pool.map(square, range(5)))\n")
            done = self.home.call("run", path)
        self.assertEqual((done.code, done.text, done.errors), (0, "[0, 1, 4, 9, 16]\n", ""))

    def test_environment(self):
        done = self.home.run("import os; print(os.environ['A'], os.environ['B'], os.environ['LANG'])",
                             "--env", "A=1=2", "--env", "B=", "--env", "LANG=C")
        self.assertEqual(done.text, "1=2  C\n")
        self.check_refused(self.home.run("1", "--env", "novalue"), "--env NAME=VALUE")
        self.check_refused(self.home.run("1", "--env", "=x"), "--env NAME=VALUE")

    def test_the_callers_environment_stays_outside(self):
        done = self.home.run("import os; print([v for v in os.environ.values() if 'secret' in v])",
                             env={"TOKEN": "secret-1", "AWS_SECRET": "secret-2"})
        self.assertEqual(done.text, "[]\n")


class ExitCodes(Scenario):
    def test_codes_pass_through(self):
        for code, expected in (("raise SystemExit", 0), ("raise SystemExit(7)", 7), ("import os; os._exit(3)", 3),
                               ("import sys; sys.exit(256 + 9)", 9), ("1/0", 1), ("import sys; sys.exit('bad')", 1),
                               ("raise KeyboardInterrupt", 130), ("import sys; sys.exit(255)", 255)):
            with self.subTest(code):
                self.assertEqual(self.home.run(code).code, expected)

    def test_signals_are_128_and_their_number(self):
        for name in ("SIGSEGV", "SIGABRT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGUSR1"):
            with self.subTest(name):
                done = self.home.run("import os, signal; os.kill(os.getpid(), signal.%s); "
                                     "import time; time.sleep(5)" % name)
                self.assertEqual(done.code, 128 + getattr(signal, name))

    def test_a_segfault_is_a_crash(self):
        record = self.home.record("print('before', flush=True)\nimport ctypes; ctypes.string_at(0)")
        self.assertEqual((record["exit_code"], record["stdout"]), (139, "before\n"))
        self.check_category(record, "crash", "signal_segv")
        done = self.home.run("import ctypes; ctypes.string_at(0)")
        self.assertEqual(done.code, 139)
        self.assertIn("signal 11", done.errors)


class Output(Scenario):
    def test_binary_output_passes_untouched(self):
        for options in ((), ("--no-engine",)):
            done = self.home.run("import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)", *options)
            self.assertEqual(done.out, bytes(range(256)) * 4096)

    def test_invalid_utf8_is_raw_or_valid_json(self):
        code = "import sys; sys.stdout.buffer.write(b'a\\xff\\xc3'); sys.stderr.buffer.write(b'\\xed\\xa0\\x80')"
        done = self.home.run(code)
        self.assertEqual((done.out, done.err), (b"a\xff\xc3", b"\xed\xa0\x80"))
        record = self.home.record(code)
        self.assertEqual(record["stdout"], "a\ufffd\ufffd")
        self.assertEqual(record["stdout_base64"], "Yf/D")
        self.assertEqual(record["stderr_base64"], "7aCA")
        self.assertNotIn("stdout_base64", self.home.record("print('ü')"))

    def test_a_character_across_two_writes_stays_whole(self):
        record = self.home.record("import os, time\nfor b in 'ü€😀'.encode():\n  os.write(1, bytes([b])); time.sleep(.01)")
        self.assertEqual("".join(event["text"] for event in record["events"]), "ü€😀")

    def test_output_arrives_while_the_program_runs(self):
        with self.home.start("run", "-c", "print('first', flush=True); input(); print('second')",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"first\n")
            out, _ = process.communicate(b"go\n", timeout=20)
        self.assertEqual((out, process.returncode), (b"second\n", 0))

    def test_a_reader_that_leaves_does_not_hang_the_run(self):
        with self.home.start("run", "-c", "for i in range(100000): print(i)", stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            process.stdout.close()
            self.assertIn(process.wait(timeout=20), (0, 141, 120, 1))
            process.stderr.read()
        self.check_alive()

    def test_quiet_leaves_standard_error_to_the_program(self):
        done = self.home.run("import sys; print('mine', file=sys.stderr); open('f', 'w').write('x'); raise SystemExit(4)",
                             "--quiet")
        self.assertEqual((done.code, done.err), (4, b"mine\n"))
        self.assertEqual(self.home.run("while True: pass", "--quiet", "--timeout", "0.2").err, b"")

    def test_explain_names_times_walls_and_denials(self):
        done = self.home.run("import os\ntry: os.mkfifo('x'); os.chroot('/')\nexcept OSError as e: print(e.errno)",
                             "--explain")
        for words in ("Where the time went (warm start, template bare)", "total", "run the program", "Walls",
                      "seccomp", "landlock", "cgroup", "Denials", "chroot", "peak memory"):
            self.assertIn(words, done.errors)
        self.assertEqual(done.code, 0)


class Input(Scenario):
    def test_a_megabyte_of_standard_input(self):
        data = os.urandom(1 << 20)
        done = self.home.run("import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())",
                             stdin=data)
        self.assertEqual(done.text.strip(), __import__("hashlib").sha256(data).hexdigest())

    def test_standard_input_that_is_closed(self):
        done = self.home.call("run", "-c", "import sys; print(repr(sys.stdin.read()))", stdin=b"")
        self.assertEqual((done.code, done.text), (0, "''\n"))
        command = 'exec "$0" run -c "import sys; print(repr(sys.stdin.read()))" <&-'
        closed = subprocess.run(["/bin/sh", "-c", command, self.home.hutch], env=self.home.environment, timeout=20,
                                capture_output=True)
        self.assertEqual((closed.returncode, closed.stdout), (0, b"''\n"), closed.stderr)

    def test_input_that_nobody_reads(self):
        self.assertEqual(self.home.run("print('ok')", stdin=b"x" * (4 << 20)).text, "ok\n")

    def test_input_that_never_ends_does_not_keep_the_run(self):
        reading, writing = os.pipe()
        try:
            done = self.home.run("print('done')", stdin=reading, within=20)
        finally:
            os.close(reading)
            os.close(writing)
        self.assertEqual((done.code, done.text), (0, "done\n"))

    def test_input_without_standard_input_is_explained(self):
        record = self.home.record("input()", stdin=b"")
        self.check_category(record, "stdin_unavailable", "input_called")


class Refusals(Scenario):
    def test_a_directory_as_file(self):
        self.check_refused(self.home.call("run", self.home.directory), "is a directory", "hint:")

    def test_a_missing_file(self):
        self.check_refused(self.home.call("run", "/nowhere/x.py"), "/nowhere/x.py", "No such file", "hint:")

    def test_nothing_to_run(self):
        self.check_refused(self.home.call("run"), "nothing to run", "hint:")

    def test_an_unknown_template(self):
        self.check_refused(self.home.run("1", "--template", "nosuch"), "nosuch", "bare")
        record = self.home.run("1", "--json", "--template", "nosuch")
        self.assertEqual((record.code, record.record["error"]["category"]), (OWN_FAILURE, "invalid_request"))

    def test_time_limits_that_make_no_sense(self):
        for text in ("0", "-1", "abc", "1e9", "nan", "inf", "", "5x", "1000000000", "0.01"):
            with self.subTest(text):
                done = self.home.run("print(1)", "--timeout=" + text)
                self.check_refused(done, "hutch:")
                self.assertRegex(done.errors, "between 0.1 s and 300 s|not a time")

    def test_limits_that_make_no_sense(self):
        for option in ("--memory=1K", "--memory=-5", "--memory=lots", "--memory=1e30G", "--cpu=0", "--processes=-1",
                       "--processes=99999999", "--open-files=3", "--scratch=1", "--inodes=1", "--output-limit=0",
                       "--output-limit=100G", "--cpu-time=0", "--cpu=abc", "--processes=0", "--inodes=0"):
            with self.subTest(option):
                done = self.home.run("print(1)", option)
                self.assertEqual((done.code, done.out), (OWN_FAILURE, b""), done.errors)
                self.assertTrue(done.err)

    def test_an_unknown_option_says_what_there_is(self):
        done = self.home.run("1", "--no-such-option")
        self.assertEqual(done.code, OWN_FAILURE)
        self.assertIn("--timeout", done.out.decode() + done.errors)

    def test_help_shows_examples(self):
        for command in (("--help",), ("run", "--help")):
            done = self.home.call(*command)
            self.assertEqual(done.code, 0)
            self.assertIn("hutch run", done.text)
        self.assertIn("hutch run -c 'print(6 * 7)'", self.home.call("--help").text)
        self.assertRegex(self.home.call("--version").text, r"^hutch \d+\.\d+\.\d+")


class Cancelling(Scenario):
    def cancel(self, number: int, code: str) -> tuple[dict, float]:
        self.home.run("1")  # so that the engine has nothing left to prepare
        with self.home.start("run", "--json", "-c", code, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            support.settle(lambda: self.home.status().get("running_now") == 1)
            time.sleep(0.1)
            begin = time.monotonic()
            process.send_signal(number)
            out, _ = process.communicate(timeout=20)
        record = support.Done(process.returncode, out, b"", 0).record
        return record, time.monotonic() - begin

    def test_an_interrupt_ends_the_run_with_a_record(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            record, seconds = self.cancel(number, "print('began', flush=True)\nwhile True: pass")
            self.assertEqual((record["status"], record["stdout"]), ("cancelled", "began\n"))
            self.check_category(record, "cancelled", "user_cancelled")
            self.assertTrue(record["error"]["retryable"])
            self.assertLess(seconds, START)

    def test_a_client_that_is_killed_takes_its_sandbox_with_it(self):
        with self.home.start("run", "-c", "import time; time.sleep(60)", stdin=subprocess.DEVNULL) as process:
            support.settle(lambda: self.home.status().get("running_now") == 1)
            process.kill()
        self.assertTrue(support.settle(lambda: self.home.status()["running_now"] == 0, START))


class Concurrency(Scenario):
    def test_eight_sleepers_sleep_at_once(self):
        self.check_alive()
        begin = time.monotonic()
        sleepers = [self.home.start("run", "-c", "import time; time.sleep(1); print(%d)" % i, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE) for i in range(8)]
        said = [process.communicate(timeout=30)[0] for process in sleepers]
        self.assertEqual(said, [b"%d\n" % i for i in range(8)])
        self.assertLess(time.monotonic() - begin, 4)

    def test_a_busy_neighbour_does_not_lengthen_a_time_out(self):
        with self.home.start("run", "--timeout", "4", "-c", "while True: pass", stdin=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL) as neighbour:
            record = self.home.record("while True: pass", "--timeout", "1")
            neighbour.send_signal(signal.SIGINT)
        self.assertEqual(record["status"], "timeout")
        self.assertLess(record["usage"]["wall_ms"], 1000 + GRACE * 1000)


if __name__ == "__main__":
    support.main()
