"""Writes to its own /proc files: identity maps, OOM score, core filter, security attributes, memory, sysctls."""
import os

from attack import attempt, finish

WRITES = {"oom_score_adj": "-1000", "oom_adj": "-17", "uid_map": "0 0 1", "gid_map": "0 0 1", "setgroups": "allow",
          "projid_map": "0 0 1", "loginuid": "0", "attr/current": "x", "attr/exec": "x", "coredump_filter": "7f",
          "timerslack_ns": "1", "clear_refs": "4", "autogroup": "-20", "sched": "0", "timens_offsets": "boottime 1 0",
          "comm": "hutch-engine", "make-it-fail": "1"}


def go():
    found = []
    for name, text in WRITES.items():
        for process in ("self", "1", str(os.getppid())):
            try:
                fd = os.open("/proc/%s/%s" % (process, name), os.O_WRONLY)
                os.write(fd, text.encode())
                found.append("%s/%s" % (process, name))
            except OSError:
                pass
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger",
                 "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/transparent_hugepage/enabled"):
        try:
            os.close(os.open(path, os.O_WRONLY))
            found.append(path)
        except OSError:
            pass
    return " ".join(found)


finish(attempt(go))
