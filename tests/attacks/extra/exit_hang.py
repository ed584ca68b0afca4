"""The program ends, and its end does not: atexit, finalizers, threads, flushes that never return."""
import atexit
import sys
import threading
import time

from attack import set_name

set_name("atk-exit")


class Stubborn:
    def __del__(self):
        while True:
            time.sleep(1)

    def flush(self):
        while True:
            time.sleep(1)

    write = fileno = closed = flush


def hang():
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass


atexit.register(hang)
threading.Thread(target=hang).start()
keep = Stubborn()
print("ending", flush=True)
sys.stdout = keep
