"""The program that opens thousands of sessions, with a few: that it counts what they cost, and leaves nothing."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

import support

DENSITY = os.path.join(support.ROOT, "tests/performance/density.py")
SESSIONS, BURST = 6, 4


class DensityTest(unittest.TestCase):
    found: dict

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "density.json")
            done = subprocess.run([sys.executable, DENSITY, "--sessions", str(SESSIONS), "--burst", str(BURST),
                                   "--template", "bare", "--strict", "--json", path], capture_output=True, text=True,
                                  timeout=200)
            if done.returncode != 0:
                raise AssertionError(done.stdout + done.stderr)
            cls.said = done.stdout
            with open(path, encoding="utf-8") as file:
                cls.found = json.load(file)

    def test_everybody_answers_and_nothing_is_left(self) -> None:
        sessions, burst = self.found["sessions"], self.found["burst"]
        self.assertEqual((sessions["count"], sessions["answered"], sessions["all_gone"]), (SESSIONS, SESSIONS, True))
        self.assertEqual((burst["count"], burst["failed"]), (BURST, 0))
        self.assertEqual(self.found["left"], {})

    def test_times_have_ranges(self) -> None:
        for times in (self.found["burst"]["single"], self.found["burst"]["last"], self.found["sessions"]["cell"],
                      self.found["sessions"]["start_at_all"]):
            self.assertGreater(times["n"], 0)
            self.assertLess(0, times["least_ms"])
            self.assertLessEqual(times["least_ms"], times["p50_ms"])
            self.assertLessEqual(times["p50_ms"], times["most_ms"])

    def test_every_session_is_counted_by_what_the_kernel_keeps_for_it(self) -> None:
        """Of each two processes, its init and its interpreter, and namespaces of its own; after them no more than the
        engine has in store."""
        objects = self.found["sessions"]["objects"]
        for kind, each in (("processes", 2), ("net namespaces", 1), ("pid namespaces", 1), ("mnt namespaces", 1),
                           ("mounts", 5)):
            self.assertGreaterEqual(objects["open"][kind], SESSIONS * each + 1, objects)
            self.assertLess(objects["after"][kind], objects["open"][kind], objects)

    def test_a_few_sessions_tell_nothing_about_the_goals(self) -> None:
        self.assertIn("short 2,000 idle sessions", self.said)
        self.assertIn("ok    kinds of things that were left behind: 0", self.said)


if __name__ == "__main__":
    unittest.main()
