"""Every other way to memory that was written and can be executed: mmap, mprotect, mremap, private file mappings,
/dev/zero, shared memory, /proc/self/mem."""
import ctypes
import mmap
import os

from attack import LIBC, MAP_FAILED, HIGH, attempt, finish, syscall

READ, WRITE, EXECUTE = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC
PRIVATE, SHARED, ANONYMOUS = mmap.MAP_PRIVATE, mmap.MAP_SHARED, mmap.MAP_ANONYMOUS
MPROTECT, PKEY_MPROTECT, MMAP = 10, 329, 9


def good(place):
    return place not in (None, MAP_FAILED)


def go():
    found = []
    for how, flags in (("private", PRIVATE), ("shared", SHARED)):
        for what, protection in (("WX", WRITE | EXECUTE), ("RWX", READ | WRITE | EXECUTE), ("RX", READ | EXECUTE)):
            if good(LIBC.mmap(None, 4096, protection, flags | ANONYMOUS, -1, 0)):
                found.append("anonymous %s %s" % (how, what))
    if syscall(MMAP, 0, 4096, (READ | WRITE | EXECUTE) | HIGH, PRIVATE | ANONYMOUS, -1, 0)[0] > 0:
        found.append("RWX with upper bits")
    plain = LIBC.mmap(None, 4096, READ | WRITE, PRIVATE | ANONYMOUS, -1, 0)
    for name, number in (("mprotect", MPROTECT), ("pkey_mprotect", PKEY_MPROTECT)):
        for upper in (0, HIGH):
            if syscall(number, plain, 4096, READ | EXECUTE | upper, -1)[0] == 0:
                found.append(name)
    for path in ("/dev/zero", "/dev/shm/x", "/tmp/x", "/workspace/x"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o700)
        if path != "/dev/zero":
            os.write(fd, b"\xc3" * 4096)
        for flags in (PRIVATE, SHARED):
            if good(LIBC.mmap(None, 4096, READ | EXECUTE, flags, fd, 0)):
                found.append("executable mapping of " + path)
    library = os.open(next(line.split()[-1] for line in open("/proc/self/maps") if "/libc" in line), os.O_RDONLY)
    if good(LIBC.mmap(None, 4096, READ | WRITE | EXECUTE, PRIVATE, library, 0)):
        found.append("writable code from a library")
    code = LIBC.mmap(None, 4096, READ | EXECUTE, PRIVATE, library, 0)
    if good(code):
        try:
            with open("/proc/self/mem", "r+b", 0) as memory:
                memory.seek(code)
                memory.write(b"\xc3")
                found.append("/proc/self/mem writes to code")
        except OSError:
            pass
        if syscall(MPROTECT, code, 4096, READ | WRITE)[0] == 0:
            ctypes.memset(code, 0xC3, 16)
            if syscall(MPROTECT, code, 4096, READ | EXECUTE)[0] == 0:
                found.append("patched library code")
    return "; ".join(found)


finish(attempt(go))
