"""A peer for unit tests: it counts, and answers what it is told to."""
from __future__ import annotations

from peer import Peer, PeerError, Sample, Session


class CountingSession(Session):
    """Understands the three cells that the harness sends."""

    def __init__(self, lost: int = 0) -> None:
        self.x, self.lost, self.closed = 0, lost, False

    def send(self, code: str) -> str:
        if code == "x += 1":
            self.x += 1
        return "%d\n" % (self.x - self.lost) if code == "print(x)" else ""

    def close(self) -> None:
        self.closed = True


class CountingPeer(Peer):
    about = "nothing"

    def __init__(self, name: str = "test", seconds: float = 0.001, fails: bool = False, lost: int = 0) -> None:
        self.name, self.seconds, self.fails, self.lost = name, seconds, fails, lost
        self.runs, self.settled, self.sessions = 0, 0, []

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return "1"

    def run(self, program) -> Sample:
        self.runs += 1
        if self.fails:
            raise PeerError("it failed")
        return Sample(self.seconds, program.expected)

    def session(self, libraries: bool) -> Session:
        if self.fails:
            raise PeerError("it failed")
        self.sessions.append(CountingSession(self.lost))
        return self.sessions[-1]

    def settle(self) -> None:
        self.settled += 1
