"""Interleaved rounds: every peer in turn, the order reversed every other round, so that noise falls on all alike."""
from __future__ import annotations

import collections.abc
import dataclasses
import time

from peer import Peer, PeerError
from workloads import Program

REST = 0.015         # seconds after every sample: nobody pays for what the one before left to be cleaned up
QUICK = 0.1          # what takes less takes part several times a round
MOST_FAILURES = 3    # then a peer is left alone
Say = collections.abc.Callable[[str], None]


@dataclasses.dataclass
class Series:
    """What one peer did with one workload; seconds."""

    peer: str
    samples: list[float] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)


def run_once(peer: Peer, program: Program) -> float:
    sample = peer.run(program)
    if sample.output != program.expected:
        raise PeerError("printed %r" % sample.output[:100])
    return sample.seconds


def warm_up(peer: Peer, program: Program, series: Series) -> float:
    """Runs it twice, not measured; the time of the second."""
    try:
        run_once(peer, program)
        return run_once(peer, program)
    except PeerError as error:
        series.failures.append(str(error))
        return 0.0


def in_turn(peers: list[Peer], rounds: int, all_take_part: bool = False) -> collections.abc.Iterator[Peer]:
    """Those that take seconds only in some of the rounds, unless all take part."""
    for number in range(rounds):
        for peer in peers if number % 2 == 0 else reversed(peers):
            if all_take_part or number % peer.every == 0:
                yield peer


def measure_fresh(peers: list[Peer], program: Program, rounds: int, often: int, say: Say) -> list[Series]:
    """One program, each time in a fresh instance."""
    all_series = {peer.name: Series(peer.name) for peer in peers}
    times = {}
    for peer in peers:
        say("%s: %s, first runs" % (program.name, peer.name))
        times[peer.name] = warm_up(peer, program, all_series[peer.name])
    working = [peer for peer in peers if not all_series[peer.name].failures]
    for peer in in_turn(working, rounds):
        series = all_series[peer.name]
        say("%s: %s, %d samples" % (program.name, peer.name, len(series.samples)))
        for _ in range(often if times[peer.name] < QUICK else 1):
            if len(series.failures) >= MOST_FAILURES:
                break
            try:
                series.samples.append(run_once(peer, program))
            except PeerError as error:
                series.failures.append(str(error))
            time.sleep(REST)
    return list(all_series.values())
