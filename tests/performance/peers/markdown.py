"""The results as Markdown tables."""
from __future__ import annotations

import notes
from attacks import ESCAPE, HARDENING, INFORMATION
from better import OWN
from stats import ENOUGH_FOR_P95, ENOUGH_FOR_P99, NOISY

NUMBER = "---:"
KINDS = {ESCAPE: "something of the host, or of another run, was read or reached",
         INFORMATION: "something about the host was learnt",
         HARDENING: "nothing was reached yet, but one wall fewer stands between the program and the kernel"}


def number(value: float | None) -> str:
    """Three significant digits, never an exponent."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return "{:,.0f}".format(value)
    return "%.1f" % value if abs(value) >= 10 else "%.2f" % value if abs(value) >= 1 else "%.3f" % value


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def name(peer: str) -> str:
    return "**%s**" % peer if peer.startswith("hutch") else peer


def table(heads: list[str], aligns: list[str], rows: list[list[str]]) -> str:
    lines = [heads, aligns, *([cell(text) for text in row] for row in rows)]
    return "\n".join("| %s |" % " | ".join(line) for line in lines) + "\n"


def ordered(rows: list[dict], key: str) -> list[dict]:
    """The least first, those without a number last."""
    return sorted(rows, key=lambda row: (key not in row, row.get(key, 0)))


def span(low: float, high: float) -> str:
    return "%s to %s" % (number(low), number(high))


def reasons(rows: list[dict], key: str) -> str:
    """A line for everything that failed, wholly or in part."""
    lines = []
    for row in rows:
        if row.get("unclear"):
            lines.append("- %s: not measurable. %s" % (row["peer"], cell(row["reason"])))
        elif key not in row:
            lines.append("- %s: not measured. %s" % (row["peer"], cell(row["reason"])))
        elif row.get("failures"):
            lines.append("- %s: %d failed. %s" % (row["peer"], row["failures"], cell(row["reason"])))
    return "\n%s\n" % "\n".join(lines) if lines else ""


def timings(part: dict) -> str:
    measured = [row for row in ordered(part["rows"], "p50") if "p50" in row]
    rows = [[name(row["peer"]), *(number(row[key]) for key in ("p50", "p95", "p99")), str(row["n"]),
             number(row["ratio"])] for row in measured]
    text = table(["ms", "p50", "p95", "p99", "n", "ratio to python3"], ["---", *[NUMBER] * 5], rows)
    noise = part["noise"]
    if noise is not None:
        busy = "; the machine was busy, measure again" if noise > NOISY else ""
        text += "\nNoise: the interquartile range of python3 is %.0f%% of its median%s.\n" % (noise * 100, busy)
    if any(row["p99"] is None for row in measured):
        text += "\n–: fewer than %d samples for a p95, %d for a p99.\n" % (ENOUGH_FOR_P95, ENOUGH_FOR_P99)
    return text + "".join(map(goal, part.get("goals", []))) + reasons(part["rows"], "p50")


def goal(found: dict) -> str:
    met = "met" if found["times"] >= found["goal"] else "**missed**"
    return "\nJupyter kernel's p50 is %s times that of %s; the goal is at least %d: %s.\n" % (
        number(found["times"]), found["peer"], found["goal"], met)


def bursts(part: dict) -> str:
    rows = [[name(row["peer"]), str(row["count"]), number(row["seconds"]), span(row["low"], row["high"]),
             number(row["each"]), number(row["ratio"]), "%d of %d" % (row["failures"], row["asked"])]
            for row in ordered(part["rows"], "each") if "each" in row]
    text = table(["", "at once", "s until the last answer", "lowest to highest", "ms for each", "ratio to python3",
                  "failed"], ["---", *[NUMBER] * 6], rows)
    fewer = ["- %s: %s" % (row["peer"], row["why"]) for row in part["rows"] if row["why"]]
    return text + ("\n%s\n" % "\n".join(fewer) if fewer else "") + reasons(part["rows"], "each")


def sustained(part: dict) -> str:
    rows = [[name(row["peer"]), number(row["per_second"]), span(row["low"], row["high"]), "%d" % row["starts"],
             number(row["ratio"])]
            for row in reversed(ordered(part["rows"], "per_second")) if "per_second" in row]
    return table(["", "starts a second", "lowest to highest", "starts in all", "ratio to python3"],
                 ["---", *[NUMBER] * 4], rows) + reasons(part["rows"], "per_second")


def memories(part: dict) -> str:
    rows = [[name(row["peer"]), str(row["sessions"]), number(row["mb"]), span(row["low_mb"], row["high_mb"]),
             number(row["ratio"]), number(row["noise_mb"] / row["sessions"]), number(row["shared_mb"] or None)]
            for row in ordered(part["rows"], "mb") if "mb" in row]
    rows += [[name(row["peer"]), "–", "not measurable", *["–"] * 4] for row in part["rows"] if row.get("unclear")]
    heads = ["", "sessions", "MB each", "lowest to highest", "ratio to python3", "noise, MB each", "MB shared by all"]
    return table(heads, ["---", *[NUMBER] * 6], rows) + reasons(part["rows"], "mb")


def sieges(part: dict) -> str:
    """What is open, in a column for each class."""
    classes, rows = part["classes"], []
    for row in sorted(part["rows"], key=lambda row: -len(row["blocked"])):
        tried = len(row["blocked"]) + len(row["open"])
        through = [", ".join(attack for attack in row["open"] if classes[attack] == kind) or "–" for kind in KINDS]
        rows.append([name(row["peer"]), "%d of %d" % (len(row["blocked"]), tried), *through,
                     ", ".join(row["untried"]) or "–"])
    text = table(["", "blocked", *("open: " + kind for kind in KINDS), "could not be tried"],
                 ["---", NUMBER, *["---"] * 4], rows)
    lines = ["- %s: %s: %s" % (kind, KINDS[kind], ", ".join(attack for attack in classes if classes[attack] == kind))
             for kind in KINDS]
    return "%s\n%s\n" % (text, "\n".join(lines))


def better(found: list[dict]) -> str:
    lines = []
    for entry in found:
        if entry["better"] is None:
            told = "%s was not measured" % OWN
        else:
            told = ", ".join("%s (%s)" % (peer, number(figure)) for peer, figure in entry["better"].items()) or "none"
            told += "; %s: %s" % (OWN, number(entry["own"]))
        lines.append("- %s: %s" % (entry["title"], told))
    return "\n".join(lines) + "\n"


def beyond_figures() -> str:
    return "\n".join("- " + note for note in notes.BETTER) + "\n"


def machine(facts: dict) -> str:
    return ("- Machine: {cores} x {processor}, {memory_gib} GiB, Linux {kernel}, {python}, {hutch}\n"
            "- Load: {load_before} before, {load_after} after").format_map(facts)


SECTIONS = (("print", timings), ("pandas", timings), ("plot", timings), ("cell", timings), ("at_once", bursts),
            ("sustained", sustained), ("memory", memories), ("attacks", sieges))


def body(results: dict, heading: str, pictures: dict[str, str]) -> str:
    """All but the title; `pictures` are links, by workload."""
    parts = [machine(results["machine"])]
    parts += ["- " + note for note in results["notes"]]
    parts.append("")
    for key, render in SECTIONS:
        if key in results["workloads"]:
            part = results["workloads"][key]
            parts += ["%s %s\n" % (heading, part["title"]), render(part)]
            parts += ["- " + note for note in part.get("notes", [])] + [""] * bool(part.get("notes"))
            parts += ["![%s](%s)\n" % (part["title"], pictures[key])] if key in pictures else []
    parts += [heading + " Where a peer is better in these figures\n", better(results["better"]), beyond_figures()]
    parts.append(heading + " How each is set up\n")
    rows = [[name(peer["name"]), peer["version"] or "–",
             "not measured: " + peer["missing"] if peer["missing"] else peer["about"]] for peer in results["peers"]]
    parts.append(table(["", "version", "set up"], ["---"] * 3, rows))
    return "\n".join(parts)


def document(results: dict) -> str:
    return "# Hutch and its peers\n\n" + body(results, "##", {})
