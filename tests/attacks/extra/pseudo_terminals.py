"""Pseudo terminals: one shared kernel-wide pool, a terminal layer full of ioctls. There must be none to open."""
import os
import pty

from attack import attempt, finish


def go():
    count = 0
    try:
        while count < 100:
            pty.openpty()
            count += 1
    except OSError as error:
        print("info:", error, flush=True)
    paths = [path for path in ("/dev/ptmx", "/dev/pts", "/dev/tty", "/dev/console") if os.path.exists(path)]
    return (count and "%d pseudo terminals" % count) or (paths and " ".join(paths))


finish(attempt(go))
