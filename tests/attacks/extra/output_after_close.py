"""A child keeps the output open after the program's end, ignores everything and goes on writing."""
import os
import signal
import time

from attack import done, set_name

if os.fork() == 0:
    set_name("atk-after")
    os.setsid()
    for number in range(1, 32):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        try:
            os.write(1, b"LATE-FORGED\n")
        except OSError:
            pass
        time.sleep(0.02)
done()
os._exit(0)
