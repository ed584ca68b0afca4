"""From samples to the rows that are written: plain dictionaries, the same in JSON, Markdown and pictures."""
from __future__ import annotations

import statistics

from attacks import NAMES, Siege, class_of
from load import Burst, Sustained
from measure import Series
from memory import Memory
from peer import Peer
from stats import ratio, summarize

ANCHOR = "python3"
JUPYTER, OWN_CELLS, CELL_GOAL = "Jupyter kernel", ("hutch engine", "hutch engine, IPython"), 10
MS = 1000.0


def in_ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * MS


def add_ratios(rows: list[dict], key: str) -> list[dict]:
    """To python3's figure in the same run."""
    anchor = next((row.get(key) for row in rows if row["peer"] == ANCHOR), None)
    return [{**row, "ratio": ratio(row[key], anchor)} if key in row else row for row in rows]


def timing_table(title: str, all_series: list[Series]) -> dict:
    """Milliseconds; the ratio is median over the anchor's median in the same rounds."""
    anchors = [summarize(series.samples) for series in all_series if series.peer == ANCHOR and series.samples]
    anchor = anchors[0] if anchors else None
    rows: list[dict] = []
    for series in all_series:
        if not series.samples:
            rows.append({"peer": series.peer, "reason": series.failures[0]})
            continue
        summary = summarize(series.samples)
        rows.append({"peer": series.peer, "n": summary.count, "p50": summary.p50 * MS, "p95": in_ms(summary.p95),
                     "p99": in_ms(summary.p99), "spread": summary.spread,
                     "ratio": ratio(summary.p50, anchor.p50 if anchor else None),
                     "failures": len(series.failures), "reason": series.failures[0] if series.failures else ""})
    return {"title": title, "unit": "ms", "noise": anchor.spread if anchor else None, "rows": rows}


def cell_table(title: str, all_series: list[Series]) -> dict:
    """With how many times as long a Jupyter kernel takes, which is a goal."""
    part = timing_table(title, all_series)
    medians = {row["peer"]: row["p50"] for row in part["rows"] if "p50" in row}
    part["goals"] = [{"peer": peer, "times": medians[JUPYTER] / medians[peer], "goal": CELL_GOAL}
                     for peer in OWN_CELLS if JUPYTER in medians and peer in medians]
    return part


def burst_table(bursts: list[Burst]) -> dict:
    rows: list[dict] = []
    for burst in bursts:
        asked = burst.count * len(burst.seconds)
        row = {"peer": burst.peer, "count": burst.count, "asked": asked, "failures": len(burst.failures),
               "why": burst.why, "reason": burst.failures[0] if burst.failures else ""}
        if len(burst.failures) < asked:
            seconds = statistics.median(burst.seconds)
            row |= {"seconds": seconds, "low": min(burst.seconds), "high": max(burst.seconds),
                    "each": seconds * len(burst.seconds) / (asked - len(burst.failures)) * MS}
        rows.append(row)
    return {"title": "print(1), many at once", "rows": add_ratios(rows, "each")}


def sustained_table(all_sustained: list[Sustained]) -> dict:
    rows: list[dict] = []
    for sustained in all_sustained:
        reason = sustained.failures[0] if sustained.failures else ""
        row = {"peer": sustained.peer, "reason": reason, "failures": len(sustained.failures)}
        if any(sustained.rates):
            row |= {"starts": sustained.starts, "repeats": len(sustained.rates),
                    "per_second": statistics.median(sustained.rates), "low": min(sustained.rates),
                    "high": max(sustained.rates)}
        rows.append(row)
    return {"title": "print(1), starts a second for as long as it is asked", "rows": add_ratios(rows, "per_second")}


def memory_table(memories: list[Memory]) -> dict:
    rows: list[dict] = []
    for memory in memories:
        if memory.failure:
            rows.append({"peer": memory.peer, "reason": memory.failure, "unclear": memory.unclear})
        else:
            rows.append({"peer": memory.peer, "sessions": memory.sessions, "repeats": len(memory.each),
                         "mb": statistics.median(memory.each) / 1e6, "low_mb": min(memory.each) / 1e6,
                         "high_mb": max(memory.each) / 1e6, "noise_mb": memory.noise / 1e6,
                         "shared_mb": memory.shared / 1e6})
    return {"title": "memory of an idle session with pandas imported", "rows": add_ratios(rows, "mb")}


def siege_table(sieges: list[Siege]) -> dict:
    rows = [{"peer": siege.peer, "blocked": siege.blocked, "open": siege.open, "untried": siege.untried}
            for siege in sieges]
    tried = [name for row in rows for key in ("blocked", "open", "untried") for name in row[key]]
    classes = {name: class_of(name) for name in dict.fromkeys([*NAMES, *tried])}
    return {"title": "attack programs", "classes": classes, "rows": rows}


def peer_rows(peers: list[Peer], missing: dict[str, str]) -> list[dict]:
    return [{"name": peer.name, "about": peer.about, "missing": missing.get(peer.name, ""),
             "version": "" if peer.name in missing else peer.version()} for peer in peers]
