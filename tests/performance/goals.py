"""What the figures must be, in one place: the programs that measure judge by it, and BENCHMARKS.md shows it.

A goal reads its figure from what one program wrote. Where there is no such file, or no such figure in it, or the run
was smaller than what the goal is about, it is neither met nor missed.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable

MIB = 1 << 20
FEWEST_STARTS = 20  # samples; as many as a p95 needs
Number = Callable[[dict], float]


@dataclasses.dataclass(frozen=True)
class Goal:
    what: str
    measured: Number
    limit: Number
    unit: str = "ms"
    least: bool = False  # the limit is the least, not the most
    enough: Callable[[dict], bool] = lambda found: True


@dataclasses.dataclass(frozen=True)
class Verdict:
    goal: Goal
    measured: float | None = None
    limit: float | None = None
    short: bool = False  # the run was smaller than what the goal is about

    @property
    def met(self) -> bool | None:
        if self.measured is None or self.limit is None or self.short:
            return None
        return self.measured >= self.limit if self.goal.least else self.measured <= self.limit


def fixed(limit: float) -> Number:
    return lambda found: limit


def ratio(row: str) -> Number:
    return lambda found: start_row(found, row)["ratio"]


def milliseconds(row: str) -> Number:
    return lambda found: start_row(found, row)["p50_us"] / 1e3


def start_goal(row: str, about: str, limit: float, unit: str = "×") -> Goal:
    number = ratio(row) if unit == "×" else milliseconds(row)
    return Goal("`%s`: %s" % (row, about), number, fixed(limit), unit,
                enough=lambda found: start_row(found, row)["n"] >= FEWEST_STARTS)


def start_row(found: dict, name: str) -> dict:
    return {row["name"]: row for row in found["ratios"]}[name]


def figure(*path: str) -> Number:
    """found[a][b]…; of a summary its median."""
    def look(found: dict) -> float:
        for key in path:
            found = found[key]
        return found["p50_ms"] if isinstance(found, dict) else found
    return look


def times(factor: float, number: Number) -> Number:
    return lambda found: factor * number(found)


def jupyter_over(peer: str) -> Number:
    def look(found: dict) -> float:
        medians = {row["peer"]: row["p50"] for row in found["workloads"]["cell"]["rows"] if "p50" in row}
        return medians["Jupyter kernel"] / medians[peer]
    return look


def at_least(count: int, *path: str) -> Callable[[dict], bool]:
    number = figure(*path)
    return lambda found: number(found) >= count


MANY = at_least(2000, "sessions", "count")
AT_ONCE = at_least(100, "burst", "count")
LONG = at_least(200, "options", "clients")
GIGABYTES = at_least(1024, "options", "size")
FIFTY = at_least(50, "options", "times")
ROUNDS = at_least(100, "options", "rounds")
NONE = fixed(0)

GOALS: dict[str, tuple[Goal, ...]] = {
    "starts": (
        start_goal("print_first_byte", "first byte of `print(1)`, from the pool, over plain Python", 0.03),
        start_goal("print_cold", "the whole record, from the pool, over plain Python", 0.08),
        start_goal("print_no_pool", "the whole record, without the pool, over plain Python", 0.12),
        start_goal("print_no_pool_vs_fork", "the same, over a bare fork, exit and wait of the same zygote", 2.5),
        start_goal("pandas_cold", "pandas group-by, from the pool, over plain Python with its import", 0.03),
        start_goal("pandas_no_pool", "the same, without the pool", 0.03),
        start_goal("print_command", "`hutch run` over plain Python", 0.6),
        start_goal("pandas_command", "pandas group-by by `hutch run`", 0.08),
        start_goal("second_cell", "one more cell, plain, p50", 0.2, "ms"),
        start_goal("second_cell_ipython", "one more cell, IPython, p50", 0.5, "ms"),
        start_goal("no_engine_vs_bwrap", "nothing warm, over bubblewrap", 1.3),
    ),
    "cells": (
        Goal("`x += 1` over the engine's socket with everything on, plain, p50", figure("cell_plain"), fixed(0.7),
             enough=ROUNDS),
        Goal("the same with IPython, p50", figure("cell_ipython"), fixed(0.7), enough=ROUNDS),
        Goal("a plot shown, over the same plot saved", figure("plot_ratio"), fixed(1.1), "×"),
        Goal("growth of the session's memory from 100 to 400 plots",
             lambda found: found["growth_bytes"] / MIB, fixed(32), "MiB"),
    ),
    "peers": (
        Goal("one more cell: how many times as long a Jupyter kernel takes, plain", jupyter_over("hutch engine"),
             fixed(10), "×", least=True),
        Goal("the same with IPython", jupyter_over("hutch engine, IPython"), fixed(10), "×", least=True),
    ),
    "density": (
        Goal("100 starts at once: failed", figure("burst", "failed"), NONE, "", enough=AT_ONCE),
        Goal("… until the last is answered; 100 × one start ÷ cores + 20 %", figure("burst", "last"),
             figure("burst", "allowed_ms"), enough=AT_ONCE),
        Goal("2,000 idle sessions: silent ones",
             lambda found: found["sessions"]["count"] - found["sessions"]["answered"], NONE, "", enough=MANY),
        Goal("… memory of each, all in", lambda found: found["sessions"]["bytes_each"] / MIB, fixed(1.5), "MiB",
             enough=MANY),
        Goal("… start of one more beside all; 3 × that beside ten", figure("sessions", "start_at_all"),
             times(3, figure("sessions", "start_at_10")), enough=MANY),
        Goal("… until nothing is left after all were closed", figure("sessions", "teardown_s"), fixed(10), "s",
             enough=MANY),
        Goal("kinds of things that were left behind", lambda found: len(found["left"]), NONE, ""),
    ),
    "overhead": (
        Goal("what HTTP adds to a call of the engine, p50", figure("overhead_ms"), fixed(0.3),
             enough=ROUNDS),
        Goal("one more cell over HTTP, end to end, p50", figure("cell_ms"), fixed(1), enough=ROUNDS),
        Goal("a call of the tool `run_python` over the same run on `/v1`, p50", figure("tool_overhead_ms"), fixed(0.2),
             enough=ROUNDS),
    ),
    "load": (
        Goal("a tenant that behaves, beside 200 clients: one-shots, p99; twice idle", figure("loaded", "run", "p99_ms"),
             times(2, figure("idle", "run", "p99_ms")), enough=LONG),
        Goal("… its cells, p99; twice idle", figure("loaded", "cell", "p99_ms"),
             times(2, figure("idle", "cell", "p99_ms")), enough=LONG),
        Goal("… refusals of a key at its limit (429), p99", figure("refused_429", "p99_ms"), fixed(10), enough=LONG),
        Goal("… refusals of a full queue (503), p99", figure("refused_503", "p99_ms"), fixed(10), enough=LONG),
        Goal("… wrong or lost answers", lambda found: found["wrong"] + found["lost"], NONE, "", enough=LONG),
        Goal("… answers with 5xx other than 503", figure("server_errors"), NONE, "", enough=LONG),
    ),
    "bulk": (
        Goal("gigabytes in, out and printed: the daemon grew by at most",
             lambda found: max(row["growth"] for row in found["rows"]) / MIB, fixed(32), "MiB", enough=GIGABYTES),
    ),
    "crash": (
        Goal("killed 50 times under load: ready again after at most",
             lambda found: found["ready"]["most_ms"] / 1e3, fixed(2), "s", enough=FIFTY),
        Goal("… results, files and uploads that were lost or torn, and other offences",
             lambda found: sum(map(len, found["problems"].values())), NONE, "", enough=FIFTY),
    ),
}


def judge(program: str, found: dict | None) -> list[Verdict]:
    return [judge_one(goal, found) for goal in GOALS[program]]


def judge_one(goal: Goal, found: dict | None) -> Verdict:
    if found is None:
        return Verdict(goal)
    try:
        return Verdict(goal, goal.measured(found), goal.limit(found), not goal.enough(found))
    except (KeyError, ValueError, ZeroDivisionError):  # a part was left out
        return Verdict(goal)


def shown(number: float, unit: str) -> str:
    text = "{:,.0f}".format(number) if number == int(number) or abs(number) >= 1000 else "%.4g" % number
    return "%s %s" % (text, unit) if unit else text


def missed(verdicts: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.met is False]


def lines(verdicts: list[Verdict]) -> list[str]:
    """For a terminal; goals without a figure are left out."""
    told = []
    for verdict in verdicts:
        if verdict.measured is None or verdict.limit is None:
            continue
        word = {True: "ok", False: "FAIL", None: "short"}[verdict.met]
        bound = "at least" if verdict.goal.least else "at most"
        told.append("%-5s %s: %s, %s %s" % (word, verdict.goal.what.replace("`", ""),
                                            shown(verdict.measured, verdict.goal.unit), bound,
                                            shown(verdict.limit, verdict.goal.unit)))
    return told
