"""Single bytes, stdout and stderr in turn, each waited for: one event per byte for whoever keeps events."""
import os
import time

from attack import until

for _ in until(3):
    os.write(1, b"o")
    os.write(2, b"e")
    time.sleep(0)
