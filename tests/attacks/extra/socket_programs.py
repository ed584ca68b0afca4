"""Socket options that give the kernel programs to run, which no control group is charged for and whose code takes from
what all sandboxes may have, and options that change the protocol or what the whole host does."""
import ctypes
import errno
import socket

from attack import HIGH, attempt, finish, syscall

SETSOCKOPT = 54
SOL_SOCKET, SOL_IP, SOL_TCP, SOL_UDP, SOL_IPV6 = 1, 0, 6, 17, 41
LENGTH = 4096  # the longest there may be
RETURN = (6).to_bytes(2, "little") + b"\0\0" + (0xFFFF).to_bytes(4, "little")


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


CODE = Program(LENGTH, RETURN * LENGTH)
NUMBER = (1).to_bytes(4, "little")
ADDRESS = bytes((239, 1, 1, 1, 127, 0, 0, 1))
OPTIONS = {"ATTACH_FILTER": (SOL_SOCKET, 26, CODE), "ATTACH_BPF": (SOL_SOCKET, 50, NUMBER),
           "ATTACH_REUSEPORT_CBPF": (SOL_SOCKET, 51, CODE), "ATTACH_REUSEPORT_EBPF": (SOL_SOCKET, 52, NUMBER),
           "TIMESTAMP": (SOL_SOCKET, 29, NUMBER), "TIMESTAMPING": (SOL_SOCKET, 37, NUMBER),
           "BUSY_POLL": (SOL_SOCKET, 46, NUMBER), "ZEROCOPY": (SOL_SOCKET, 60, NUMBER),
           "TCP_ULP": (SOL_TCP, 31, b"tls\0"), "TCP_CONGESTION": (SOL_TCP, 13, b"reno"),
           "UDP_ENCAP": (SOL_UDP, 100, NUMBER), "ADD_MEMBERSHIP": (SOL_IP, 35, ADDRESS),
           "IPT_SO_SET_REPLACE": (SOL_IP, 64, bytes(64)), "IP6T_SO_SET_REPLACE": (SOL_IPV6, 64, bytes(64))}


def go():
    found = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
            for name, (level, option, value) in OPTIONS.items():
                size = 16 if value is CODE else len(value)
                for upper in (0, HIGH):
                    one = socket.socket(family, kind)
                    result, error = syscall(SETSOCKOPT, one.fileno(), level | upper, option | upper, value, size)
                    if result == 0 or error != errno.EPERM:  # another errno: the kernel has looked at it
                        found.append("%s%s (errno %d)" % (name, "+upper" if upper else "", error))
                    one.close()
    return " ".join(dict.fromkeys(found))


finish(attempt(go))
