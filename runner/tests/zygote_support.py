"""Plays the keeper: starts a zygote on the shim and asks it for runners."""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

from support import RESTED, RUNNER, Connection, Outcome

START = "import sys; sys.path[:0] = sys.argv[1:3]; from hutch_runner import zygote; zygote.main(sys.argv[4:], sys.argv[3])"


class Zygote:
    def __init__(self, workspace: str, modules: tuple = (), environment: dict[str, str] | None = None) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(60)
        command = [sys.executable, "-I", "-X", "utf8", "-c", START, str(RUNNER), str(RUNNER / "tests" / "shim"),
                   workspace, str(theirs.fileno()), *modules]
        self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workspace,
                                        env={**os.environ, **(environment or {})})
        theirs.close()
        self.ready = self.control.recv(16) == b"ready"

    def run(self, *tasks: bytes, in_advance: bool = False) -> Outcome:
        """One fork, and the tasks are there before it, unless it is made in advance: then they wait until it rests."""
        ours, theirs = socket.socketpair()
        out, err = os.pipe(), os.pipe()
        connection = Connection(ours)
        if not in_advance:
            ours.sendall(b"".join(tasks))
        with open(os.devnull) as nothing:
            socket.send_fds(self.control, [b"a" if in_advance else b"x"], [nothing.fileno(), out[1], err[1], theirs.fileno()])
        theirs.close()
        os.close(out[1])
        os.close(err[1])
        self.control.recv(4)
        texts: dict[str, bytes] = {}
        readers = [threading.Thread(target=lambda: texts.update(out=read(out[0]))),
                   threading.Thread(target=lambda: texts.update(err=read(err[0])))]
        for reader in readers:
            reader.start()
        if in_advance:
            assert connection.receive() == (RESTED, b""), "it does not rest"
            ours.sendall(b"".join(tasks))
        frames = connection.all()
        for reader in readers:
            reader.join()
        ours.close()
        return Outcome(-1 if connection.code is None else connection.code, texts["out"], texts["err"], frames,
                       connection.displays)

    def close(self) -> tuple[bytes, bytes]:
        self.control.close()
        return self.process.communicate(timeout=60)


def read(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()
