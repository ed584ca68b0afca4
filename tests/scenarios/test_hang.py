"""Programs that refuse to end: gone within their limit and 200 ms, with everything they started."""
from __future__ import annotations

import os
import time
import unittest
import uuid

import support
from support import GRACE, START, Scenario

setUpModule, tearDownModule = support.begin, support.finish

LIMIT = 0.5
# A name that a process of the test gives itself, to be looked for on the host afterwards.
MARK = "import ctypes; ctypes.CDLL(None).prctl(15, b'%s', 0, 0, 0)\n"

HANGS = {
    "ignores every signal it can": (
        "import signal, time\nfor s in signal.valid_signals():\n  try: signal.signal(s, signal.SIG_IGN)\n"
        "  except (OSError, ValueError): pass\nwhile True: time.sleep(60)"),
    "handles every signal and catches everything": (
        "import signal, time\ndef no(*_): pass\nfor s in signal.valid_signals():\n  try: signal.signal(s, no)\n"
        "  except (OSError, ValueError): pass\nwhile True:\n  try:\n    while True: time.sleep(1)\n"
        "  except BaseException: pass"),
    "forks twice and lets its parents die": (
        "import os, time\nif os.fork() == 0:\n  if os.fork() == 0:\n    while True: time.sleep(60)\n  os._exit(0)\n"
        "os.wait(); time.sleep(60)"),
    "leaves its session": (
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    os.setsid(); time.sleep(60)\n"
        "  time.sleep(60)\ntime.sleep(60)"),
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "stops its children": (
        "import os, signal, time\nfor i in range(5):\n  if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)\n"
        "time.sleep(60)"),
    "holds the interpreter's lock in C": (
        "import re\nre.match('(a*)*' * 12 + 'b', 'a' * 60)"),
    "holds the lock in a foreign call": (
        "import ctypes\nctypes.PyDLL(None).sleep(60)"),
    "hangs in vfork": (
        "import subprocess\nsubprocess.Popen(['/bin/sh', '-c', 'kill -STOP $$; sleep 60']).wait()"),
    "hangs in vfork itself": (
        "import ctypes\nlibc = ctypes.PyDLL(None)\nif libc.vfork() == 0: libc.sleep(60)"),
    "waits for a lock for ever": "import threading\nl = threading.Lock(); l.acquire(); l.acquire()",
    "is busy in many threads": (
        "import threading\ndef spin():\n  while True: pass\nfor i in range(20): threading.Thread(target=spin).start()"),
    "waits for a child that waits for it": (
        "import os\nr, w = os.pipe()\nif os.fork() == 0: os.read(r, 1)\nos.wait()"),
    "refuses to exit": "import atexit, time\natexit.register(time.sleep, 60)",
    "has a thread that outlives it": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()"),
    "is a tree that keeps growing": (
        "import os\nwhile True:\n  try:\n    if os.fork() == 0: os.setsid()\n  except OSError: pass"),
    "keeps its output open in a child": (
        "import os, time\nif os.fork() == 0: time.sleep(60)\nprint('parent left', flush=True); os._exit(0)"),
}


class Hangs(Scenario):
    def marked(self, mark: str) -> list[int]:
        return [pid for pid, (name, state, _) in support.all_processes().items() if name == mark and state != "Z"]

    def check_gone(self, name: str, code: str, *options: str) -> None:
        mark = "hm" + uuid.uuid4().hex[:12]
        begin = time.monotonic()
        record = self.home.record(MARK % mark + code, "--timeout", str(LIMIT), *options, within=30)
        seconds = time.monotonic() - begin
        wall = record["usage"]["wall_ms"] / 1000
        self.assertLess(wall, LIMIT + GRACE, record["error"])
        self.assertLess(seconds, LIMIT + GRACE + START)
        self.assertTrue(support.settle(lambda: not self.marked(mark), GRACE), "still there: " + name)
        if "output open" not in name:
            self.assertEqual((record["status"], record["exit_code"]), ("timeout", 124), record)
            self.check_category(record, "timeout", "wall_timeout")

    def test_the_mark_can_be_seen(self):
        """Otherwise the other tests could not fail."""
        mark = "hm" + uuid.uuid4().hex[:12]
        with self.home.start("run", "-c", MARK % mark + "import time; time.sleep(1)", stdin=-3) as process:
            self.assertTrue(support.settle(lambda: self.marked(mark)))
            process.wait(20)

    def test_warm(self):
        for name, code in HANGS.items():
            with self.subTest(name):
                self.check_gone(name, code)

    def test_cold(self):
        for name in ("ignores every signal it can", "leaves its session", "stops itself", "hangs in vfork itself"):
            with self.subTest(name):
                self.check_gone(name, HANGS[name], "--no-engine")

    def test_what_a_program_leaves_running_ends_with_it(self):
        mark = "hm" + uuid.uuid4().hex[:12]
        code = MARK % mark + "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(60)\nprint('bye')"
        done = self.home.run(code)
        self.assertEqual((done.code, done.text), (0, "bye\n"))
        self.assertLess(done.seconds, START)
        self.assertTrue(support.settle(lambda: not self.marked(mark), GRACE))

    def test_a_flood_of_denied_calls_is_ended(self):
        record = self.home.record("import os\nwhile True:\n  try: os.chroot('/')\n  except OSError: pass", "--timeout", "5")
        self.check_category(record, "crash", "seccomp_violation")
        self.assertLess(record["usage"]["wall_ms"], 5000)


if __name__ == "__main__":
    support.main()
