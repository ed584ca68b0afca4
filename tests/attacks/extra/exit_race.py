"""Leaves while its children multiply: whoever is forked while the sandbox is being killed must die too."""
import os

from attack import set_name

set_name("atk-race")
for _ in range(20):
    try:
        if os.fork() == 0:
            os.setsid()
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
    except OSError:
        break
os._exit(0)
