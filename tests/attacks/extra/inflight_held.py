"""Keeps as many descriptors in flight as one process may. Where sandboxes share the user's one id they share this
count, and the next sandbox must still be able to start."""
import array
import socket
import time

from attack import done

held, sent = [], 0
try:
    while len(held) < 400:
        left, right = socket.socketpair()
        left.setblocking(False)
        held.append((left, right))
        left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [left.fileno()] * 100))])
        sent += 100
except OSError as error:
    print("info:", error, flush=True)
time.sleep(2)
done("%d in flight" % sent)
