#!/usr/bin/env python3
"""Fails when a start has become much slower than it should be, as a ratio to plain Python in the same run.

  python3 tests/performance/guard.py [--recorded benchmarks/starts.json]

The limits are about three times what a quiet machine measures: a busy one must not fail, a lost pool or a fork that
copies the whole heap must. When one is exceeded, the steps of that start are held against the recorded ones, each as a
share of plain Python, so that the one that has grown has a name.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MUST_RUN = bool(os.environ.get("HUTCH_TESTS_MUST_RUN"))
HUTCH = os.environ.get("HUTCH", os.path.join(ROOT, "build/bin/hutch"))
LIMITS = {"print_cold": 0.20, "print_first_byte": 0.12, "print_cold_default": 0.25, "print_no_pool": 0.45,
          "print_no_pool_default": 0.65, "print_command": 0.8, "pandas_cold": 0.10, "pandas_no_pool": 0.12,
          "second_cell": 0.06, "second_cell_ipython": 0.12, "no_engine_vs_bwrap": 2.0}
# Where the steps of a start are those of another row.
STEPS_OF = {"print_first_byte": "print_cold", "print_command": "print_cold_default", "no_engine_vs_bwrap": "no_engine"}
TRIES = 2  # a neighbour's burst of work is not our regression
# A step has grown when it takes so many times its recorded share of plain Python, and so much of plain Python more:
# what takes microseconds may take some more of them.
GROWN_TIMES, GROWN_SHARE = 3.0, 0.01

Shares = dict[str, dict[str, float]]


def measure(environment: dict[str, str]) -> dict:
    done = subprocess.run([HUTCH, "bench", "--quick", "--json"], stdout=subprocess.PIPE, check=True, env=environment)
    return json.loads(done.stdout)


def read_recorded(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {"ratios": [], "steps": []}


def shares(found: dict) -> Shares:
    """By row and step: its median over that of plain Python."""
    anchors = {row["name"]: row["anchor_p50_us"] for row in found["ratios"]}
    return {start["of"]: {step["name"]: step["p50_us"] / anchors[start["of"]] for step in start["steps"]}
            for start in found["steps"]}


def has_grown(now: float, recorded: float) -> bool:
    return now > GROWN_TIMES * recorded and now > recorded + GROWN_SHARE


def show_steps(row: str, now: Shares, recorded: Shares) -> None:
    """All steps of this start, and last the names of those that have grown, by how much."""
    of = STEPS_OF.get(row, row)
    if of not in now:
        print("%s: its steps are not known" % row)
        return
    known, grown = recorded.get(of), {}
    print("steps of %s, as shares of plain Python:%s" % (of, "" if known else " (none are recorded)"))
    for name, share in now[of].items():
        before = known.get(name, 0.0) if known else None
        print("  %-38s %7.4f%s" % (name, share, "" if before is None else "  recorded %7.4f" % before))
        if before is not None and has_grown(share, before):
            grown[name] = share - before
    if known:
        named = ", ".join(sorted(grown, key=grown.__getitem__, reverse=True))
        print("%s: %s" % (row, "grown: " + named if named else "no step alone has grown"))


def guard(environment: dict[str, str], recorded: dict) -> int:
    for _ in range(TRIES):
        found = measure(environment)
        ratios = {row["name"]: row["ratio"] for row in found["ratios"]}
        missing = [name for name in LIMITS if name not in ratios]
        if missing:
            print("not measured here: " + ", ".join(missing))
            if MUST_RUN:
                return 1
        slow = [name for name in LIMITS if ratios.get(name, 0) > LIMITS[name]]
        for name in LIMITS:
            if name in ratios:
                print("%-24s %7.3f  of at most %5.2f%s" % (name, ratios[name], LIMITS[name],
                                                           "  TOO SLOW" if name in slow else ""))
        if not slow:
            return 0
    for name in slow:
        show_steps(name, shares(found), shares(recorded))
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", default=os.path.join(ROOT, "benchmarks/starts.json"),
                        help="what `hutch bench --save` wrote on a quiet machine")
    options = parser.parse_args()
    runtime = tempfile.mkdtemp(prefix="hutch-guard-")
    environment = {**os.environ, "HUTCH_RUNTIME_DIR": runtime}  # an engine of our own, stopped in the end
    try:
        return guard(environment, read_recorded(options.recorded))
    finally:
        subprocess.run([HUTCH, "engine", "stop"], env=environment)
        shutil.rmtree(runtime, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
