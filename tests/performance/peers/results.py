"""From samples to the rows that are written: plain dictionaries, the same in JSON, Markdown and pictures."""
from __future__ import annotations

import statistics

from attacks import NAMES, Siege
from load import Burst, Memory
from measure import Series
from peer import Peer
from stats import ratio, summarize

ANCHOR = "python3"
MS = 1000.0


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
        rows.append({"peer": series.peer, "n": summary.count, "p50": summary.p50 * MS, "p95": summary.p95 * MS,
                     "p99": summary.p99 * MS, "spread": summary.spread,
                     "ratio": ratio(summary.p50, anchor.p50 if anchor else None),
                     "failures": len(series.failures), "reason": series.failures[0] if series.failures else ""})
    return {"title": title, "unit": "ms", "noise": anchor.spread if anchor else None, "rows": rows}


def burst_table(bursts: list[Burst]) -> dict:
    rows: list[dict] = []
    for burst in bursts:
        asked = burst.count * len(burst.seconds)
        row = {"peer": burst.peer, "count": burst.count, "asked": asked, "failures": len(burst.failures),
               "reason": burst.failures[0] if burst.failures else ""}
        if len(burst.failures) < asked:
            seconds = statistics.median(burst.seconds)
            row |= {"seconds": seconds, "each": seconds / burst.count * MS}
        rows.append(row)
    return {"title": "print(1), many at once", "rows": rows}


def memory_table(memories: list[Memory]) -> dict:
    rows: list[dict] = []
    for memory in memories:
        if memory.failure:
            rows.append({"peer": memory.peer, "reason": memory.failure})
        else:
            rows.append({"peer": memory.peer, "sessions": memory.sessions, "repeats": len(memory.each),
                         "mb": statistics.median(memory.each) / 1e6, "low_mb": min(memory.each) / 1e6,
                         "high_mb": max(memory.each) / 1e6, "shared_mb": memory.shared / 1e6})
    return {"title": "memory of an idle session with pandas imported", "rows": rows}


def siege_table(sieges: list[Siege]) -> dict:
    rows = [{"peer": siege.peer, "blocked": siege.blocked, "open": siege.open, "untried": siege.untried}
            for siege in sieges]
    return {"title": "attack programs", "programs": list(NAMES), "rows": rows}


def peer_rows(peers: list[Peer], missing: dict[str, str]) -> list[dict]:
    return [{"name": peer.name, "about": peer.about, "missing": missing.get(peer.name, "")} for peer in peers]
