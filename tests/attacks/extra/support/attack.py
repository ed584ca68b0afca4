"""What the programs in tests/attacks/extra share. run.py puts this file into their workspace."""
import ctypes
import errno
import os
import select
import signal
import sys
import time

NAME = os.path.basename(sys.argv[0])[:-3]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
MAP_FAILED = ctypes.c_void_p(-1).value
HIGH = 1 << 32  # a bit that a filter which compares 64 bits sees, and the kernel does not


def syscall(number, *arguments):
    """A raw system call: (return value, errno)."""
    converted = []
    for argument in arguments:
        if argument is None:
            converted.append(ctypes.c_void_p(0))
        elif isinstance(argument, int):
            converted.append(ctypes.c_long(argument))
        elif isinstance(argument, bytes):
            converted.append(ctypes.c_char_p(argument))
        else:
            converted.append(ctypes.byref(argument))
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *converted)
    return result, ctypes.get_errno()


def refused(number):
    """True when the call, by its errno, never got past the filter."""
    return number in (errno.EPERM, errno.ENOSYS, errno.EACCES)


def set_name(name):
    """So that the harness finds this process on the host."""
    LIBC.prctl(15, name.encode(), 0, 0, 0)


def attempt(function, seconds=15):
    """function() in a child; a truthy answer is evidence, anything else (exception, signal, hang) is a refusal."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            evidence, why = function() or "", "refused"
        except BaseException as error:
            evidence, why = "", "%s: %s" % (type(error).__name__, error)
        os.write(writer, (("E" + str(evidence)) if evidence else ("B" + why)).encode()[:400])
        os._exit(0)
    os.close(writer)
    answer = b""
    if select.select([reader], [], [], seconds)[0]:
        answer = os.read(reader, 1024)
    try:
        os.kill(child, signal.SIGKILL)
    except OSError:
        pass
    status = os.waitpid(child, 0)[1]
    os.close(reader)
    if not answer and os.WIFSIGNALED(status):
        answer = b"Bkilled by signal %d" % os.WTERMSIG(status)
    text = answer[1:].decode("utf-8", "replace")
    if answer[:1] == b"E":
        return text
    print("info:", text, flush=True)
    return ""


def finish(evidence):
    if evidence:
        print("ESCAPED %s %s" % (NAME, " ".join(str(evidence).split())[:300]), flush=True)
    else:
        print("BLOCKED %s" % NAME, flush=True)


def done(what=""):
    """For programs judged from outside: it got this far."""
    print("DONE %s %s" % (NAME, what), flush=True)


def until(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
