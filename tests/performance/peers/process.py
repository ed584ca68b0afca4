"""Child processes with a time limit, and a Python that answers cells over its pipes."""
from __future__ import annotations

import collections.abc
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

from peer import RUN_SECONDS, SESSION_SECONDS, STOP_SECONDS, PeerError, Sample, Session

# Runs inside the peer: a JSON string with code on each line, a JSON string with what it printed in return.
LOOP = """\
import contextlib, io, json, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(json.loads(line), names)
    print(json.dumps(printed.getvalue()), flush=True)
"""

Command = list[str]
BeforeExec = collections.abc.Callable[[], None] | None


def find_program(name: str, *places: pathlib.Path) -> str:
    """On the PATH, in the system directories, or in one of the places; empty when nowhere."""
    return shutil.which(name, path=os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *map(str, places)])) or ""


def start(command: Command, environment: dict[str, str], before_exec: BeforeExec = None,
          with_input: bool = False) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=environment, cwd="/", start_new_session=True, preexec_fn=before_exec,
                            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def last_line(errors: bytes) -> str:
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def time_command(command: Command, environment: dict[str, str], before_exec: BeforeExec = None,
                 seconds: float = RUN_SECONDS) -> Sample:
    """From before the process is made until it has ended and its output is read."""
    begin = time.monotonic()
    process = start(command, environment, before_exec)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.communicate()
        raise PeerError("no result after %g s" % seconds) from None
    took = time.monotonic() - begin
    if process.returncode != 0:
        raise PeerError("exit code %d: %s" % (process.returncode, last_line(err)))
    return Sample(took, out.decode("utf-8", "replace"))


def call(command: Command, environment: dict[str, str] | None = None, seconds: float = RUN_SECONDS) -> str:
    """A command that is not measured; its output."""
    return time_command(command, dict(os.environ) if environment is None else environment, seconds=seconds).output


class PipeSession(Session):
    """A process that runs LOOP, or answers the way LOOP does."""

    def __init__(self, command: Command, environment: dict[str, str], before_exec: BeforeExec = None,
                 on_close: collections.abc.Callable[[], None] = lambda: None) -> None:
        self.on_close = on_close
        self.process = start(command, environment, before_exec, with_input=True)
        self.pending = b""

    def send(self, code: str) -> str:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(code).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise PeerError("the session has ended: " + self.last_words()) from None
        return json.loads(self.read_line())

    def read_line(self) -> bytes:
        assert self.process.stdout
        out = self.process.stdout.fileno()
        end = time.monotonic() + SESSION_SECONDS
        while b"\n" not in self.pending:
            if not select.select([out], [], [], max(0.0, end - time.monotonic()))[0]:
                raise PeerError("no answer after %g s" % SESSION_SECONDS)
            data = os.read(out, 1 << 16)
            if not data:
                raise PeerError("the session has ended: " + self.last_words())
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return line

    def last_words(self) -> str:
        kill_group(self.process)
        assert self.process.stderr
        return last_line(self.process.stderr.read())

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout and self.process.stderr
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        kill_group(self.process)
        self.process.stdout.close()
        self.process.stderr.close()
        self.on_close()
