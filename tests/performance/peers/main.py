#!/usr/bin/env python3
"""Runs the same work on Hutch and on every peer that is installed, and writes tables and pictures.

    python3 tests/performance/peers/main.py [--quick] [--only NAMES] --out build/peers

NAMES are of peers and of workloads (print, pandas, plot, cell, at_once, memory, attacks), separated by commas."""
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
import cleanup
import load
import machine
import markdown
import measure
import results
import svg
from command_peers import Bubblewrap, Limited, Nsjail, PlainPython
from container_peers import Docker, Podman
from context import ROOT, Context, find_context
from hutch_peers import HutchEngine, HutchRun
from jupyter_peer import Jupyter
from oci_peers import Crun, Gvisor, Runc
from peer import Peer, PeerError
from pyodide_peers import PyodideDeno, PyodideNode
from workloads import CELL_TITLE, FRESH

PEERS = (PlainPython, HutchEngine, HutchRun, Limited, Bubblewrap, Nsjail, Crun, Runc, Podman, Docker, Gvisor, Jupyter,
         PyodideNode, PyodideDeno)
WORKLOADS = ("print", "pandas", "plot", "cell", "at_once", "memory", "attacks")

METHOD = ("Method: peers take turns, the order reversed every other round; 15 ms of rest after every sample; two runs "
          "of each thrown away first; every output is compared with what it must be. Times are from before the start "
          "until the complete result is in hand; for a process, until it has ended.")
MEMORY_NOTES = (
    "The difference that the sessions make to MemAvailable, after one that was thrown away: whatever else the machine did "
    "meanwhile is in it, up to some megabytes in all, so small sessions are counted by the hundred.",)
SIEGE_NOTES = (
    "Everything is run as root where the harness is root, and each peer as it is set up below.",
    "In gVisor a program talks to another kernel than the host's: what is open there of seccomp_missing, unshare_user, "
    "chroot_pivot and capability_sets is open in that kernel.",
    "Pyodide has no system calls, which the programs are told; canary_by_javascript is asked of it alone.")


@dataclasses.dataclass(frozen=True)
class Effort:
    """How often everything is done."""

    fresh: dict[str, int]  # rounds, by program
    often: int             # samples a round of what is quick
    cells: int
    at_once: int
    sessions: float        # of those that each peer has for this
    repeats: int


FULL = Effort({"print": 40, "pandas": 20, "plot": 16}, 3, 40, 100, 1.0, 3)
QUICK = Effort({"print": 5, "pandas": 3, "plot": 2}, 2, 8, 10, 0.2, 1)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples: does it work, and roughly how fast")
    parser.add_argument("--only", default="", help="peers and workloads, separated by commas")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/peers")
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


def measure_all(peers: list[Peer], workloads: list[str], effort: Effort) -> dict[str, dict]:
    tables = {}
    for program in FRESH:
        if program.name in workloads:
            series = measure.measure_fresh(peers, program, effort.fresh[program.name], effort.often, say)
            tables[program.name] = results.timing_table(program.title, series)
    if "cell" in workloads:
        tables["cell"] = results.timing_table(CELL_TITLE, measure.measure_cells(peers, effort.cells, say))
    if "at_once" in workloads:
        tables["at_once"] = results.burst_table(load.measure_bursts(peers, effort.at_once, effort.repeats, say))
    if "memory" in workloads:
        memories = load.measure_memory(peers, effort.sessions, effort.repeats, say)
        tables["memory"] = {**results.memory_table(memories), "notes": list(MEMORY_NOTES)}
    if "attacks" in workloads:
        tables["attacks"] = {**results.siege_table(attacks.besiege(peers, say)), "notes": list(SIEGE_NOTES)}
    return tables


def compare(context: Context, arguments: argparse.Namespace) -> dict:
    kinds, workloads = choose(arguments.only)
    begin, load_before = time.monotonic(), machine.load()
    peers = [kind(context) for kind in kinds]
    with contextlib.ExitStack() as at_the_end:
        missing = make_ready(peers, at_the_end)
        ready = [peer for peer in peers if peer.name not in missing]
        tables = measure_all(ready, workloads, QUICK if arguments.quick else FULL)
        say("ending")
    facts = {**machine.facts(context), "load_before": load_before, "load_after": machine.load()}
    notes = [METHOD, "%s run on %s in %.0f s." % ("Quick" if arguments.quick else "Full", datetime.date.today(),
                                                 time.monotonic() - begin)]
    return {"schema": 1, "quick": arguments.quick, "machine": facts, "notes": notes,
            "peers": results.peer_rows(peers, missing), "workloads": tables}


def write(out: pathlib.Path, found: dict) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "peers.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "peers.md").write_text(markdown.document(found), encoding="utf-8")
    for name, picture in svg.charts(found).items():
        (out / name).write_text(picture, encoding="utf-8")


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
    write(arguments.out, found)
    say("")
    print(markdown.document(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
