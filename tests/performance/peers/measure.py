"""Interleaved rounds: every peer in turn, the order reversed every other round, so that noise falls on all alike."""
from __future__ import annotations

import collections.abc
import dataclasses
import time

from peer import Peer, PeerError, Session
from workloads import CELL, Program

REST = 0.015         # seconds after every sample: nobody pays for what the one before left to be cleaned up
QUICK = 0.1          # what takes less takes part several times a round
MOST_FAILURES = 3    # then a peer is left alone
CELLS = 10           # of a live session, one after the other
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


def in_turn(peers: list[Peer], rounds: int) -> collections.abc.Iterator[Peer]:
    for number in range(rounds):
        for peer in peers if number % 2 == 0 else reversed(peers):
            if number % peer.every == 0:
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


def time_cells(session: Session, count: int) -> list[float]:
    seconds = []
    for _ in range(count):
        begin = time.monotonic()
        session.send(CELL)
        seconds.append(time.monotonic() - begin)
    return seconds


def check_sum(session: Session, series: Series) -> None:
    """Every cell must have been run, once."""
    cells = len(series.samples) + CELLS
    try:
        printed = session.send("print(x)")
    except PeerError as error:
        series.failures.append(str(error))
        return
    if printed != "%d\n" % cells:
        series.failures.append("after %d cells x is %r" % (cells, printed[:100]))


def measure_cells(peers: list[Peer], rounds: int, say: Say) -> list[Series]:
    """The same cell again and again, in one live session of each peer; the first ones are not measured."""
    all_series = [Series(peer.name) for peer in peers]
    sessions: dict[str, Session] = {}
    try:
        for peer, series in zip(peers, all_series):
            say("cell: %s" % peer.name)
            try:
                sessions[peer.name] = peer.session(libraries=False)
                sessions[peer.name].send("x = 0")
                time_cells(sessions[peer.name], CELLS)
            except PeerError as error:
                series.failures.append(str(error))
        for number in range(rounds):
            for series in all_series if number % 2 == 0 else reversed(all_series):
                if not series.failures:
                    attempt_cells(sessions[series.peer], series)
        for series in all_series:
            if not series.failures:
                check_sum(sessions[series.peer], series)
    finally:
        for session in sessions.values():
            session.close()
    return all_series


def attempt_cells(session: Session, series: Series) -> None:
    try:
        series.samples += time_cells(session, CELLS)
    except PeerError as error:
        series.failures.append(str(error))
    time.sleep(REST)
