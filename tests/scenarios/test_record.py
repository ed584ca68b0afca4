"""The record (`--json`): every key is there, every number is measured, every error has its category."""
from __future__ import annotations

import datetime
import unittest

import support
from support import Scenario

setUpModule, tearDownModule = support.begin, support.finish

SHAPE = {
    "execution_id": str, "status": str, "language": str, "template": str, "started_at": str, "exit_code": int,
    "start": str, "stdout": str, "stderr": str, "truncated": dict, "error": (dict, type(None)), "files": list,
    "usage": dict, "phases": dict, "walls": list, "denials": list, "steps": list, "notices": list, "events": list,
    "result": (dict, type(None)), "displays": list, "changes": (dict, type(None)),
}
USAGE = {"wall_ms", "cpu_ms", "cpu_percent", "peak_memory_bytes", "memory_source", "scratch_bytes", "output_bytes"}
PHASES = {"setup_ms", "validation_ms", "execution_ms", "collection_ms", "total_ms"}
ERROR = {"category", "code", "message", "hint", "fix", "state", "retryable", "python", "limit"}
WALLS = ["namespaces", "root", "network", "ids", "capabilities", "seccomp", "landlock", "rlimits", "cgroup"]
LIGHT = "print('x')"
HEAVY = ("import time, sys\nx = bytearray(80 << 20)\nopen('f', 'wb').write(b'x' * (3 << 20))\n"
         "end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint('y' * 5000); sys.exit(3)")


def numbers(value, path: str = "") -> dict[str, float]:
    """Every number in a record, by where it is."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return {}
    if isinstance(value, (int, float)):
        return {path: value}
    items = value.items() if isinstance(value, dict) else ((entry.get("name", i), entry) if isinstance(entry, dict)
                                                           else (i, entry) for i, entry in enumerate(value))
    found = {}
    for key, inner in items:
        found.update(numbers(inner, "%s.%s" % (path, key)))
    return found


class Shape(Scenario):
    def test_every_key_is_there(self):
        for code in (LIGHT, HEAVY, "1/0", "while True: pass"):
            record = self.home.record(code, "--timeout", "2")
            for key, kind in SHAPE.items():
                self.assertIsInstance(record[key], kind, key)
            extra = set(record) - set(SHAPE) - {"stdout_base64", "stderr_base64"}
            self.assertEqual(extra, set())
            self.assertEqual((set(record["usage"]), set(record["phases"])), (USAGE, PHASES))
            self.assertEqual([wall["name"] for wall in record["walls"]], WALLS)
            if record["error"]:
                self.assertLessEqual(ERROR, set(record["error"]))

    def test_every_wall_is_up_and_says_what_it_is(self):
        for wall in self.home.record(LIGHT)["walls"]:
            self.assertTrue(wall["up"] and wall["detail"], wall)

    def test_no_number_is_made_up(self):
        """Over a light and a heavy run every measured number takes more than one value."""
        runs = [numbers({key: self_or[key] for key in ("usage", "phases", "exit_code", "steps", "files", "events")})
                for self_or in (self.home.record(LIGHT), self.home.record(HEAVY), self.home.record(LIGHT))]
        common = set(runs[0]) & set(runs[1])
        constant = {path for path in common if runs[0][path] == runs[1][path] == runs[2].get(path)}
        allowed = {".steps.shell: made in advance.ms", ".steps.join: no_new_privileges.ms", ".steps.check the request.ms",
                   ".phases.validation_ms"}  # nothing to measure, or two microseconds
        tiny = {path for path in constant if path.startswith(".steps") and runs[0][path] < 0.02}  # a few microseconds
        self.assertEqual({path for path in constant - allowed - tiny if runs[0][path] != 0}, set())
        zero = {path for path in constant - allowed if path.startswith((".usage", ".phases"))}
        self.assertEqual(zero - {".usage.scratch_bytes"}, set())

    def test_numbers_are_true(self):
        light, heavy = self.home.record(LIGHT), self.home.record(HEAVY)
        self.assertGreater(heavy["usage"]["peak_memory_bytes"], 80 << 20)
        self.assertLess(light["usage"]["peak_memory_bytes"], 40 << 20)
        self.assertTrue(300 <= heavy["usage"]["cpu_ms"] < 900, heavy["usage"])
        self.assertGreaterEqual(heavy["usage"]["scratch_bytes"], 3 << 20)
        self.assertEqual((light["usage"]["output_bytes"], heavy["usage"]["output_bytes"]), (2, 5001))
        usage = heavy["usage"]
        self.assertAlmostEqual(usage["cpu_percent"], 100 * usage["cpu_ms"] / usage["wall_ms"], delta=0.5)
        self.assertEqual(usage["memory_source"], "cgroup")

    def test_phases_add_up(self):
        for code in (LIGHT, HEAVY):
            phases = self.home.record(code)["phases"]
            parts = sum(value for key, value in phases.items() if key != "total_ms")
            self.assertLessEqual(parts, phases["total_ms"] * 1.02 + 0.5, phases)
            self.assertGreater(parts, phases["total_ms"] * 0.7 - 2, phases)
            self.assertTrue(all(value >= 0 for value in phases.values()), phases)

    def test_times_and_names(self):
        before = datetime.datetime.now(datetime.timezone.utc)
        one, two = self.home.record(LIGHT), self.home.record(LIGHT)
        started = datetime.datetime.fromisoformat(one["started_at"].replace("Z", "+00:00"))
        self.assertLess(abs((started - before).total_seconds()), 10)
        self.assertNotEqual(one["execution_id"], two["execution_id"])
        self.assertRegex(one["execution_id"], "^exe_[0-9a-f]{24,}$")
        self.assertEqual((one["template"], one["language"], one["start"]), ("bare", "python", "warm"))
        self.assertEqual(self.home.record(LIGHT, "--no-engine")["start"], "cold")

    def test_events_keep_the_order(self):
        record = self.home.record("import sys, time\nfor i in range(3):\n  print('o', i, flush=True); time.sleep(.05)\n"
                                  "  print('e', i, file=sys.stderr, flush=True); time.sleep(.05)")
        self.assertEqual([(event["type"], event["text"]) for event in record["events"]],
                         [(stream, "%s %d\n" % (letter, i)) for i in range(3)
                          for stream, letter in (("stdout", "o"), ("stderr", "e"))])
        times = [event["time_ms"] for event in record["events"]]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1] - times[0], 200)

    def test_denials_are_counted(self):
        record = self.home.record("import os\nfor i in range(3):\n  try: os.chroot('/')\n  except OSError: pass")
        self.assertEqual([(denial["syscall"], denial["count"]) for denial in record["denials"]], [("chroot", 3)])
        self.assertTrue(record["denials"][0]["hint"])

    def test_failures_have_the_same_shape(self):
        done = self.home.run("1", "--json", "--timeout", "abc")
        record = done.record
        self.assertEqual((done.code, record["status"], record["exit_code"]), (125, "error", 125))
        self.assertLessEqual({"category", "code", "message", "hint", "fix", "state", "retryable"}, set(record["error"]))
        self.assertEqual(record["error"]["category"], "invalid_request")


class Errors(Scenario):
    """One program per row of src/session/error_table.cc."""

    CASES = {
        ("syntax_error", "syntax_error"): "x = = 1",
        ("syntax_error", "indentation_error"): "if True:\nx = 1",
        ("python_exception", "exception"): "{}['missing']",
        ("missing_module", "module_not_found"): "import no_such_module_anywhere",
        ("system_exit", "exit"): "raise SystemExit(5)",
        ("crash", "signal_segv"): "import ctypes; ctypes.string_at(0)",
        ("crash", "signal_abrt"): "import os; os.abort()",
        ("crash", "signal_other"): "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)",
        ("timeout", "wall_timeout"): "while True: pass",
        ("memory_limit", "oom_killed"): "x = b'x' * (1 << 30)",
        ("memory_limit", "memory_error"): "raise MemoryError",
        ("resource_limit", "output_limit"): "while True: print('x' * 100000)",
        ("resource_limit", "too_many_files"): "k = [open('/dev/null') for _ in range(2000)]",
        ("resource_limit", "disk_full"): "for i in range(99): open('f%d' % i, 'wb').write(b'x' * (1 << 20))",
        ("resource_limit", "file_too_large"): "open('f', 'wb').truncate(1 << 30)",
        ("network_blocked", "network_disabled"): "import socket; socket.create_connection(('1.1.1.1', 80), 2)",
        ("permission_denied", "readonly_fs"): "raise OSError(30, 'Read-only file system')",
        ("permission_denied", "path_denied"): "raise PermissionError(13, 'Permission denied', '/usr/x')",
        ("stdin_unavailable", "input_called"): "input()",
    }

    def test_every_category(self):
        for (category, code), program in self.CASES.items():
            with self.subTest(category + "/" + code):
                record = self.home.record(program, "--timeout", "3")
                error = self.check_category(record, category, code)
                self.assertFalse(error["retryable"])
                self.assertEqual(record["status"], "timeout" if category == "timeout" else "error")

    def test_writing_where_only_reading_is_allowed(self):
        for path in ("/usr/x", "/etc/passwd", "/x", "/opt/hutch/x", "/proc/self/comm"):
            error = self.home.record("open(%r, 'w').write('x')" % path)["error"]
            self.assertEqual(error["category"], "permission_denied", (path, error))

    def test_names_that_do_not_resolve(self):
        error = self.home.record("import urllib.request; urllib.request.urlopen('http://example.com', timeout=5)")["error"]
        self.assertEqual((error["category"], error["code"]), ("network_blocked", "network_disabled"), error)

    def test_where_it_happened(self):
        record = self.home.record("def f(x):\n    return 1 / x\n\nf(0)")
        python = record["error"]["python"]
        self.assertEqual((python["ename"], python["evalue"], python["line"], python["cell_line"]),
                         ("ZeroDivisionError", "division by zero", 2, "    return 1 / x"))
        self.assertEqual(len(python["traceback"]), 2)
        self.assertIn("line 4", python["traceback"][0])
        self.assertIn('File "<string>", line 2, in f', record["stderr"])
        self.assertNotIn("hutch_runner", record["stderr"])

    def test_where_the_syntax_is_wrong(self):
        python = self.home.record("x = 1\ny = (1,\n")["error"]["python"]
        self.assertEqual((python["ename"], python["line"]), ("SyntaxError", 2))
        self.assertTrue(python["column"])

    def test_a_program_cannot_write_its_own_verdict(self):
        """Frames forged on the task socket may lie about Python, not about codes, times and sizes."""
        forged = ("import os, struct\ndef frame(k, p): os.write(3, struct.pack('<IB', len(p) + 1, k) + p)\n"
                  "t = lambda s: struct.pack('<I', len(s)) + s\n"
                  "frame(67, t(b'Fake') + t(b'lie') + t(b'') + struct.pack('<iii', 0, 1, 1) + t(b'') + bytes(4))\n")
        record = self.home.record(forged + "os._exit(0)")
        self.assertEqual((record["status"], record["exit_code"], record["error"]), ("ok", 0, None))
        record = self.home.record(forged + "for k in range(64, 256): os.write(3, b'\\xff' * 100)\nos._exit(9)")
        self.assertEqual((record["status"], record["exit_code"]), ("error", 9))
        record = self.home.record("import os\nos.write(3, b'\\x01\\0\\0\\0\\x40'); os.close(3); print('fine')")
        self.assertEqual((record["exit_code"], record["stdout"]), (0, "fine\n"))

    def test_hostile_exceptions(self):
        code = ("class E(Exception):\n  def __str__(self): raise self\n  __name__ = 5\nE.__qualname__ = 'x' * 99999\nraise E")
        record = self.home.record(code)
        self.assertEqual(record["exit_code"], 1)
        self.check_category(record, "python_exception", "exception")
        record = self.home.record("raise Exception('\\ud800' + 'x' * 10_000_000)")
        self.assertLess(len(record["error"]["message"]), 20_000)

    def test_deep_recursion(self):
        record = self.home.record("def f(): f()\nf()")
        self.assertEqual(record["error"]["python"]["ename"], "RecursionError")
        self.assertLessEqual(len(record["error"]["python"]["traceback"]), 20)


if __name__ == "__main__":
    support.main()
