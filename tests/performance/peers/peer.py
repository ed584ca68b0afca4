"""What a peer is: something that runs a program in a fresh instance and, mostly, keeps a session alive."""
from __future__ import annotations

import abc
import dataclasses
import time

from context import Context
from workloads import Program

RUN_SECONDS = 180.0      # for one program in a fresh instance; long, because it may be one of a hundred
SESSION_SECONDS = 180.0  # for one answer of a session
STOP_SECONDS = 5.0       # until a session that was asked to end is killed


class PeerError(Exception):
    """Why a peer could not do what it was asked."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """One program in a fresh instance: from its start until the complete result was in hand."""

    seconds: float
    output: str


class Session(abc.ABC):
    """One live interpreter; what a cell defines is there for the next."""

    @abc.abstractmethod
    def send(self, code: str) -> str:
        """Runs a cell and returns what it printed."""

    def time(self, code: str) -> float:
        """Seconds of a cell, there and back."""
        begin = time.monotonic()
        self.send(code)
        return time.monotonic() - begin

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it; nothing is left. May be called twice."""


class Peer(abc.ABC):
    """Made from the context; costs nothing until prepare()."""

    name: str
    about: str               # one line: how it is set up here, and what it was not given
    workloads: tuple[str, ...] = ()  # that it takes part in; all when empty
    every = 1                # takes part in every so many rounds; more for what takes seconds
    megabytes = 40           # of one instance, guessed high: so many run at once as fit into memory
    live_sessions = 20       # for the memory of one; more of those that are small
    misjudged: dict[str, str] = {}            # attack programs whose verdict means nothing here, and why
    own_attacks: tuple[Program, ...] = ()     # ways out that only this peer has

    def __init__(self, context: Context) -> None:
        self.context = context

    @abc.abstractmethod
    def missing(self) -> str:
        """Why it cannot take part on this machine; empty when it can."""

    @abc.abstractmethod
    def version(self) -> str:
        """Of what is compared, in its own words."""

    def prepare(self) -> None:
        """Makes what all its runs share; called once, before the first."""

    @abc.abstractmethod
    def run(self, program: Program) -> Sample:
        """Runs a program in a fresh instance."""

    def attack(self, program: Program) -> Sample:
        """Runs a program that looks for ways out, with secrets in the environment that surrounds the peer."""
        return self.run(program)

    @abc.abstractmethod
    def session(self, libraries: bool) -> Session:
        """Starts an interpreter that stays."""

    def settle(self) -> None:
        """Waits until nothing is left of instances that have answered, where that comes after the answer."""

    def shared_memory(self) -> int:
        """Bytes that all sessions share, whatever their number."""
        return 0

    def close(self) -> None:
        """Takes away whatever prepare() and the runs made."""

    def needs_libraries(self, libraries: bool) -> None:
        if libraries and not self.context.library_python:
            raise PeerError("the default template is not built, so there is no pandas or matplotlib here")
