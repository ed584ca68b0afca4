"""The results as Markdown tables."""
from __future__ import annotations

from stats import NOISY

NUMBER = "---:"


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
    """Quickest first, those without a number last."""
    return sorted(rows, key=lambda row: (key not in row, row.get(key, 0)))


def reasons(rows: list[dict], key: str) -> str:
    """A line for everything that failed, wholly or in part."""
    lines = []
    for row in rows:
        if key not in row:
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
    return text + reasons(part["rows"], "p50")


def bursts(part: dict) -> str:
    rows = [[name(row["peer"]), str(row["count"]), number(row["seconds"]), number(row["each"]),
             "%d of %d" % (row["failures"], row["asked"])] for row in ordered(part["rows"], "each") if "each" in row]
    return table(["", "at once", "s until the last answer", "ms for each", "failed"], ["---", *[NUMBER] * 4],
                 rows) + reasons(part["rows"], "each")


def memories(part: dict) -> str:
    rows = [[name(row["peer"]), str(row["sessions"]), number(row["mb"]),
             "%s to %s" % (number(row["low_mb"]), number(row["high_mb"])), number(row["shared_mb"] or None)]
            for row in ordered(part["rows"], "mb") if "mb" in row]
    return table(["", "sessions", "MB each", "lowest to highest", "MB shared by all"], ["---", *[NUMBER] * 4],
                 rows) + reasons(part["rows"], "mb")


def sieges(part: dict) -> str:
    rows = []
    for row in sorted(part["rows"], key=lambda row: -len(row["blocked"])):
        tried = len(row["blocked"]) + len(row["open"])
        rows.append([name(row["peer"]), "%d of %d" % (len(row["blocked"]), tried), ", ".join(row["open"]) or "–",
                     ", ".join(row["untried"]) or "–"])
    return table(["", "blocked", "open", "could not be tried"], ["---", NUMBER, "---", "---"], rows)


def machine(facts: dict) -> str:
    return ("- Machine: {cores} x {processor}, {memory_gib} GiB, Linux {kernel}, {python}, {hutch}\n"
            "- Load: {load_before} before, {load_after} after").format_map(facts)


SECTIONS = (("print", timings), ("pandas", timings), ("plot", timings), ("cell", timings), ("at_once", bursts),
            ("memory", memories), ("attacks", sieges))


def document(results: dict) -> str:
    parts = ["# Hutch and its peers\n", machine(results["machine"])]
    parts += ["- " + note for note in results["notes"]]
    parts.append("")
    for key, render in SECTIONS:
        if key in results["workloads"]:
            part = results["workloads"][key]
            parts += ["## %s\n" % part["title"], render(part)]
            parts += ["- " + note for note in part.get("notes", [])] + [""] * bool(part.get("notes"))
    parts.append("## How each is set up\n")
    rows = [[name(peer["name"]), "not measured: " + peer["missing"] if peer["missing"] else peer["about"]]
            for peer in results["peers"]]
    parts.append(table(["", ""], ["---", "---"], rows))
    return "\n".join(parts)
