"""Well-formed frames that only set-up or the runner may send: ready, setup_failed, started, cell_done, and an error of
the largest size, of another name, many times. The exit code and the status stay the kernel's."""
import os

from attack import done


def text(value):
    return len(value).to_bytes(4, "little") + value


def frame(kind, payload):
    return (len(payload) + 1).to_bytes(4, "little") + bytes((kind,)) + payload


def number(value):
    return value.to_bytes(4, "little", signed=True)


big = b"FORGED" * 40_000
error = (text(b"FORGED") + text(big) + text(b"") + number(-1) + number(2**31 - 1) + number(-5) + text(b"\x1b[2Jx\0")
         + (3).to_bytes(4, "little") + text(big) + text(b"\xff\xfe") + text(b""))
os.set_blocking(3, False)
for payload in (frame(64, (0).to_bytes(4, "little")), frame(64, (1000).to_bytes(4, "little") + bytes(8000)),
                frame(65, bytes((4,)) + bytes(4)), frame(66, b""), frame(68, b"\0"), frame(68, b"\x09"),
                *[frame(67, error)] * 20):
    try:
        while payload:
            payload = payload[os.write(3, payload):]
    except OSError:
        break
done()
raise SystemExit(5)
