"""What others do with the files that all sandboxes share: notices of their accesses, leases, and what they have left in
the page cache."""
import errno
import os
import signal

from attack import HIGH, attempt, finish, syscall

FCNTL, FADVISE64 = 72, 221
F_SETSIG, F_SETOWN, F_NOTIFY, F_SETLEASE = 10, 8, 1026, 1024
DN_ACCESS = 1
RWF_NOWAIT, RWF_DONTCACHE = 8, 0x80
DONTNEED = 4
LIBRARY = os.path.dirname(os.__file__)


def go():
    found = []
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    directory = os.open(LIBRARY, os.O_RDONLY | os.O_DIRECTORY)
    file = os.open(os.__file__, os.O_RDONLY)
    own = os.open("leased", os.O_RDONLY | os.O_CREAT, 0o600)
    commands = {"F_NOTIFY": (directory, F_NOTIFY, DN_ACCESS), "F_SETLEASE of one's own": (own, F_SETLEASE, 0),
                "F_SETLEASE": (file, F_SETLEASE, 0), "F_SETSIG": (file, F_SETSIG, 34),
                "F_SETOWN": (file, F_SETOWN, os.getpid())}
    buffer = bytearray(4096)
    for upper in (0, HIGH):
        for name, (fd, command, value) in commands.items():
            result, error = syscall(FCNTL, fd, command | upper, value)
            if result >= 0 or error != errno.EPERM:
                found.append("%s (errno %d)" % (name, error))
        if syscall(FADVISE64, file, 0, 0, DONTNEED | upper)[0] == 0:
            found.append("FADV_DONTNEED")
    for name, flag in (("RWF_NOWAIT", RWF_NOWAIT), ("RWF_DONTCACHE", RWF_DONTCACHE)):
        try:
            found.append("%s read %d" % (name, os.preadv(file, [buffer], 0, flag)))
        except BlockingIOError:
            found.append(name + ": not in the cache")
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                found.append("%s (errno %d)" % (name, error.errno))
    return " ".join(dict.fromkeys(found))


finish(attempt(go))
