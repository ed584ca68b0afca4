"""Closes every descriptor, puts files and pipes in their places, writes where the engine listens, then fails."""
import os

for fd in range(64):
    try:
        os.close(fd)
    except OSError:
        pass
for fd in range(4):
    os.open("/workspace/in-place-of-%d" % fd, os.O_CREAT | os.O_RDWR)
os.write(3, b"\xff" * 4096)
os.write(1, b"this is a file now\n")
raise SystemExit(7)
