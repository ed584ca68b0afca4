#!/usr/bin/env python3
"""Runs the same work on Hutch and on every peer that is installed; render.py makes tables and plots of what is found.

    python3 tests/performance/peers/main.py [--quick] [--only NAMES] [--json FILE]

NAMES are of peers and of workloads (print, pandas, plot, cell, at_once, sustained, memory, attacks), separated by
commas."""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import signal
import sys
import time

import attacks
import better
import cells
import cleanup
import load
import machine
import markdown
import measure
import memory
import notes
import results
from command_peers import Bubblewrap, Limited, Nsjail, PlainPython
from container_peers import Docker, Podman
from context import ROOT, Context, find_context
from hutch_peers import HutchEngine, HutchIPython, HutchRun
from jupyter_peer import Jupyter
from oci_peers import Crun, Gvisor, Runc
from peer import Peer, PeerError
from pyodide_peers import PyodideDeno, PyodideNode
from workloads import CELL_TITLE, FRESH

PEERS = (PlainPython, HutchEngine, HutchIPython, HutchRun, Limited, Bubblewrap, Nsjail, Crun, Runc, Podman, Docker,
         Gvisor, Jupyter, PyodideNode, PyodideDeno)
WORKLOADS = ("print", "pandas", "plot", "cell", "at_once", "sustained", "memory", "attacks")


@dataclasses.dataclass(frozen=True)
class Effort:
    """How often everything is done."""

    fresh: dict[str, tuple[int, int]]  # by program: rounds, and samples a round of what is quick
    cells: int
    at_once: int
    sustained: float                   # seconds
    sessions: float                    # of those that each peer has for this
    repeats: int


FULL = Effort({"print": (40, 3), "pandas": (20, 5), "plot": (20, 5)}, 40, 100, 4.0, 1.0, 3)
QUICK = Effort({"print": (5, 2), "pandas": (3, 2), "plot": (2, 2)}, 8, 10, 1.0, 0.5, 1)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples: does it work, and roughly how fast")
    parser.add_argument("--only", default="", help="peers and workloads, separated by commas")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build/peers/peers.json", help="what is found")
    parser.add_argument("--hutch", default=str(ROOT / "build/bin/hutch"))
    return parser.parse_args()


def choose(only: str) -> tuple[list[type[Peer]], list[str]]:
    """Peers and workloads; python3 always takes part, as what the others are compared with."""
    names = {name.strip() for name in only.split(",")} - {""}
    unknown = names - {peer.name for peer in PEERS} - set(WORKLOADS)
    if unknown:
        raise SystemExit("unknown: %s; there are: %s" % (", ".join(sorted(unknown)), ", ".join(
            [*WORKLOADS, *(peer.name for peer in PEERS)])))
    peers = [peer for peer in PEERS if peer.name in names | {results.ANCHOR}]
    workloads = [name for name in WORKLOADS if name in names]
    return (peers if len(peers) > 1 else list(PEERS)), (workloads or list(WORKLOADS))


def say(text: str) -> None:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(clear + text, end="" if clear else "\n", file=sys.stderr, flush=True)


def make_ready(peers: list[Peer], at_the_end: contextlib.ExitStack) -> dict[str, str]:
    """Why each of those that cannot take part cannot; the others are closed at the end."""
    missing = {}
    for peer in peers:
        say("preparing %s" % peer.name)
        try:
            if reason := peer.missing():
                missing[peer.name] = reason
            else:
                at_the_end.callback(peer.close)
                peer.prepare()
        except PeerError as error:
            missing[peer.name] = "it cannot be prepared: %s" % error
    return missing


def measure_one(name: str, peers: list[Peer], effort: Effort) -> dict:
    match name:
        case "cell":
            return results.cell_table(CELL_TITLE, cells.measure_cells(peers, effort.cells, say))
        case "at_once":
            return results.burst_table(load.measure_bursts(peers, effort.at_once, effort.repeats, say))
        case "sustained":
            return results.sustained_table(load.measure_sustained(peers, effort.sustained, effort.repeats, say))
        case "memory":
            once = 1  # each takes as many sessions as the noise asks for, and ten minutes with all peers
            return results.memory_table(memory.measure_memory(peers, effort.sessions, once, say))
        case "attacks":
            return results.siege_table(attacks.besiege(peers, say))
        case _:
            program = FRESH[name]
            return results.timing_table(program.title, measure.measure_fresh(peers, program, *effort.fresh[name], say))


def measure_all(peers: list[Peer], workloads: list[str], effort: Effort) -> tuple[dict[str, dict], dict[str, float]]:
    """The tables, and the seconds that each took."""
    tables, seconds = {}, {}
    for name in workloads:
        begin = time.monotonic()
        taking_part = [peer for peer in peers if name in (peer.workloads or WORKLOADS)]
        tables[name] = {**measure_one(name, taking_part, effort), "notes": list(notes.OF.get(name, ()))}
        seconds[name] = round(time.monotonic() - begin, 1)
    return tables, seconds


def compare(context: Context, arguments: argparse.Namespace) -> dict:
    kinds, workloads = choose(arguments.only)
    begin, load_before = time.monotonic(), machine.load()
    peers = [kind(context) for kind in kinds]
    with contextlib.ExitStack() as at_the_end:
        missing = make_ready(peers, at_the_end)
        ready = [peer for peer in peers if peer.name not in missing]
        rows = results.peer_rows(peers, missing)
        tables, seconds = measure_all(ready, workloads, QUICK if arguments.quick else FULL)
        say("ending")
    facts = {**machine.facts(context), "load_before": load_before, "load_after": machine.load()}
    run = "%s run on %s in %.0f s." % ("Quick" if arguments.quick else "Full", datetime.date.today(),
                                       time.monotonic() - begin)
    return {"schema": 2, "quick": arguments.quick, "date": str(datetime.date.today()), "machine": facts,
            "notes": [*notes.RUN, run], "seconds": seconds, "peers": rows, "workloads": tables,
            "better": better.where_a_peer_is_better(tables)}


def write(file: pathlib.Path, found: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    arguments = options()
    if not os.access(arguments.hutch, os.X_OK):
        raise SystemExit("%s is not there: make build" % arguments.hutch)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is taken away
    cleanup.become_subreaper()
    context = find_context(arguments.hutch, ROOT / "build/peers")
    with contextlib.ExitStack() as stack:
        stack.callback(cleanup.remove_everything, context.scratch)
        found = machine.Cleaner(context).everything(compare(context, arguments))
    write(arguments.json, found)
    say("")
    print(markdown.document(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
