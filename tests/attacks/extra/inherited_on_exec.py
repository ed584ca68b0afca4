"""Descriptors that a program started by this one finds: the control socket must not be among them, nor anything new."""
import subprocess

from attack import attempt, finish


def go():
    listing = subprocess.run(["/bin/ls", "-l", "/proc/self/fd"], close_fds=False, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL).stdout.decode()
    code = "import os\nfor f in range(3, 256):\n try: s = os.fstat(f); print(f, oct(s.st_mode))\n except OSError: pass"
    python = subprocess.run(["/usr/bin/env", "python3", "-c", code], close_fds=False, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout.decode()
    found = [line for line in listing.splitlines() if "socket:" in line or "seccomp" in line or "/ns/" in line]
    found += [line for line in python.splitlines() if line.split()[1].startswith("0o14")]
    return "; ".join(found)


finish(attempt(go))
