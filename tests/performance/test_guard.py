"""The guard with a hutch that says what the test wants it to have measured."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
LIKE_HUTCH = """#!/bin/sh
[ "$1 $2" != 'engine stop' ] || exit 0
[ "$*" = 'bench --quick --json' ] && cat "$(dirname "$0")/measured.json"
"""
NO_POOL = {"fork": 700, "join: seccomp": 50, "join: ids": 2, "run the program": 200}


def measured(no_pool: float = 0.12, first_byte: float = 0.02, **steps: int) -> dict:
    ratios = {"print_no_pool": no_pool, "print_first_byte": first_byte, "print_cold": 0.04}
    took = {**NO_POOL, **{name.replace("_", ": "): us for name, us in steps.items()}}
    return {"ratios": [{"name": name, "ratio": ratio, "anchor_p50_us": 8000} for name, ratio in ratios.items()],
            "steps": [{"of": "print_no_pool", "steps": [{"name": name, "p50_us": us} for name, us in took.items()]},
                      {"of": "print_cold", "steps": [{"name": "run the program", "p50_us": 200}]}]}


class GuardTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = directory.name
        with open(os.path.join(self.place, "hutch"), "w") as file:
            file.write(LIKE_HUTCH)
        os.chmod(file.name, 0o755)
        self.write("recorded.json", measured())

    def write(self, name: str, found: dict) -> None:
        with open(os.path.join(self.place, name), "w") as file:
            json.dump(found, file)

    def guard(self, found: dict, recorded: str = "recorded.json") -> tuple[int, str]:
        self.write("measured.json", found)
        environment = {**os.environ, "HUTCH": os.path.join(self.place, "hutch"), "HUTCH_TESTS_MUST_RUN": ""}
        done = subprocess.run([sys.executable, GUARD, "--recorded", os.path.join(self.place, recorded)],
                              env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_quick_starts_pass(self) -> None:
        code, out = self.guard(measured(join_seccomp=5000))  # which no ratio shows
        self.assertEqual(code, 0, out)
        self.assertNotIn("steps of", out)

    def test_the_step_that_grew_has_a_name(self) -> None:
        code, out = self.guard(measured(no_pool=0.6, join_seccomp=4000, join_ids=20))
        self.assertEqual(code, 1)
        self.assertTrue(out.endswith("\nprint_no_pool: grown: join: seccomp\n"), out)

    def test_the_one_that_grew_most_is_first(self) -> None:
        _, out = self.guard(measured(no_pool=0.9, join_seccomp=1000, fork=6000))
        self.assertTrue(out.endswith("\nprint_no_pool: grown: fork, join: seccomp\n"), out)

    def test_a_new_step_has_grown(self) -> None:
        _, out = self.guard(measured(no_pool=0.6, join_prayer=4000))
        self.assertTrue(out.endswith("\nprint_no_pool: grown: join: prayer\n"), out)

    def test_nothing_is_blamed_where_all_grew_alike(self) -> None:
        _, out = self.guard(measured(no_pool=0.6, fork=1500, join_seccomp=110))
        self.assertTrue(out.endswith("\nprint_no_pool: no step alone has grown\n"), out)

    def test_the_first_byte_has_the_steps_of_the_whole(self) -> None:
        code, out = self.guard(measured(first_byte=0.5))
        self.assertEqual(code, 1)
        self.assertIn("\nsteps of print_cold, as shares of plain Python:\n", out)

    def test_nothing_recorded_is_said(self) -> None:
        code, out = self.guard(measured(no_pool=0.6), "nothing.json")
        self.assertEqual(code, 1)
        self.assertIn("(none are recorded)", out)


if __name__ == "__main__":
    unittest.main()
