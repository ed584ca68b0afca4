"""What an idle session holds in memory: what the machine has less of while many are open than before and after.

Others use the machine, too, and the kernel gives back late. So what is available is read before and after, both times
with no session open: the difference of those two is noise, and a figure that is not far above the noise is none."""
from __future__ import annotations

import contextlib
import dataclasses
import time

from measure import Say
from peer import Peer, PeerError, Session
from workloads import IMPORT_PANDAS

POLL = 0.1           # seconds
SETTLE = 1.0         # seconds in which the memory of a machine at rest does not change
LONGEST_SETTLE = 5.0  # where it does not rest, the noise will tell
AT_REST = 2 << 20    # bytes that do not count as a change
LEAST_NOISE = 4 << 20  # bytes by which a machine that does nothing changes
CLEAR = 5            # so many times the noise is a figure: it is right to a tenth
ATTEMPTS = 3         # each with twice as many sessions as the one before
SHARE = 0.5          # of the memory that is free may be asked for
FEWEST = 5


@dataclasses.dataclass
class Memory:
    """Bytes for one idle session with pandas imported, once per repetition; shared is paid once for all."""

    peer: str
    sessions: int
    each: list[float] = dataclasses.field(default_factory=list)
    noise: float = 0.0  # the most of all repetitions, for all sessions together
    shared: int = 0
    failure: str = ""
    unclear: bool = False  # that is the failure: nothing went wrong, but no figure can be told from noise


@dataclasses.dataclass(frozen=True)
class Hold:
    """Bytes that all sessions together took, between what was available before and after."""

    sessions: int
    before: int
    during: int
    after: int

    @property
    def used(self) -> float:
        return (self.before + self.after) / 2 - self.during

    @property
    def noise(self) -> float:
        return max(abs(self.before - self.after), LEAST_NOISE)

    @property
    def clear(self) -> bool:
        return self.used >= CLEAR * self.noise

    def why_not(self) -> str:
        return ("%.0f MB for %d sessions together, with a noise of %.0f MB"
                % (max(self.used, 0) / 1e6, self.sessions, self.noise / 1e6))


class UnclearError(PeerError):
    """What was found may be noise."""


def available() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))


def settled() -> int:
    """What is available when whatever ran before has given its memory back."""
    begin = since = time.monotonic()
    last = available()
    while time.monotonic() - since < SETTLE and time.monotonic() - begin < LONGEST_SETTLE:
        time.sleep(POLL)
        now = available()
        if abs(now - last) > AT_REST:
            last, since = now, time.monotonic()
    return available()


def hold_sessions(peer: Peer, count: int) -> Hold:
    before = settled()
    with contextlib.ExitStack() as at_the_end:
        for _ in range(count):
            session = peer.session(libraries=True)
            at_the_end.callback(session.close)
            session.send(IMPORT_PANDAS)
        during = settled()
    peer.settle()
    return Hold(count, before, during, settled())


def fitting(peer: Peer, count: int) -> int:
    return max(min(count, int(available() * SHARE / (peer.megabytes * 1e6))), 1)


def hold_clearly(peer: Peer, count: int) -> Hold:
    """With twice the sessions where the figure would be lost in noise; the last try, whatever it says."""
    for attempt in range(ATTEMPTS):
        held = hold_sessions(peer, fitting(peer, count << attempt))
        if held.clear:
            break
    return held


def measure_once(peer: Peer, memory: Memory) -> None:
    if not memory.each:
        warm(peer)
    held = hold_clearly(peer, memory.sessions)
    if not held.clear:
        raise UnclearError(held.why_not())
    memory.sessions = held.sessions
    memory.each.append(held.used / held.sessions)
    memory.noise = max(memory.noise, held.noise)
    memory.shared = peer.shared_memory()


def warm(peer: Peer) -> None:
    """What the first needs and nobody after it: files in the page cache, pages of the engine's."""
    session: Session = peer.session(libraries=True)
    with contextlib.closing(session):
        session.send(IMPORT_PANDAS)


def measure_memory(peers: list[Peer], share: float, repeats: int, say: Say) -> list[Memory]:
    memories = [Memory(peer.name, max(round(peer.live_sessions * share), FEWEST)) for peer in peers]
    for number in range(repeats):
        pairs = list(zip(peers, memories))
        for peer, memory in pairs if number % 2 == 0 else reversed(pairs):
            if memory.failure:
                continue
            say("memory: %s, %d sessions" % (peer.name, memory.sessions))
            try:
                measure_once(peer, memory)
            except PeerError as error:
                memory.failure, memory.unclear = str(error), isinstance(error, UnclearError)
    return memories
