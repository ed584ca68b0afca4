"""How long the runner's own Python takes: `python3 runner/tests/measure.py`. Medians; run it on a quiet machine."""
from __future__ import annotations

import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from support import COLD, open_shell, run_cell, run_script
from zygote_support import Zygote

SINCE_FORK = "import time, _hutch_zygote; print(time.perf_counter_ns() - _hutch_zygote.returned_ns)"


def main() -> None:
    with tempfile.TemporaryDirectory() as workspace:
        zygote = Zygote(workspace, ("json",))
        for _ in range(20):
            zygote.run(run_script("print(1)"))
        report("forked child, serve() returns to user code", [int(zygote.run(run_script(SINCE_FORK)).out) / 1e3
                                                              for _ in range(300)])
        report("forked child, whole run as the keeper sees it", [timed(lambda: zygote.run(run_script("print(1)")))
                                                                 for _ in range(300)])
        zygote.close()
        bare = [sys.executable, "-I", "-X", "utf8", "-c", "print(1)"]
        plain, cold = [], []
        for _ in range(150):  # taking turns: the machine's mood then affects both
            plain.append(timed(lambda: subprocess.run(bare, stdout=subprocess.DEVNULL)))
            cold.append(timed(lambda: cold_run(workspace)))
        report("python3 -I -c 'print(1)'", plain)
        report("cold runner, print(1)", cold)
        print("cold runner over bare python3: %.0f µs" % (statistics.median(cold) - statistics.median(plain)))
        report("one more cell", cells(workspace))


def timed(work) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e6


def start(workspace: str) -> tuple[socket.socket, subprocess.Popen]:
    ours, theirs = socket.socketpair()
    descriptor = theirs.fileno()
    command = ["/bin/sh", "-c", f'exec "$@" 3<&{descriptor}', "sh", *COLD]
    process = subprocess.Popen(command, pass_fds=(descriptor,), stdout=subprocess.DEVNULL, cwd=workspace,
                               env={**os.environ, "HUTCH_WORKSPACE": workspace})
    theirs.close()
    return ours, process


def cold_run(workspace: str) -> None:
    ours, process = start(workspace)
    with ours:
        ours.sendall(run_script("print(1)"))
        assert len(ours.recv(64)) > 0
        ours.shutdown(socket.SHUT_WR)
        process.wait()


def cells(workspace: str) -> list[float]:
    ours, process = start(workspace)
    with ours:
        ours.sendall(open_shell() + run_cell("x = 0"))
        wait_for_cell(ours)

        def one() -> None:
            ours.sendall(run_cell("x += 1"))
            wait_for_cell(ours)

        times = [timed(one) for _ in range(1000)]
        ours.shutdown(socket.SHUT_WR)
        process.wait()
    return times


def wait_for_cell(ours: socket.socket) -> None:
    """What changed may be told before it."""
    said = b""
    while said[-11:-4] != struct.pack("<IBBB", 7, 68, 0, 0):
        piece = ours.recv(4096)
        assert piece, "the runner ended"
        said += piece


def report(what: str, times: list[float]) -> None:
    times.sort()
    print("%-46s p50 %7.0f µs   p95 %7.0f µs" % (what, statistics.median(times), times[int(len(times) * 0.95)]))


if __name__ == "__main__":
    main()
