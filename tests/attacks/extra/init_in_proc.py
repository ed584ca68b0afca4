"""What /proc tells about pid 1 and the threads of others: memory, environment, descriptors, root, and whether they can
be used as a way out."""
import os

from attack import attempt, finish

SECRETS = ("environ", "maps", "smaps", "mem", "auxv", "stack", "syscall", "pagemap", "numa_maps", "personality",
           "timerslack_ns", "cwd", "root", "exe", "map_files", "fd", "fdinfo", "ns/mnt", "ns/user", "task/1/environ",
           "task/1/mem", "task/1/root")


def reads(path):
    try:
        return bool(os.readlink(path))
    except OSError:
        pass
    try:
        return bool(os.listdir(path))
    except OSError:
        pass
    try:
        with open(path, "rb") as file:
            return bool(file.read(64))
    except OSError:
        return False


def go():
    found = [name for name in SECRETS if reads("/proc/1/" + name)]
    for path in ("/proc/1/root/etc/shadow", "/proc/1/cwd/etc/shadow", "/proc/1/fd/0", "/proc/1/root/tmp/attack-canary"):
        try:
            os.close(os.open(path, os.O_RDONLY))
            found.append(path)
        except OSError:
            pass
    others = [name for name in os.listdir("/proc") if not (name.isdigit() or name in ("self", "thread-self"))]
    if others:
        found.append("more than processes in /proc: " + " ".join(others[:5]))
    try:
        line = open("/proc/1/cmdline", "rb").read()
        print("info: cmdline of init", line[:80], flush=True)
    except OSError:
        pass
    return " ".join(found)


finish(attempt(go))
