"""The scripts that measure. The comparison with other sandboxes: few samples, to see that it speaks to the engine of
today. The one that kills daemons: that it notices what is lost."""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

import support

PERFORMANCE = os.path.join(support.ROOT, "tests/performance")
PEERS = os.path.join(PERFORMANCE, "peers")
sys.path.insert(0, PERFORMANCE)
import crash  # noqa: E402


def run(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, os.path.join(PEERS, script), *arguments], capture_output=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError("%s: %s" % (script, done.stderr.decode()))
    return done.stdout.decode()


class MeasuringTest(unittest.TestCase):
    def test_hutch_and_plain_python(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            found = os.path.join(out, "peers.json")
            run("main.py", "--quick", "--only", "hutch engine,python3,print,cell,sustained", "--hutch", support.HUTCH,
                "--json", found)
            with open(found) as file:
                workloads = json.load(file)["workloads"]
            section = run("render.py", found)
        for name, figure in (("print", "p50"), ("cell", "p50"), ("sustained", "per_second")):
            told = {row["peer"]: row for row in workloads[name]["rows"]}
            for peer in ("python3", "hutch engine"):
                self.assertEqual((told[peer]["failures"], told[peer]["reason"]), (0, ""))
                self.assertGreater(told[peer][figure], 0)
            self.assertIn("\n### %s\n" % workloads[name]["title"], section)


class Answers:
    """A daemon that says what it is told to, in turn."""

    def __init__(self, *answers: tuple[int, dict]) -> None:
        self.answers = list(answers)

    def json(self, method: str, target: str, data: object = None) -> tuple[int, dict]:
        return self.answers.pop(0)


class CrashTest(unittest.TestCase):
    def failures(self, status: int, run: dict) -> list[str]:
        """Of the criterion for runs of which only the beginning had been answered."""
        memory = crash.Memory()
        memory.started.add("exe_1")
        one = crash.Round(argparse.Namespace(seed=1), None, memory, 1)
        one.check_under_way(Answers((status, run), (200, {"runs": []})))
        self.assertEqual(one.checked["under way"], 1)
        return one.failed["under way"]

    def test_a_run_that_was_answered_may_not_be_unknown_afterwards(self) -> None:
        unknown = {"error": {"category": "run_not_found", "code": "unknown"}}
        self.assertEqual(len(self.failures(404, unknown)), 1)

    def test_a_run_that_was_answered_is_over_or_marked(self) -> None:
        marked = {"status": "error", "error": {"category": "internal", "code": "worker_lost"}}
        for run, count in (({"status": "ok", "error": None}, 0), (marked, 0), ({"status": "running", "error": None}, 1),
                           ({"status": "error", "error": {"category": "internal", "code": "bug"}}, 1)):
            self.assertEqual(len(self.failures(200, run)), count, run)


if __name__ == "__main__":
    unittest.main()
