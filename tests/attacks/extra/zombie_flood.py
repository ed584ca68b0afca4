"""Children that are never waited for, and orphans that init must reap, as fast as they can be made."""
import os

from attack import done, set_name, until

set_name("atk-zombie")
made = 0
for _ in until(2):
    try:
        child = os.fork()
    except OSError:
        continue
    if child == 0:
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError:
            pass
        os._exit(0)
    made += 1
done("%d" % made)
