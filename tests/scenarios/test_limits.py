"""Every limit, met by a program that goes beyond it: which limit, its value, what was used, and what was kept."""
from __future__ import annotations

import unittest

import support
from support import GRACE, START, Scenario

setUpModule, tearDownModule = support.begin, support.finish

FORK_BOMB = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"


class Time(Scenario):
    def test_an_endless_loop_is_ended_on_time_and_keeps_its_output(self):
        done = self.home.run("print('partial', flush=True)\nwhile True: pass", "--timeout", "1")
        self.assertEqual((done.code, done.text), (124, "partial\n"))
        self.assertIn("timed out after 1 s", done.errors)
        self.assertLess(done.seconds, 1 + GRACE + START)
        record = self.home.record("print('partial', flush=True)\nwhile True: pass", "--timeout", "1")
        self.assertEqual((record["status"], record["exit_code"], record["stdout"]), ("timeout", 124, "partial\n"))
        used = self.check_limit(self.check_category(record, "timeout", "wall_timeout"), "wall_time", 1000, "ms")
        self.assertTrue(1000 <= used < 1000 + GRACE * 1000, used)
        self.assertTrue(1000 <= record["usage"]["wall_ms"] < 1000 + GRACE * 1000, record["usage"])

    def test_a_sleeper_is_ended_on_time_too(self):
        record = self.home.record("import time; time.sleep(60)", "--timeout", "0.3")
        self.assertEqual(record["status"], "timeout")
        self.assertLess(record["usage"]["wall_ms"], 300 + GRACE * 1000)
        self.assertLess(record["usage"]["cpu_ms"], 250)

    def test_processor_time_counts_every_process(self):
        code = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
        record = self.home.record(code, "--cpu-time", "0.6", "--timeout", "20", "--cpu", "200")
        self.assertEqual((record["status"], record["exit_code"]), ("timeout", 124))
        used = self.check_limit(self.check_category(record, "timeout", "cpu_timeout"), "cpu_time", 600, "ms")
        self.assertTrue(600 <= used < 1500, used)

    def test_a_share_of_a_processor(self):
        code = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
        small = self.home.record(code, "--cpu", "20")["usage"]
        whole = self.home.record(code, "--cpu", "100")["usage"]
        self.assertTrue(5 < small["cpu_percent"] < 35, small)
        self.assertGreater(whole["cpu_percent"], 45)


class Memory(Scenario):
    def test_ten_gigabytes(self):
        for code in ("x = bytearray(10 << 30)", "x = [0] * (10 << 27)",
                     "print('began', flush=True); x = []\nwhile True: x.append(bytearray(1 << 20))"):
            with self.subTest(code):
                record = self.home.record(code, within=40)
                self.assertEqual((record["status"], record["exit_code"]), ("error", 137), record["error"])
                error = self.check_category(record, "memory_limit", "oom_killed")
                used = self.check_limit(error, "memory", 512 << 20, "bytes")
                self.assertGreater(used, 500 << 20)

    def test_the_message_says_what_happened(self):
        done = self.home.run("x = b'x' * (1 << 30)", "--memory", "64M")
        self.assertEqual(done.code, 137)
        self.assertIn("64 MiB", done.errors)
        self.assertIn("--memory", done.errors)

    def test_a_child_that_is_killed_is_not_the_end(self):
        code = ("import subprocess, sys\n"
                "print(subprocess.run([sys.executable, '-c', 'x = b\"x\" * (1 << 30)']).returncode)")
        record = self.home.record(code, "--memory", "128M")
        self.assertIn(record["stdout"], ("-9\n", ""))
        self.assertIn(record["exit_code"], (0, 137))

    def test_memory_that_is_asked_for_can_be_used(self):
        done = self.home.run("x = bytearray(700 << 20); print(len(x))", "--memory", "1G")
        self.assertEqual((done.code, done.text), (0, "734003200\n"))

    def test_a_memory_error_that_python_raises(self):
        record = self.home.record("x = bytearray(1 << 62)")
        self.check_category(record, "memory_limit", "memory_error")


class Processes(Scenario):
    def test_a_fork_bomb_is_held_and_ended(self):
        record = self.home.record(FORK_BOMB, "--timeout", "1", within=30)
        self.assertEqual((record["status"], record["exit_code"]), ("timeout", 124))
        self.assertLess(record["usage"]["wall_ms"], 1000 + GRACE * 1000)
        self.check_alive()

    def test_a_fork_that_fails_names_the_limit(self):
        code = "import os, time\nfor i in range(100):\n  if os.fork() == 0: time.sleep(30)"
        record = self.home.record(code, "--processes", "10")
        error = self.check_category(record, "resource_limit", "too_many_processes")
        used = self.check_limit(error, "processes", 10, "count")
        self.assertGreaterEqual(used, 10)

    def test_exactly_as_many_as_allowed(self):
        code = "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(30)\n    n += 1\n" \
               "except BlockingIOError: print(n)"
        self.assertEqual(self.home.run(code, "--processes", "10").text, "9\n")

    def test_threads_count_as_well(self):
        code = "import threading, time\nfor i in range(100): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
        record = self.home.record(code, "--processes", "12")
        self.check_category(record, "resource_limit", "too_many_processes")


class Files(Scenario):
    def test_a_full_disk(self):
        for place in ("/workspace/f", "/tmp/f", "/dev/shm/f"):
            with self.subTest(place):
                code = "f = open('%s', 'wb')\nwhile True: f.write(b'x' * 65536)" % place
                record = self.home.record(code)
                self.assertEqual(record["exit_code"], 1)
                error = record["error"]
                self.assertIn(error["code"], ("disk_full", "file_too_large"), error)
                self.check_limit(error, "scratch", 64 << 20, "bytes")

    def test_many_files_share_one_budget(self):
        code = "import itertools\nfor i in itertools.count(): open('%s/%d' % (('/tmp', '/workspace')[i % 2], i), 'wb')" \
               ".write(b'x' * (1 << 20))"
        record = self.home.record(code, "--scratch", "8M")
        error = self.check_category(record, "resource_limit", "disk_full")
        self.check_limit(error, "scratch", 8 << 20, "bytes")
        self.assertGreater(record["usage"]["scratch_bytes"], 6 << 20)

    def test_more_scratch_can_be_asked_for(self):
        done = self.home.run("open('f', 'wb').write(b'x' * (100 << 20)); print('ok')", "--scratch", "128M")
        self.assertEqual((done.code, done.text), (0, "ok\n"))

    def test_inodes(self):
        code = "import itertools\nfor i in itertools.count(): open('/tmp/%d' % i, 'w')"
        record = self.home.record(code, "--inodes", "100")
        self.check_category(record, "resource_limit", "disk_full")

    def test_open_files(self):
        record = self.home.record("k = [open('/dev/null') for _ in range(5000)]", "--open-files", "50")
        error = self.check_category(record, "resource_limit", "too_many_files")
        self.check_limit(error, "open_files", 50, "count")


class Output(Scenario):
    def test_an_endless_print_is_cut_and_ended(self):
        record = self.home.record("while True: print('x' * 1000)", within=30)
        error = self.check_category(record, "resource_limit", "output_limit")
        used = self.check_limit(error, "output", 8 << 20, "bytes")
        self.assertGreater(used, 8 << 20)
        self.assertEqual(len(record["stdout"]), 8 << 20)
        self.assertEqual(record["truncated"], {"stdout": True, "stderr": False, "files": False, "displays": False})
        self.assertLess(record["usage"]["wall_ms"], 10_000)

    def test_both_streams_share_one_limit(self):
        code = "import sys\nfor i in range(100): print('o' * 99, flush=True); print('e' * 99, file=sys.stderr, flush=True)"
        record = self.home.record(code, "--output-limit", "1000")
        self.assertEqual(len(record["stdout"]) + len(record["stderr"]), 1000)
        self.assertTrue(record["truncated"]["stdout"] or record["truncated"]["stderr"])
        self.check_category(record, "resource_limit", "output_limit")

    def test_exactly_the_limit_is_allowed(self):
        record = self.home.record("print('x' * 999)", "--output-limit", "1000")
        self.assertEqual((record["exit_code"], len(record["stdout"]), record["error"]), (0, 1000, None))


if __name__ == "__main__":
    support.main()
