#!/usr/bin/env python3
"""Fails when a start has become much slower than it should be, as a ratio to plain Python in the same run.

  python3 tests/performance/guard.py

The limits are about three times what a quiet machine measures: a busy one must not fail, a lost pool or a fork that
copies the whole heap must. When one is exceeded the steps of a start are printed, so that the slow one has a name.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile

RUNTIME = tempfile.mkdtemp(prefix="hutch-guard-")
ENVIRONMENT = {**os.environ, "HUTCH_RUNTIME_DIR": RUNTIME}  # an engine of our own, stopped in the end
MUST_RUN = bool(os.environ.get("HUTCH_TESTS_MUST_RUN"))
HUTCH = os.environ.get("HUTCH", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/bin/hutch"))
LIMITS = {"print_cold": 0.20, "print_first_byte": 0.12, "print_cold_default": 0.25, "print_no_pool": 0.45,
          "print_no_pool_default": 0.65, "print_command": 0.8, "pandas_cold": 0.10, "pandas_no_pool": 0.12, "second_cell": 0.06,
          "second_cell_ipython": 0.12, "no_engine_vs_bwrap": 2.0}
TRIES = 2  # a neighbour's burst of work is not our regression


def measure() -> dict[str, float]:
    done = subprocess.run([HUTCH, "bench", "--quick", "--json"], stdout=subprocess.PIPE, check=True,
                          env=ENVIRONMENT)
    return {row["name"]: row["ratio"] for row in json.loads(done.stdout)["ratios"]}


def show_steps() -> None:
    for flags in ([], ["--no-pool"]):
        done = subprocess.run([HUTCH, "run", "--json", *flags, "-c", "print(1)"], stdout=subprocess.PIPE, check=True,
                              env=ENVIRONMENT)
        print("steps of a start%s:" % "".join(" " + flag for flag in flags))
        for step in json.loads(done.stdout)["steps"]:
            print("  %-38s %8.3f ms" % (step["name"], step["ms"]))


def main() -> int:
    for _ in range(TRIES):
        ratios = measure()
        missing = [name for name in LIMITS if name not in ratios]
        if missing:
            print("not measured here: " + ", ".join(missing))
            if MUST_RUN:
                return 1
        slow = {name: ratios[name] for name in LIMITS if ratios.get(name, 0) > LIMITS[name]}
        for name in LIMITS:
            if name in ratios:
                print("%-24s %7.3f  of at most %5.2f%s" % (name, ratios[name], LIMITS[name],
                                                           "  TOO SLOW" if name in slow else ""))
        if not slow:
            return 0
    show_steps()
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        subprocess.run([HUTCH, "engine", "stop"], env=ENVIRONMENT)
        shutil.rmtree(RUNTIME, ignore_errors=True)
