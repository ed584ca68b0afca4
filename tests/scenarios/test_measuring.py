"""The comparison with other sandboxes: few samples, to see that it speaks to the engine of today."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

import support

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "performance", "peers")


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


if __name__ == "__main__":
    unittest.main()
