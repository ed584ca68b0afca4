"""prctl options that change what the process is to the kernel: dumpable, memory map fields, speculation, seccomp,
system call dispatch, ambient capabilities, core scheduling, machine checks."""
import os

from attack import HIGH, attempt, finish, syscall

PRCTL = 157
OPTIONS = {"SET_DUMPABLE": (4, 1), "SET_KEEPCAPS": (8, 1), "SET_MM brk": (35, 7, 0x10000),
           "SET_SECCOMP strict": (22, 1),
           "SET_SECUREBITS": (28, 0), "CAPBSET_DROP": (24, 0), "SET_PTRACER": (0x59616D61, 0xFFFFFFFF),
           "SET_CHILD_SUBREAPER": (36, 1), "CAP_AMBIENT_RAISE": (47, 2, 21), "SPEC_CTRL": (53, 0, 2),
           "SYSCALL_USER_DISPATCH": (59, 1, 0, 0, 0), "SCHED_CORE": (62, 1, 0, 0, 0), "IO_FLUSHER": (57, 1),
           "MCE_KILL": (33, 1, 1), "SET_THP_DISABLE": (41, 1), "TASK_PERF_EVENTS_DISABLE": (31,), "SET_TSC": (26, 2),
           "SET_FP_MODE": (45, 0), "MDWE": (65, 1), "SET_MEMORY_MERGE": (67, 1), "SET_TIMING": (14, 0)}
HARMLESS = {"MDWE"}  # gives something up, and only that


def go():
    found = []
    for name, arguments in OPTIONS.items():
        padded = (*arguments, 0, 0, 0, 0)[:5]
        for upper in (0, HIGH):
            child = os.fork()
            if child == 0:
                os._exit(1 if syscall(PRCTL, padded[0] | upper, *padded[1:])[0] >= 0 else 0)
            status = os.waitpid(child, 0)[1]
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1 and name not in HARMLESS:
                found.append(name + ("+upper" if upper else ""))
    return " ".join(found)


finish(attempt(go))
