"""Anonymous files: made executable, executed through /proc, or mapped executable after their content was written. The
last is native code of one's own choice, around W^X."""
import ctypes
import mmap
import os

from attack import LIBC, MAP_FAILED, attempt, finish, syscall

MEMFD_CREATE, EXECVEAT = 319, 322
RETURN_42 = {"x86_64": b"\xb8\x2a\x00\x00\x00\xc3", "aarch64": b"\x40\x05\x80\x52\xc0\x03\x5f\xd6"}[os.uname().machine]


def go():
    found = []
    for flags in (0, 1, 2, 3, 8, 9, 0xA, 0x10, 0x18):
        fd, _ = syscall(MEMFD_CREATE, b"x", flags)
        if fd < 0:
            continue
        if not flags & 8:
            found.append("memfd_create(%#x)" % flags)
        os.write(fd, RETURN_42)
        try:
            os.fchmod(fd, 0o755)
            if os.fstat(fd).st_mode & 0o111:
                found.append("chmod +x with flags %#x" % flags)
        except OSError:
            pass
        for sharing in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            place = LIBC.mmap(None, 4096, mmap.PROT_READ | mmap.PROT_EXEC, sharing, fd, 0)
            if place not in (None, MAP_FAILED):
                answer = ctypes.CFUNCTYPE(ctypes.c_int)(place)()
                found.append("native code from a memfd (%#x) returned %d" % (flags, answer))
        script, _ = syscall(MEMFD_CREATE, b"x", flags)
        os.write(script, open("/usr/bin/true", "rb").read())
        child = os.fork()
        if child == 0:
            try:
                os.execve("/proc/self/fd/%d" % script, ["x"], {})
            except OSError:
                pass
            syscall(EXECVEAT, script, b"", None, None, 0x1000)
            os._exit(99)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            found.append("executed a memfd (%#x)" % flags)
        os.close(fd)
    return "; ".join(dict.fromkeys(found))


finish(attempt(go))
