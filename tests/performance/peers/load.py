"""Many at once: until the last is answered, and how many fail; and starts that follow each other for seconds."""
from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import threading
import time

from measure import MOST_FAILURES, Say, Series, run_once, warm_up
from memory import available
from peer import Peer, PeerError
from workloads import PRINT

SHARE = 0.7        # of the memory that is free may be asked for
LONG = 15.0        # seconds; what takes longer is asked for once
QUICK = 1.0        # seconds of one start; what is slower has no starts a second
WORKERS = 2        # that ask back to back, for every core


@dataclasses.dataclass
class Burst:
    """`count` programs asked for at the same moment; once per repetition, seconds until the last that was answered."""

    peer: str
    count: int
    why: str = ""  # not as many as of the others
    seconds: list[float] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Sustained:
    """Starts a second, once per repetition, with everything taken apart that was started."""

    peer: str
    rates: list[float] = dataclasses.field(default_factory=list)
    starts: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)


def burst_once(peer: Peer, count: int) -> tuple[float, list[str]]:
    begun: list[float] = []
    ready = threading.Barrier(count, action=lambda: begun.append(time.monotonic()))  # before anybody goes on

    def one() -> tuple[float, str]:
        """When it was answered, or given up, and why it was."""
        ready.wait()
        begin = time.monotonic()
        try:
            return begin + run_once(peer, PRINT), ""
        except PeerError as error:
            return time.monotonic(), str(error)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(one) for _ in range(count)]
        answers = [future.result() for future in futures]
    return last_answered(answers, begun[0]) - begun[0], [reason for _, reason in answers if reason]


def last_answered(answers: list[tuple[float, str]], begin: float) -> float:
    """How long somebody waited for one who never answered says nothing of those who did."""
    return max((when for when, reason in answers if not reason), default=begin)


def plan_burst(peer: Peer, most: int, free: int) -> Burst:
    """As many as fit into memory."""
    fitting = int(free * SHARE / (peer.megabytes * 1e6))
    if fitting >= most:
        return Burst(peer.name, most)
    count = max(2, fitting)
    return Burst(peer.name, count, "%d at once instead of %d: about %d MB each, and %.1f GB are free"
                 % (count, most, peer.megabytes, free / 1e9))


def measure_bursts(peers: list[Peer], most: int, repeats: int, say: Say) -> list[Burst]:
    bursts = [plan_burst(peer, most, available()) for peer in peers]
    for number in range(repeats):
        pairs = list(zip(peers, bursts))
        for peer, burst in pairs if number % 2 == 0 else reversed(pairs):
            if len(burst.failures) >= burst.count or max(burst.seconds, default=0) > LONG:
                continue  # not one was answered, or it takes too long to be done again
            say("%d at once: %s" % (burst.count, peer.name))
            seconds, failures = burst_once(peer, burst.count)
            burst.seconds.append(seconds)
            burst.failures += failures
            settle(peer, burst.failures)
    return bursts


def settle(peer: Peer, failures: list[str]) -> None:
    try:
        peer.settle()
    except PeerError as error:
        failures.append(str(error))


def keep_asking(peer: Peer, end: float) -> tuple[int, list[str]]:
    """One after the other: how many were answered, and why others were not."""
    answered, failures = 0, []
    while time.monotonic() < end and len(failures) < MOST_FAILURES:
        try:
            run_once(peer, PRINT)
            answered += 1
        except PeerError as error:
            failures.append(str(error))
    return answered, failures


def sustain(peer: Peer, seconds: float, sustained: Sustained) -> None:
    """Nobody rests, so nothing that was made in advance lasts, and the time ends when everything is taken apart."""
    workers = WORKERS * (os.cpu_count() or 1)
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(keep_asking, peer, begin + seconds) for _ in range(workers)]
        answers = [future.result() for future in futures]
    settle(peer, sustained.failures)
    starts = sum(answered for answered, _ in answers)
    sustained.rates.append(starts / (time.monotonic() - begin))
    sustained.starts += starts
    sustained.failures += [reason for _, reasons in answers for reason in reasons]


def measure_sustained(peers: list[Peer], seconds: float, repeats: int, say: Say) -> list[Sustained]:
    all_sustained, quick = [], []
    for peer in peers:
        sustained, series = Sustained(peer.name), Series(peer.name)
        took = warm_up(peer, PRINT, series)
        sustained.failures += series.failures
        if took > QUICK:
            sustained.failures.append("one start takes %.1f s, more than %g" % (took, QUICK))
        if not sustained.failures:
            quick.append((peer, sustained))
        all_sustained.append(sustained)
    for number in range(repeats):
        for peer, sustained in quick if number % 2 == 0 else reversed(quick):
            say("starts that last: %s" % peer.name)
            if len(sustained.failures) < MOST_FAILURES:
                sustain(peer, seconds, sustained)
    return all_sustained
