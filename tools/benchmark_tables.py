"""The generated parts of BENCHMARKS.md, each from what one program wrote: the same figures give the same text."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
PERFORMANCE = ROOT / "tests/performance"
RENDER_PEERS = PERFORMANCE / "peers/render.py"
sys.path.insert(0, str(PERFORMANCE))
import goals  # noqa: E402

MIB = 1 << 20
TARGETS = {"starts": "bench", "peers": "bench-peers"}  # what `make` calls what it makes, where that is another name


def target(program: str) -> str:
    return "make %s RESULTS=benchmarks" % TARGETS.get(program, program)


def table(heads: list[str], rows: list[list[str]]) -> str:
    aligns = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| %s |" % " | ".join(line) for line in ([*heads], aligns, *rows))


def milliseconds(number: float | None) -> str:
    if number is None:
        return "–"
    return "%.2f s" % (number / 1e3) if number >= 1e3 else "%.2f ms" % number


def summary_cells(times: dict) -> list[str]:
    """p50, p95, p99 and n; what so few samples do not have is left open."""
    return [*(milliseconds(times.get(key)) for key in ("p50_ms", "p95_ms", "p99_ms")), "{:,}".format(times["n"])]


def spread(times: dict) -> str:
    return "%s (%s to %s, n %d)" % (milliseconds(times["p50_ms"]), milliseconds(times["least_ms"]),
                                    milliseconds(times["most_ms"]), times["n"])


def machine_line(found: dict) -> str:
    about, noise = found["machine"], found["noise"]
    return "%s, %d x %s%s, %.1f GiB, Linux %s; load %.2f before, %.2f after" % (
        about["python"], about["cpus"], about["cpu_model"], " (virtual machine)" if about["virtual"] else "",
        about["memory_bytes"] / (1 << 30), about["kernel"], noise["load_before"], noise["load_after"])


def source(found: dict) -> str:
    return "\n\nHutch %s, %s; %s." % (found["hutch"], found["date"], machine_line(found))


def goals_table(results: dict[str, dict | None]) -> str:
    """Who is right is computed here, of all programs."""
    rows = []
    for program in goals.GOALS:
        for verdict in goals.judge(program, results.get(program)):
            rows.append(goal_row(verdict))
    return table(["", "measured", "goal", ""], rows)


def goal_row(verdict: goals.Verdict) -> list[str]:
    goal = verdict.goal
    if verdict.measured is None or verdict.limit is None:
        return [goal.what, "", "", "not measured"]
    limit = "%s %s" % ("≥" if goal.least else "≤", goals.shown(verdict.limit, goal.unit))
    words = {True: "met", False: "**NOT met**", None: "run too small to tell"}
    return [goal.what, goals.shown(verdict.measured, goal.unit), limit, words[verdict.met]]


def starts(found: dict) -> str:
    def shown(microseconds: float | None) -> str:
        return milliseconds(None if microseconds is None else microseconds / 1e3)

    rows = [["`%s`" % row["name"], *(shown(row[key]) for key in ("p50_us", "p95_us", "p99_us")), str(row["n"]),
             "`%s`" % row["anchor"], shown(row["anchor_p50_us"]), shown(row["anchor_p95_us"]),
             "**%.3f**" % row["ratio"]] for row in found["ratios"]]
    heads = ["", "p50", "p95", "p99", "n", "against", "its p50", "its p95", "ratio"]
    noise = ["%s %.0f %%" % (name, 100 * share) for name, share in found["noise"]["anchor_relative_iqr"].items()]
    lines = ["Interquartile range over median of what is compared with: %s." % "; ".join(noise),
             "Template `%s`, %d rounds in %d s." % (found["template"], found["rounds"], found["duration_s"])]
    lines += ["Note: %s." % note for note in found["notes"]]
    return table(heads, rows) + source(found) + "\n\n" + "\n".join("- " + line for line in lines)


def steps(found: dict) -> str:
    """A column for each kind of start; the rows in the order in which things happen."""
    columns = [(start["of"], {step["name"]: step["p50_us"] for step in start["steps"]}) for start in found["steps"]]
    names = merge_names([list(column) for _, column in columns])
    rows = [[name, *("%.3f" % (column[name] / 1e3) if name in column else "" for _, column in columns)]
            for name in names]
    return table(["p50 in ms", *("`%s`" % of for of, _ in columns)], rows)


def merge_names(lists: list[list[str]]) -> list[str]:
    """Every name once; each of the lists keeps its order as far as they agree."""
    merged: list[str] = []
    for names in lists:
        place = 0
        for name in names:
            if name not in merged:
                merged.insert(place, name)
            place = merged.index(name) + 1
    return merged


def density(found: dict) -> str:
    parts, rows = [], []
    if burst := found.get("burst"):
        rows += [["one start, on demand, each after the last", spread(burst["single"])],
                 ["%d starts at the same moment, until the last is answered" % burst["count"], spread(burst["last"])],
                 ["… failed", str(burst["failed"])]]
    if sessions := found.get("sessions"):
        rows += [["sessions open at once, and answering", "{answered:,} of {count:,}".format(**sessions)],
                 ["memory of each, from MemAvailable", "%.2f MiB" % (sessions["bytes_each"] / MIB)],
                 ["start of one more beside 10", spread(sessions["start_at_10"])],
                 ["start of one more beside all", spread(sessions["start_at_all"])],
                 ["one more cell, by a Python client, beside all", spread(sessions["cell"])],
                 ["until nothing is left after all were closed", "%.1f s" % sessions["teardown_s"]]]
        parts.append(objects(sessions["objects"]))
    rows.append(["left behind in the end", ", ".join(found["left"]) or "nothing"])
    parts.append("Template `{template}`, sessions in mode `{mode}` after a {cell} cell.".format(**found))
    return "\n\n".join([table(["", "p50 (range)"], rows), *parts]) + source(found)


def objects(counts: dict[str, dict[str, int]]) -> str:
    rows = [[kind, *("{:,}".format(counts[when][kind]) for when in counts)] for kind in counts["before"]]
    return table(["what the kernel keeps", *counts], rows)


def overhead(found: dict) -> str:
    """What clients waited, and how much of that was not the engine's."""
    names = {"engine": "`print(1)`, call of the engine", "engine_outside": "… less the engine's own time",
             "http": "the same as `POST /v1/run`", "http_outside": "… less the engine's own time",
             "overhead": "what HTTP adds: the one less the other, without the engine's own time",
             "difference": "the same with it, as a cross-check",
             "cell": "one more cell over HTTP", "same_run": "`print(1)` as a cell, `POST /v1/run`",
             "tool": "the same by the tool `run_python`", "tool_overhead": "… what the tool adds"}
    rows = []
    for name, text in names.items():
        p50 = found.get(name + "_p50_ms", found.get(name + "_ms"))
        if p50 is not None:
            rows.append([text, milliseconds(p50), milliseconds(found.get(name + "_p95_ms"))])
    return table(["", "p50", "p95"], rows) + "\n\n%s rounds." % found["options"]["rounds"] + source(found)


def cells(found: dict) -> str:
    names = {"cell_plain": "`x += 1` over the engine's socket, plain", "cell_ipython": "the same with IPython",
             "plot_saved": "a line plot, saved", "plot_shown": "the same plot, shown"}
    rows = [[text, *summary_cells(found[name])] for name, text in names.items()]
    growth = "Memory of the session from 100 to 400 plots: %+.1f MiB." % (found["growth_bytes"] / MIB)
    return table(["", "p50", "p95", "p99", "n"], rows) + "\n\n" + growth + source(found)


def load(found: dict) -> str:
    rows = [["one-shots of a tenant that behaves, idle", *summary_cells(found["idle"]["run"])],
            ["… beside the load", *summary_cells(found["loaded"]["run"])],
            ["cells of that tenant, idle", *summary_cells(found["idle"]["cell"])],
            ["… beside the load", *summary_cells(found["loaded"]["cell"])],
            ["refusals of a key at its limit (429), beside the load", *summary_cells(found["refused_429"])],
            ["refusals of a full queue (503)", *summary_cells(found["refused_503"])]]
    told = "%d clients, a fifth of them hostile, for %.0f s: %s answers, %d wrong, %d lost, %d with 5xx but 503." % (
        found["options"]["clients"], found["seconds"], "{:,}".format(found["answers"]), found["wrong"], found["lost"],
        found["server_errors"])
    if found.get("away_share") is not None:
        told += " The machine was away for %.1f %% of the time." % (100 * found["away_share"])
    return table(["", "p50", "p95", "p99", "n"], rows) + "\n\n" + told + source(found)


def bulk(found: dict) -> str:
    rows = [[row["name"], "{:,} MiB".format(row["bytes"] // MIB), "%.1f s" % row["seconds"],
             "%.1f MiB" % (row["growth"] / MIB)] for row in found["rows"]]
    return table(["", "size", "took", "the daemon grew by"], rows) + source(found)


def crash(found: dict) -> str:
    lost = sum(map(len, found["problems"].values()))
    rows = [["ready again", spread(found["ready"])], ["nothing of the old one is left", spread(found["gone"])],
            *(["looked at: " + what, "{:,}".format(count)] for what, count in sorted(found["checked"].items())),
            ["offences against what was promised", str(lost)]]
    told = "%d deaths under %d clients, which had %s answers." % (
        found["options"]["times"], found["options"]["clients"], "{:,}".format(found["answers"]))
    return table(["", "p50 (range)"], rows) + "\n\n" + told + source(found)


def peers(found: dict, *more: str) -> str:
    """By the peers' own program, whose modules have the names of others here."""
    done = subprocess.run([sys.executable, "-B", RENDER_PEERS, "/dev/stdin", *more], input=json.dumps(found).encode(),
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "utf-8"}, check=True)
    return done.stdout.decode()


def draw_peers(found: dict, directory: pathlib.Path) -> None:
    """The plots that the text of the peers shows."""
    peers(found, "--plots", str(directory))


# By the name of the part: which program's figures it needs, and how they are shown.
PARTS: dict[str, tuple[str, Callable[[dict], str]]] = {
    "starts": ("starts", starts), "steps": ("starts", steps), "density": ("density", density),
    "overhead": ("overhead", overhead), "cells": ("cells", cells), "load": ("load", load), "bulk": ("bulk", bulk),
    "crash": ("crash", crash), "peers": ("peers", peers)}


def render(part: str, results: dict[str, dict | None]) -> str:
    if part == "goals":
        return goals_table(results)
    program, show = PARTS[part]
    found = results.get(program)
    return show(found) if found else "Not measured: `%s`." % target(program)
