"""Run twice at the same time: each instance offers a token on abstract sockets, loopback ports, multicast, shared names
and looks for the other's."""
import os
import socket
import threading
import time

from attack import finish

MINE = os.urandom(8).hex()
SEEN = set()
NAMES = ("\0hutch-meet", "/tmp/meet.sock", "/dev/shm/meet.sock", "/workspace/meet.sock", "/var/tmp/meet.sock")


def serve(listener):
    while True:
        try:
            peer, _ = listener.accept()
            peer.sendall(MINE.encode())
            peer.close()
        except OSError:
            return


def listen(family, address):
    try:
        listener = socket.socket(family)
        listener.bind(address)
        listener.listen(8)
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
    except OSError:
        pass


def ask(family, address):
    try:
        with socket.socket(family) as peer:
            peer.settimeout(0.2)
            peer.connect(address)
            SEEN.add(peer.recv(64).decode("ascii", "replace"))
    except OSError:
        pass


for name in NAMES:
    listen(socket.AF_UNIX, name)
listen(socket.AF_INET, ("127.0.0.1", 47923))
listen(socket.AF_INET6, ("::1", 47923))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    udp.bind(("0.0.0.0", 47924))
except OSError:
    pass
udp.settimeout(0.05)
for place in ("/tmp", "/dev/shm", "/workspace"):
    with open(place + "/meet-" + MINE, "w") as file:
        file.write(MINE)
end = time.monotonic() + 2
while time.monotonic() < end:
    for name in NAMES:
        ask(socket.AF_UNIX, name)
    ask(socket.AF_INET, ("127.0.0.1", 47923))
    ask(socket.AF_INET6, ("::1", 47923))
    try:
        udp.sendto(MINE.encode(), ("127.0.0.1", 47924))
        SEEN.add(udp.recv(64).decode("ascii", "replace"))
    except OSError:
        pass
    for place in ("/tmp", "/dev/shm", "/workspace"):
        SEEN.update(name[5:] for name in os.listdir(place) if name.startswith("meet-"))
others = SEEN - {MINE, ""}
finish(others and "met %s" % others)
