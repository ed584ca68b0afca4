"""memfd_create in the one form that is allowed, filled without being mapped, in several processes."""
import os
import time

from attack import done, syscall

for _ in range(8):
    if os.fork() == 0:
        piece, kept = b"x" * (1 << 20), []
        try:
            while len(kept) < 40:
                fd, _ = syscall(319, b"x", 8)
                if fd < 0:
                    break
                kept.append(fd)
                for _ in range(60):
                    os.write(fd, piece)
        except OSError:
            pass
        time.sleep(3)
        os._exit(0)
time.sleep(3)
done()
