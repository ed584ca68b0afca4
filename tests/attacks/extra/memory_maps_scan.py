"""Reads its whole address space, which it has from the zygote, region by region for the planted secrets."""
import ctypes
import os

from attack import finish

TOKEN = b"-".join((b"CANARY", b"7f3a91"))  # alone it is this program's own; with -env or -apikey it is the host's
STEP = 4 << 20


def regions():
    with open("/proc/self/maps") as file:
        for line in file:
            span, rights = line.split()[:2]
            if rights[0] == "r" and "[vvar" not in line and "[vsyscall" not in line:
                first, last = (int(part, 16) for part in span.split("-"))
                yield first, last - first, line.strip()


def contains_secret(piece):
    at = piece.find(TOKEN)
    while at >= 0:
        rest = piece[at + len(TOKEN):at + len(TOKEN) + 4]
        if len(rest) == 4 and rest[0] == 45 and rest[1:] in (b"env", b"api"):
            return True
        at = piece.find(TOKEN, at + 1)
    return False


def scan_from(number, places):
    """In a child: a page that cannot be read kills only that. (regions done, what was found)"""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        for index in range(number, len(places)):
            start, size, line = places[index]
            found = any(contains_secret(ctypes.string_at(at, min(STEP + 64, start + size - at)))
                        for at in range(start, start + size, STEP))
            os.write(writer, (line if found else "").encode() + b"\n")
        os._exit(0)
    os.close(writer)
    answer = b""
    while piece := os.read(reader, 65536):
        answer += piece
    os.close(reader)
    os.waitpid(child, 0)
    lines = answer.decode().splitlines()
    return len(lines), list(filter(None, lines))


places, evidence, at = list(regions()), [], 0
while at < len(places):
    finished, found = scan_from(at, places)
    evidence += found
    at += finished if at + finished >= len(places) else finished + 1
print("info: %d regions, %d MiB" % (len(places), sum(size for _, size, _ in places) >> 20))
finish(evidence and "a secret in " + evidence[0])
