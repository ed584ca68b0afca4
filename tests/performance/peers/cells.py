"""Cells of live sessions: the same one again and again, in a fresh session of each peer every few rounds."""
from __future__ import annotations

import contextlib
import time

from measure import REST, Say, Series, in_turn
from peer import Peer, PeerError, Session
from workloads import CELL

CELLS = 10           # one after the other
ROUNDS_A_SESSION = 8  # then a fresh one: on which processor the old one happened to be must not decide everything


def open_warm(peer: Peer) -> Session:
    """Its first cells are not measured."""
    session = peer.session(libraries=False)
    try:
        session.send("x = 0")
        time_cells(session)
    except PeerError:
        session.close()
        raise
    return session


def time_cells(session: Session) -> list[float]:
    return [session.time(CELL) for _ in range(CELLS)]


def check_sum(session: Session, rounds: int) -> None:
    """Every cell must have been run, once; those that warmed it up, too."""
    expected = CELLS * (rounds + 1)
    printed = session.send("print(x)")
    if printed != "%d\n" % expected:
        raise PeerError("after %d cells x is %r" % (expected, printed[:100]))


def measure_rounds(peers: list[Peer], rounds: int, all_series: dict[str, Series]) -> None:
    """In one session of each; what fails is left out from then on."""
    with contextlib.ExitStack() as at_the_end:
        sessions: dict[str, Session] = {}
        for peer in peers:
            with noting_failure(all_series[peer.name]):
                sessions[peer.name] = open_warm(peer)
                at_the_end.callback(sessions[peer.name].close)
        for peer in in_turn(peers, rounds, all_take_part=True):
            series = all_series[peer.name]
            if not series.failures:
                with noting_failure(series):
                    series.samples += time_cells(sessions[peer.name])
                time.sleep(REST)
        for peer in peers:
            if not all_series[peer.name].failures:
                with noting_failure(all_series[peer.name]):
                    check_sum(sessions[peer.name], rounds)


@contextlib.contextmanager
def noting_failure(series: Series):
    try:
        yield
    except PeerError as error:
        series.failures.append(str(error))


def measure_cells(peers: list[Peer], rounds: int, say: Say) -> list[Series]:
    all_series = {peer.name: Series(peer.name) for peer in peers}
    for begin in range(0, rounds, ROUNDS_A_SESSION):
        say("cell: round %d of %d" % (begin + 1, rounds))
        working = [peer for peer in peers if not all_series[peer.name].failures]
        measure_rounds(working, min(ROUNDS_A_SESSION, rounds - begin), all_series)
    return list(all_series.values())
