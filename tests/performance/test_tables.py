"""Goals and the tables of BENCHMARKS.md, from figures that were made up."""
from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import density  # noqa: E402
import figures  # noqa: E402
import goals  # noqa: E402

sys.path.insert(0, os.path.join(figures.support.ROOT, "tools"))
import benchmark_tables as tables  # noqa: E402

FEW, MANY = figures.summary([0.002] * 10), figures.summary([0.001 * number for number in range(1, 101)])
ABOUT = {"date": "2026-01-02", "hutch": "1.2.3",
         "machine": {"kernel": "6.1", "cpus": 2, "cpu_model": "Processor", "memory_bytes": 8 << 30,
                     "python": "Python 3.11.2", "virtual": True},
         "noise": {"load_before": 0.1, "load_after": 0.2, "anchor_relative_iqr": {"python3 -c 'print(1)'": 0.05}}}


def start(name: str, ratio: float, **more) -> dict:
    return {"name": name, "ratio": ratio, "p50_us": 150, "p95_us": 200, "p99_us": None, "n": 40, "anchor": "python3",
            "anchor_p50_us": 8000, "anchor_p95_us": 9000, "anchor_n": 40, **more}


def counts(number: int) -> dict[str, int]:
    return {"processes": number, "mnt namespaces": number}


RESULTS = {
    "starts": {**ABOUT, "template": "default", "rounds": 5, "duration_s": 20, "notes": ["busy"],
               "ratios": [start("print_cold", 0.05), start("print_first_byte", 0.0312),
                          start("second_cell", 0.01, n=200, p99_us=250)],
               "steps": [{"of": "print_cold", "steps": [{"name": "made", "p50_us": 0, "n": 9},
                                                        {"name": "run", "p50_us": 31.5, "n": 9}]},
                         {"of": "print_no_pool", "steps": [{"name": "fork", "p50_us": 900, "n": 9},
                                                           {"name": "run", "p50_us": 30, "n": 9}]}]},
    "density": {**ABOUT, "template": "default", "mode": "plain", "cell": "small", "left": {},
                "burst": {"count": 100, "failed": 0, "single": MANY, "last": FEW, "allowed_ms": 1.5},
                "sessions": {"count": 2000, "answered": 1999, "bytes_each": 1_400_000, "start_at_10": FEW,
                             "start_at_all": FEW, "cell": FEW, "teardown_s": 3.5, "all_gone": True,
                             "objects": {"before": counts(4), "open": counts(4004), "after": counts(5)}}},
    "overhead": {**ABOUT, "options": {"rounds": 300}, "engine_ms": 1.1, "http_ms": 1.3, "overhead_ms": 0.2,
                 "cell_ms": 0.5},
    "cells": {**ABOUT, "options": {"rounds": 400}, "cell_plain": FEW, "cell_ipython": FEW,
              "plot_saved": FEW, "plot_shown": FEW, "plot_ratio": 1.0, "growth_bytes": 1 << 20},
    "load": {**ABOUT, "options": {"clients": 20}, "seconds": 5.0, "answers": 1234, "wrong": 0, "lost": 0,
             "server_errors": 0, "refused_429": MANY, "refused_503": FEW, "idle": {"run": MANY, "cell": MANY},
             "loaded": {"run": MANY, "cell": MANY}, "away_share": 0.01},
    "bulk": {**ABOUT, "options": {"size": 2048},
             "rows": [{"name": "upload", "bytes": 2 << 30, "seconds": 9.0, "growth": 1 << 20},
                      {"name": "print", "bytes": 1 << 30, "seconds": 9.0, "growth": 40 << 20}]},
    "crash": {**ABOUT, "options": {"times": 50, "clients": 20}, "ready": FEW, "gone": FEW, "answers": 99,
              "checked": {"results": 9, "uploads": 2}, "problems": {"ready": [], "files": ["round 1: torn"]}},
    "peers": {"workloads": {"cell": {"rows": [{"peer": "hutch engine", "p50": 0.5},
                                              {"peer": "Jupyter kernel", "p50": 4.0},
                                              {"peer": "podman", "reason": "not installed"}]}}},
}


def verdicts(program: str, found: dict | None) -> dict[str, bool | None]:
    return {verdict.goal.what: verdict.met for verdict in goals.judge(program, found)}


def verdict(program: str, words: str, found: dict | None = None) -> bool | None:
    told = verdicts(program, found or RESULTS[program])
    return next(met for what, met in told.items() if words in what)


class GoalsTest(unittest.TestCase):
    def test_figures_decide(self) -> None:
        self.assertIs(verdict("starts", "print_cold`"), True)
        self.assertIs(verdict("starts", "print_first_byte"), False)
        self.assertIs(verdict("starts", "one more cell, plain"), True)  # 0.15 ms
        self.assertIs(verdict("density", "silent"), False)
        self.assertIs(verdict("density", "until the last is answered"), False)  # 2 ms, where 1.5 are allowed
        self.assertIs(verdict("density", "memory of each"), True)
        self.assertIs(verdict("bulk", "grew"), False)  # the worst row counts
        self.assertIs(verdict("crash", "ready again"), True)
        self.assertIs(verdict("crash", "offences"), False)

    def test_some_figures_must_be_large(self) -> None:
        self.assertIs(verdict("peers", "Jupyter kernel takes, plain"), False)
        better = copy.deepcopy(RESULTS["peers"])
        better["workloads"]["cell"]["rows"][0]["p50"] = 0.4
        self.assertIs(verdict("peers", "Jupyter kernel takes, plain", better), True)

    def test_what_is_missing_is_neither_met_nor_missed(self) -> None:
        for program in goals.GOALS:
            self.assertEqual(set(verdicts(program, None).values()), {None}, program)
            self.assertEqual(goals.missed(goals.judge(program, None)), [])
        self.assertIsNone(verdict("starts", "print_no_pool`"))
        self.assertIsNone(verdict("peers", "IPython"))

    def test_a_small_run_tells_nothing(self) -> None:
        self.assertIsNone(verdict("load", "one-shots, p99"))
        large = {**RESULTS["load"], "options": {"clients": 200}}
        self.assertIs(verdict("load", "one-shots, p99", large), True)
        self.assertIsNone(verdict("load", "503), p99", large))  # ten samples have no p99
        self.assertIs(verdict("overhead", "what HTTP adds"), True)
        self.assertIsNone(verdict("overhead", "what HTTP adds", {**RESULTS["overhead"], "options": {"rounds": 20}}))
        few = {**RESULTS["starts"], "ratios": [start("print_cold", 0.05, n=19)]}
        self.assertIsNone(verdict("starts", "print_cold`", few))
        slower = {**large, "loaded": {"run": figures.summary([1.0] * 100), "cell": MANY}}
        self.assertIs(verdict("load", "one-shots, p99", slower), False)


class DensityTest(unittest.TestCase):
    def found(self, part: str = "", **more) -> dict:
        found = copy.deepcopy(RESULTS["density"])
        found["sessions"]["answered"], found["burst"]["allowed_ms"] = 2000, 2.5
        (found[part] if part else found).update(more)
        return found

    def test_all_is_well(self) -> None:
        self.assertTrue(density.succeeded(self.found(), strict=True))

    def test_what_fails_is_never_a_success(self) -> None:
        for failed in (self.found("sessions", answered=1999), self.found("sessions", all_gone=False),
                       self.found("burst", failed=1), self.found(left={"mounts": "30 before, 31 after"})):
            self.assertFalse(density.succeeded(failed, strict=False))

    def test_what_is_left_behind_is_told_by_kind(self) -> None:
        def finish() -> None:
            raise AssertionError("left behind: processes: [] before, ['init', 'python3'] after; "
                                 "mounts: 30 before, 31 after")

        with unittest.mock.patch.object(density.support, "finish", finish):
            self.assertEqual(density.leave(), {"processes": "[] before, ['init', 'python3'] after",
                                               "mounts": "30 before, 31 after"})

    def test_what_is_slow_or_large_is_one_unless_it_is_strict(self) -> None:
        for slow in (self.found("burst", allowed_ms=1.9), self.found("sessions", bytes_each=1_600_000),
                     self.found("sessions", start_at_all=MANY), self.found("sessions", teardown_s=10.5)):
            self.assertTrue(density.succeeded(slow, strict=False))
            self.assertFalse(density.succeeded(slow, strict=True))


class TablesTest(unittest.TestCase):
    def test_goals(self) -> None:
        text = tables.render("goals", RESULTS)
        self.assertIn("| 0.0312 × | ≤ 0.03 × | **NOT met** |", text)
        self.assertIn("| 0.05 × | ≤ 0.08 × | met |", text)
        self.assertIn("| 8 × | ≥ 10 × | **NOT met** |", text)
        self.assertIn("run too small to tell", text)
        self.assertEqual(len(text.splitlines()), 2 + sum(map(len, goals.GOALS.values())))

    def test_every_part_has_its_figures_and_where_they_are_from(self) -> None:
        for part, (program, _) in tables.PARTS.items():
            if part == "peers":
                continue  # its own tests have it
            text = tables.render(part, RESULTS)
            self.assertTrue(text.startswith("| "), part)
            columns = {line.count("|") for line in text.split("\n\n")[0].splitlines()}
            self.assertEqual(len(columns), 1, text)
            if part != "steps":
                self.assertIn("Hutch 1.2.3, 2026-01-02; Python 3.11.2, 2 x Processor (virtual machine), 8.0 GiB", text)
            self.assertIn("Not measured: `make ", tables.render(part, {}))

    def test_starts(self) -> None:
        text = tables.render("starts", RESULTS)
        self.assertIn("| `print_cold` | 0.15 ms | 0.20 ms | – | 40 |", text)  # forty samples have no p99
        self.assertIn("| `second_cell` | 0.15 ms | 0.20 ms | 0.25 ms | 200 |", text)
        self.assertIn("- Note: busy.", text)

    def test_steps_are_in_the_order_of_every_start(self) -> None:
        rows = [line.split("|")[1:4] for line in tables.render("steps", RESULTS).splitlines()[2:]]
        self.assertEqual([[cell.strip() for cell in row] for row in rows],
                         [["fork", "", "0.900"], ["made", "0.000", ""], ["run", "0.032", "0.030"]])

    def test_density(self) -> None:
        text = tables.render("density", RESULTS)
        self.assertIn("| mnt namespaces | 4 | 4,004 | 5 |", text)
        self.assertIn("50.50 ms (1.00 ms to 100.00 ms, n 100)", text)


class FiguresTest(unittest.TestCase):
    def test_no_percentile_of_too_few(self) -> None:
        self.assertEqual(figures.summary([]), {"n": 0})
        self.assertEqual(set(FEW), {"n", "least_ms", "p50_ms", "most_ms"})
        self.assertIn("p95_ms", figures.summary([1.0] * 20))
        self.assertNotIn("p99_ms", figures.summary([1.0] * 99))
        self.assertAlmostEqual(MANY["p99_ms"], 99.01)

    def test_files_tell_no_places(self) -> None:
        options = argparse.Namespace(json="/somewhere/else", rounds=3)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "x.json")
            measurement = figures.Measurement("x", options)
            measurement.write(path, {"problems": ["GET /v1/runs: see %s/log" % directory]})
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(os.listdir(directory), ["x.json"])
            measurement.write(None, {})
        told = json.loads(text)
        self.assertNotIn(directory, text)
        self.assertIn("GET /v1/runs: see TEMPORARY/", told["problems"][0])
        self.assertEqual(told["options"], {"rounds": 3})
        self.assertRegex(told["date"], r"^\d{4}-\d\d-\d\d$")
        self.assertRegex(told["hutch"], r"^\d+\.\d+")
        self.assertEqual(set(told["machine"]), set(ABOUT["machine"]))


if __name__ == "__main__":
    unittest.main()
