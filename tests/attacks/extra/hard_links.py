"""One large file under a thousand names, and names that swap with links: counted once inside, a thousand times outside."""
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
