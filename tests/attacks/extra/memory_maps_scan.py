"""Reads its whole address space, which it has from the zygote, region by region for the planted secrets."""
import ctypes
import os

from attack import finish

TOKENS = [b"-".join((b"CANARY", b"7f3a91")), b"".join((b"HUTCH_FAKE", b"_API_KEY")), b"".join((b"ATTACK_", b"CANARY="))]


def scan(start, size):
    """In a child: a page that cannot be read kills only that."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        found = b""
        for at in range(start, start + size, 4 << 20):
            piece = ctypes.string_at(at, min((4 << 20) + 64, start + size - at))
            for token in TOKENS:
                if token in piece and bytes(token) + b"-" in piece or token == TOKENS[1] and token in piece:
                    found = token
        os.write(writer, found or b"-")
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 100)
    os.close(reader)
    os.waitpid(child, 0)
    return answer not in (b"", b"-")


evidence = []
for line in open("/proc/self/maps"):
    span, rights, *_, = line.split()
    first, last = (int(part, 16) for part in span.split("-"))
    if rights[0] == "r" and "[vvar" not in line and "[vsyscall" not in line and scan(first, last - first):
        evidence.append(line.strip())
finish(evidence and "a secret in " + evidence[0])
