"""Unit tests of the Markdown and of the rows it is made from."""
import json
import unittest

import markdown
from attacks import CLASSES, Siege, judge
from context import ROOT
from load import Burst, Sustained
from measure import Series
from memory import Memory
from results import burst_table, cell_table, memory_table, siege_table, sustained_table, timing_table

FACTS = {"cores": 2, "processor": "A processor", "memory_gib": 23.5, "kernel": "6.1", "python": "Python 3.11.2",
         "hutch": "hutch 0.1.0", "load_before": 0.1, "load_after": 0.2}


def timing() -> dict:
    return timing_table("print", [
        Series("python3", [0.020, 0.020, 0.020]), Series("hutch engine", [0.004, 0.005, 0.006]),
        Series("podman", [], ["it | failed"]), Series("runc", [0.05], ["once"])])


class MarkdownTest(unittest.TestCase):
    def test_numbers_have_three_digits_and_no_exponent(self) -> None:
        self.assertEqual([markdown.number(value) for value in (12345.6, 123.4, 12.34, 1.234, 0.1234, None)],
                         ["12,346", "123", "12.3", "1.23", "0.123", "–"])

    def test_rows_are_ordered_by_median_and_compared_with_python(self) -> None:
        lines = markdown.timings(timing()).splitlines()
        self.assertEqual(lines[2], "| **hutch engine** | 5.00 | – | – | 3 | 0.250 |")
        self.assertEqual(lines[3], "| python3 | 20.0 | – | – | 3 | 1.00 |")
        self.assertTrue(lines[4].startswith("| runc | 50.0 |"))

    def test_percentiles_of_few_samples_are_not_told(self) -> None:
        part = timing_table("print", [Series("a", [0.001] * 19), Series("b", [0.002] * 20), Series("c", [0.003] * 100)])
        lines = markdown.timings(part).splitlines()
        self.assertEqual([line.split("|")[3:5] for line in lines[2:5]],
                         [[" – ", " – "], [" 2.00 ", " – "], [" 3.00 ", " 3.00 "]])
        self.assertIn("fewer than 20 samples for a p95, 100 for a p99", "".join(lines))

    def test_jupyter_is_compared_with_both_kinds_of_cells(self) -> None:
        part = cell_table("cell", [Series("Jupyter kernel", [0.003]), Series("hutch engine", [0.0001]),
                                   Series("hutch engine, IPython", [0.0004])])
        text = markdown.timings(part)
        self.assertIn("30.0 times that of hutch engine; the goal is at least 10: met.", text)
        self.assertIn("7.50 times that of hutch engine, IPython; the goal is at least 10: **missed**.", text)
        self.assertEqual(cell_table("cell", [Series("hutch engine", [0.0001])])["goals"], [])

    def test_a_failure_is_told_with_its_reason(self) -> None:
        text = markdown.timings(timing())
        self.assertIn("- podman: not measured. it \\| failed", text)
        self.assertIn("- runc: 1 failed. once", text)

    def test_a_wide_anchor_is_called_noise(self) -> None:
        self.assertNotIn("busy", markdown.timings(timing()))
        noisy = timing_table("print", [Series("python3", [0.01, 0.02, 0.03, 0.04])])
        self.assertIn("the machine was busy", markdown.timings(noisy))

    def test_without_python_there_is_no_ratio(self) -> None:
        part = timing_table("print", [Series("runc", [0.05])])
        self.assertIn("| runc | 50.0 | – | – | 1 | – |", markdown.timings(part))

    def test_bursts_count_what_failed(self) -> None:
        part = burst_table([Burst("runc", 10, "", [2.0, 4.0, 3.0], ["x"]), Burst("podman", 2, "", [1.0], ["y", "y"]),
                            Burst("python3", 5, "too large", [0.5])])
        text = markdown.bursts(part)
        self.assertIn("| runc | 10 | 3.00 | 2.00 to 4.00 | 310 | 3.10 | 1 of 30 |", text)
        self.assertIn("- podman: not measured. y", text)
        self.assertIn("- python3: too large", text)

    def test_starts_that_last_are_ordered_from_the_most(self) -> None:
        part = sustained_table([Sustained("python3", [100.0], 500), Sustained("hutch engine", [300.0, 500.0], 4000),
                                Sustained("podman", [], 0, ["too slow"])])
        lines = markdown.sustained(part).splitlines()
        self.assertEqual(lines[2:4], [
            "| **hutch engine** | 400 | 300 to 500 | 4000 | 4.00 |", "| python3 | 100 | 100 to 100 | 500 | 1.00 |"])
        self.assertIn("- podman: not measured. too slow", lines)

    def test_memory_is_per_session_and_names_what_is_shared(self) -> None:
        part = memory_table([Memory("hutch engine", 20, [4e6, 5e6, 6e6], 4e6, 90_000_000),
                             Memory("python3", 20, [40e6], 4e6), Memory("docker", 5, failure="none")])
        text = markdown.memories(part)
        self.assertIn("| **hutch engine** | 20 | 5.00 | 4.00 to 6.00 | 0.125 | 0.200 | 90.0 |", text)
        self.assertIn("- docker: not measured. none", text)

    def test_memory_that_may_be_noise_is_no_figure(self) -> None:
        part = memory_table([Memory("python3", 20, [40e6], 4e6),
                             Memory("runc", 20, [3e6], failure="3 MB, with a noise of 4 MB", unclear=True)])
        text = markdown.memories(part)
        self.assertIn("| runc | – | not measurable | – | – | – | – |", text)
        self.assertIn("- runc: not measurable. 3 MB, with a noise of 4 MB", text)

    def test_attacks_name_what_is_open(self) -> None:
        part = siege_table([Siege("runc", ["a", "b"], {"io_uring": "evidence", "c": "evidence"}, {"d": "why"})])
        self.assertIn("| runc | 2 of 4 | c | – | io_uring | d |", markdown.sieges(part))

    def test_classes_are_those_of_the_corpus(self) -> None:
        """But for chroot(), which is a first step and reaches nothing by itself."""
        named = {"harm": "escape", "info": "information", "surface": "hardening absent", "posture": "hardening absent"}
        corpus = json.loads((ROOT / "tests/attacks/manifest.json").read_text(encoding="utf-8"))
        told = {entry["name"]: named[entry["class"]] for entry in corpus}
        self.assertEqual(CLASSES, {name: told[name] for name in CLASSES} | {"chroot_pivot": "hardening absent"})

    def test_the_last_verdict_of_a_program_counts(self) -> None:
        self.assertEqual(judge("info: x\nBLOCKED a\n")[0], "BLOCKED")
        self.assertEqual(judge("BLOCKED a\nESCAPED a by luck\n"), ("ESCAPED", "ESCAPED a by luck"))
        self.assertEqual(judge("Traceback")[0], "")

    def test_the_document_tells_of_every_peer(self) -> None:
        peers = [{"name": "runc", "about": "a bundle", "missing": "", "version": "runc 1.1"},
                 {"name": "docker", "about": "", "missing": "no engine", "version": ""}]
        text = markdown.document({"machine": FACTS, "notes": ["A note."], "peers": peers,
                                  "workloads": {"print": timing()}, "better": []})
        for words in ("2 x A processor, 23.5 GiB, Linux 6.1", "- A note.", "## print", "| runc | runc 1.1 | a bundle |",
                      "| docker | – | not measured: no engine |"):
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
