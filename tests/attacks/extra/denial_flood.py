"""Forbidden calls that are announced to the engine, from many processes, without pause."""
import os

from attack import done, set_name, syscall, until

set_name("atk-denial")
for _ in range(7):
    if os.fork() == 0:
        break
count = 0
for _ in until(2):
    syscall(101, 0, 0, 0, 0)  # ptrace
    count += 1
done("%d" % count)
