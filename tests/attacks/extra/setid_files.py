"""Set-id bits by every road: O_TMPFILE and linkat, mkdir, mknod, fchmodat2, upper bits, file handles of copies."""
import os
import stat

from attack import HIGH, attempt, finish, syscall

SETID = stat.S_ISUID | stat.S_ISGID
AT_FDCWD = -100


def go():
    found = []
    roads = {
        "open": lambda: os.open("a1", os.O_CREAT | os.O_WRONLY, 0o6755),
        "open with upper bits": lambda: syscall(257, AT_FDCWD, b"a2", os.O_CREAT | os.O_WRONLY, 0o6755 | HIGH),
        "creat": lambda: syscall(85, b"a3", 0o6755),
        "mkdir": lambda: os.mkdir("a4", 0o2755),
        "mkdir raw": lambda: syscall(83, b"a5", 0o6755),
        "mknod": lambda: os.mknod("a6", stat.S_IFREG | 0o6755),
        "chmod": lambda: (open("a7", "w"), os.chmod("a7", 0o6755)),
        "fchmod": lambda: os.fchmod(os.open("a8", os.O_CREAT | os.O_WRONLY), 0o6755),
        "fchmodat2": lambda: (open("a9", "w"), syscall(452, AT_FDCWD, b"a9", 0o6755, 0)),
        "chmod with upper bits": lambda: (open("b1", "w"), syscall(90, b"b1", 0o6755 | HIGH)),
        "fchmodat with upper bits": lambda: (open("b2", "w"), syscall(268, AT_FDCWD, b"b2", 0o6755 | HIGH)),
        "openat2": lambda: syscall(437, AT_FDCWD, b"b3", (0o101).to_bytes(8, "little") + (0o6755).to_bytes(8, "little")
                                   + bytes(8), 24),
    }
    for name, road in roads.items():
        try:
            road()
        except OSError:
            pass
    for flags in (os.O_TMPFILE | os.O_RDWR,):
        for mode in (0o6755, 0o755):
            try:
                fd = os.open("/workspace", flags, mode)
                try:
                    os.fchmod(fd, 0o6755)
                except OSError:
                    pass
                os.link("/proc/self/fd/%d" % fd, "t%o" % mode, follow_symlinks=True)
            except OSError:
                pass
    for directory in ("/workspace", "/tmp", "/dev/shm"):
        for name in os.listdir(directory):
            if os.lstat(os.path.join(directory, name)).st_mode & SETID:
                found.append(name)
    return found and "set-id bits on " + " ".join(found)


finish(attempt(go))
