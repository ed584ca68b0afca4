"""Where a peer is better than Hutch: found by the program, so that nobody has to want to look."""
from __future__ import annotations

OWN = "hutch engine"
# Of each table: the figure, and whether less of it is better.
FIGURES = {"print": ("p50", True), "pandas": ("p50", True), "plot": ("p50", True), "cell": ("p50", True),
           "at_once": ("each", True), "sustained": ("per_second", False), "memory": ("mb", True)}


def is_own(peer: str) -> bool:
    return peer.startswith("hutch")


def compare(title: str, figures: dict[str, float], less: bool) -> dict:
    """`better` is None where Hutch has no figure itself."""
    own = figures.get(OWN)
    if own is None:
        return {"title": title, "better": None}
    best_first = sorted(figures.items(), key=lambda pair: pair[1], reverse=not less)
    return {"title": title, "own": own, "better": {
        peer: figure for peer, figure in best_first if not is_own(peer) and (figure < own if less else figure > own)}}


def alone(rows: list[dict]) -> dict[str, float]:
    """The memory of a single session, with what all share: Hutch's engine is there for one session, too."""
    return {row["peer"]: row["mb"] + row["shared_mb"] for row in rows if "mb" in row}


def share_open(rows: list[dict]) -> dict[str, float]:
    """Of the programs that could be tried."""
    return {row["peer"]: len(row["open"]) / (len(row["open"]) + len(row["blocked"]))
            for row in rows if row["open"] or row["blocked"]}


def where_a_peer_is_better(workloads: dict[str, dict]) -> list[dict]:
    found = []
    for key, (figure, less) in FIGURES.items():
        if part := workloads.get(key):
            figures = {row["peer"]: row[figure] for row in part["rows"] if figure in row}
            found.append(compare(part["title"], figures, less))
    if part := workloads.get("memory"):
        found.append(compare("the same for one session alone, with what all share", alone(part["rows"]), less=True))
    if part := workloads.get("attacks"):
        found.append(compare("share of the attack programs that got through", share_open(part["rows"]), less=True))
    return found
