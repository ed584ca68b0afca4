"""The comparison with other sandboxes: few samples, to see that it speaks to the engine of today."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

import support

PEERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "performance", "peers", "main.py")


class MeasuringTest(unittest.TestCase):
    def test_hutch_and_plain_python(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, PEERS, "--quick", "--only", "hutch engine,python3,print,cell",
                                   "--hutch", support.HUTCH, "--out", out], capture_output=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            with open(os.path.join(out, "peers.json")) as file:
                workloads = json.load(file)["workloads"]
        for name in ("print", "cell"):
            told = {row["peer"]: row for row in workloads[name]["rows"]}
            for peer in ("python3", "hutch engine"):
                self.assertEqual((told[peer]["failures"], told[peer]["reason"]), (0, ""))
                self.assertGreater(told[peer]["p50"], 0)


if __name__ == "__main__":
    unittest.main()
