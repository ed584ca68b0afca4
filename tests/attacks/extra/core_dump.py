"""Crashes with every core limit that can be asked for: the kernel must not write or pipe a core of this process."""
import ctypes
import glob
import os
import resource
import signal

from attack import LIBC, finish


def crash(limit, dumpable):
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, limit)
        except (OSError, ValueError):
            pass
        if dumpable:
            LIBC.prctl(4, 1, 0, 0, 0)
            try:
                open("/proc/self/coredump_filter", "w").write("0x7f")
            except OSError:
                pass
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        ctypes.string_at(8)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WCOREDUMP(status)


INFINITY = resource.RLIM_INFINITY
found = [(limit, dumpable) for limit in ((INFINITY, INFINITY), (1 << 20, 1 << 20), (1, 1), (0, 0), (0, 1))
         for dumpable in (0, 1) if crash(limit, dumpable)]
files = [path for place in ("/workspace", "/tmp") for name in ("core", "core.[0-9]*")
         for path in glob.glob(place + "/" + name)]
finish(("the kernel dumped core with %s" % (found,)) if found else ("core files %s" % files) if files else "")
