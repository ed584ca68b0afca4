"""Executes code that the program wrote itself: a copied binary, a library, a script through the loader, hard links of
/usr files and files renamed across the scratch places."""
import ctypes
import os
import shutil
import subprocess

from attack import attempt, finish

PLACES = ("/workspace", "/tmp", "/dev/shm")


def runs(*command):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=5).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def go():
    found = []
    loader = next((path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
                   if os.path.exists(path)), None)
    library = next(line.split()[-1] for line in open("/proc/self/maps") if "/libc" in line and ".so" in line)
    for place in PLACES:
        copy = place + "/copy"
        shutil.copyfile("/usr/bin/true", copy)
        os.chmod(copy, 0o755)
        if runs(copy):
            found.append("execve " + copy)
        if loader and runs(loader, copy):
            found.append("loader " + copy)
        shutil.copyfile(library, place + "/lib.so")
        try:
            ctypes.CDLL(place + "/lib.so")
            found.append("dlopen " + place)
        except OSError:
            pass
        for source in ("/usr/bin/true", "/etc/passwd", "/opt/hutch/runner/hutch_runner/main.py"):
            try:
                os.link(source, place + "/linked")
                found.append("hard link of %s into %s" % (source, place))
            except OSError:
                pass
    for origin in PLACES:
        for target in ("/usr/bin/x", "/etc/x", "/opt/hutch/x", "/proc/x", "/dev/x", "/x", "/var/tmp/x"):
            for operation in (os.rename, os.link, os.symlink):
                try:
                    operation(origin + "/copy", target)
                    found.append("%s to %s" % (operation.__name__, target))
                except OSError:
                    pass
    return "; ".join(found)


finish(attempt(go, 30))
