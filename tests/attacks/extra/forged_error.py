"""One believable error frame, then a clean end: it may be shown, but the run has not failed."""
import os

from attack import done


def text(value):
    return len(value).to_bytes(4, "little") + value


payload = (text(b"FORGED") + text(b"\x1b[2J\x1b]0;owned\x07 not true\r\nhutch: FORGED") + text(b"") + bytes(12)
           + text(b"line") + (1).to_bytes(4, "little") + text(b"frame"))
os.write(3, (len(payload) + 1).to_bytes(4, "little") + bytes((67,)) + payload)
done()
os._exit(0)
