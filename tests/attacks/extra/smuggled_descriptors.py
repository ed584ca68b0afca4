"""Sends descriptors over the control socket: its own root, its streams, the socket itself, a hundred at a time,
together with frames and without. The engine must have none of them afterwards."""
import array
import os
import socket

from attack import done

sent = 0
control = socket.socket(fileno=os.dup(3))
control.setblocking(False)
root = os.open("/workspace", os.O_RDONLY)
frame = (2).to_bytes(4, "little") + bytes((66, 0))
for count in (1, 2, 32, 33, 100, 253):
    for fds in ([root] * count, [1] * count, [3] * count, [control.fileno()] * count):
        for payload in (b"x", frame, b"\x01\0\0\0\x42"):
            try:
                control.sendmsg([payload], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
                sent += count
            except OSError:
                pass
done("%d sent" % sent)
raise SystemExit(3)
