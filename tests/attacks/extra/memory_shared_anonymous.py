"""Shared anonymous memory: it is nobody's own, so adding up what processes own misses it."""
import mmap
import os
import time

from attack import done

for _ in range(20):
    if os.fork() == 0:
        try:
            area = mmap.mmap(-1, 128 << 20)
            for at in range(0, len(area), 1 << 20):
                area[at:at + (1 << 20)] = b"x" * (1 << 20)
        except (OSError, ValueError, MemoryError):
            pass
        time.sleep(3)
        os._exit(0)
time.sleep(3)
done()
