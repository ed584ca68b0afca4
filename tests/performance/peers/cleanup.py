"""Leaves nothing behind: orphans are adopted and reaped, mounts taken away, the scratch directory removed."""
from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 5.0  # seconds for orphans to end by themselves


def become_subreaper() -> None:
    """Whatever a peer leaves running becomes a child of this process, however detached."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def reap(seconds: float) -> bool:
    """Whether all children are gone."""
    end = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
        return False
    return True


def children() -> list[int]:
    path = pathlib.Path("/proc/self/task/%d/children" % os.getpid())
    return [int(pid) for pid in path.read_text(encoding="ascii").split()]


def unmount_beneath(directory: pathlib.Path) -> None:
    with open("/proc/self/mounts", encoding="utf-8") as file:
        points = [line.split()[1] for line in file]
    for point in reversed(points):
        if pathlib.Path(point).is_relative_to(directory):
            subprocess.run(["umount", "--lazy", point], check=False)


def remove_everything(scratch: pathlib.Path) -> None:
    if not reap(PATIENCE):
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        reap(PATIENCE)
    unmount_beneath(scratch)
    shutil.rmtree(scratch, ignore_errors=True)
