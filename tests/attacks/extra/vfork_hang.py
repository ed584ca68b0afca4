"""The parent sleeps inside vfork, where only a fatal signal reaches it, and the child never comes back."""
import os
import signal

from attack import set_name, syscall

set_name("atk-vfork")
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("hanging", flush=True)
CLONE_VFORK, SIGCHLD = 0x4000, 17
if os.fork() == 0:
    os.posix_spawn("/bin/sleep", ["atk-vfork", "1000"], {})
    syscall(34)
child, _ = syscall(56, CLONE_VFORK | SIGCHLD, None, None, None, None)
if child == 0:
    while True:
        syscall(34)  # pause
