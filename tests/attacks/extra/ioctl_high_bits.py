"""Terminal and file ioctls off the list, plain and with upper bits set, on every descriptor and device."""
import ctypes
import os
import socket

from attack import HIGH, attempt, finish, syscall

IOCTL = 16
COMMANDS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCSCTTY": 0x540E, "FIOASYNC": 0x5452, "TIOCSETD": 0x5423,
            "TIOCNOTTY": 0x5422, "FS_IOC_GETFLAGS": 0x80086601, "FIONREAD+1": 0x541C, "SIOCGIFCONF": 0x8912,
            "SIOCETHTOOL": 0x8946, "FS_IOC_FIEMAP": 0xC020660B, "FIDEDUPERANGE": 0xC0189436}


def go():
    descriptors = [0, 1, 2, 3, *os.pipe(), os.open("/dev/null", os.O_RDWR),
                   os.open("/workspace", os.O_RDONLY), os.open("/workspace/f", os.O_CREAT | os.O_RDWR)]
    keep = socket.socket()
    descriptors.append(keep.fileno())
    for name, command in COMMANDS.items():
        for fd in descriptors:
            for upper in (0, HIGH, 0xFFFFFFFF << 32):
                space = ctypes.create_string_buffer(256)
                result, _ = syscall(IOCTL, fd, command | upper, space)
                if result >= 0:
                    return "ioctl %s (%#x) works on descriptor %d" % (name, command | upper, fd)
    for path in ("/dev/tty", "/dev/console", "/dev/ptmx", "/dev/pts/ptmx", "/dev/kvm", "/dev/fuse", "/dev/net/tun"):
        try:
            return "opened %s as %d" % (path, os.open(path, os.O_RDWR))
        except OSError:
            pass


finish(attempt(go))
