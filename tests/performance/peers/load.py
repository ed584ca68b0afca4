"""Many at once: how long until the last is answered, how many fail, and what an idle session holds in memory."""
from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
import time

from measure import Say, run_once
from peer import Peer, PeerError, Session
from workloads import IMPORT_PANDAS, PRINT

SETTLE = 1.0         # seconds in which the memory of a machine at rest does not change
LONGEST_SETTLE = 6   # of those
AT_REST = 3 << 20    # bytes that do not count as a change


@dataclasses.dataclass
class Burst:
    """`count` programs asked for at the same moment, as often as there are seconds."""

    peer: str
    count: int
    seconds: list[float] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Memory:
    """Bytes for one idle session with pandas imported, once per repetition; shared is paid once for all."""

    peer: str
    sessions: int
    each: list[float] = dataclasses.field(default_factory=list)
    shared: int = 0
    failure: str = ""


def burst_once(peer: Peer, count: int) -> tuple[float, list[str]]:
    ready = threading.Barrier(count + 1)

    def one() -> tuple[float, str]:
        """When it was answered, or why it was not."""
        ready.wait()
        begin = time.monotonic()
        try:
            return begin + run_once(peer, PRINT), ""
        except PeerError as error:
            return time.monotonic(), str(error)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(one) for _ in range(count)]
        ready.wait()
        begin = time.monotonic()
        answers = [future.result() for future in futures]
    return max(when for when, _ in answers) - begin, [reason for _, reason in answers if reason]


def measure_bursts(peers: list[Peer], most: int, repeats: int, say: Say) -> list[Burst]:
    """`most` for those of which a hundred fit into memory, fewer for the others."""
    bursts = [Burst(peer.name, max(2, peer.together * most // 100)) for peer in peers]
    for number in range(repeats):
        pairs = list(zip(peers, bursts))
        for peer, burst in pairs if number % 2 == 0 else reversed(pairs):
            say("%d at once: %s" % (burst.count, peer.name))
            if len(burst.failures) >= burst.count:
                continue  # not one was answered
            seconds, failures = burst_once(peer, burst.count)
            burst.seconds.append(seconds)
            burst.failures += failures
    return bursts


def available() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))


def settled() -> int:
    """What is available when whatever ran before has given its memory back."""
    last = available()
    for _ in range(LONGEST_SETTLE):
        time.sleep(SETTLE)
        now = available()
        if abs(now - last) < AT_REST:
            return now
        last = now
    return last


def hold_sessions(peer: Peer, count: int) -> float:
    """Bytes that each of so many sessions takes away from the machine."""
    before = settled()
    sessions: list[Session] = []
    try:
        for _ in range(count):
            sessions.append(peer.session(libraries=True))
            sessions[-1].send(IMPORT_PANDAS)
        return (before - settled()) / count
    finally:
        for session in sessions:
            session.close()


def measure_memory(peers: list[Peer], share: float, repeats: int, say: Say) -> list[Memory]:
    memories = [Memory(peer.name, max(round(peer.live_sessions * share), 2)) for peer in peers]
    for _ in range(repeats):
        for peer, memory in zip(peers, memories):
            if memory.failure:
                continue
            say("memory: %s" % peer.name)
            try:
                if not memory.each:
                    hold_sessions(peer, 1)  # what the first needs, and nobody after it
                memory.each.append(hold_sessions(peer, memory.sessions))
                memory.shared = peer.shared_memory()
            except PeerError as error:
                memory.failure = str(error)
    return memories
