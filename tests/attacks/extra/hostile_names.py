"""Names for terminals, shells and archives: escape sequences, newlines, backspaces, a name that claims another file."""
import os

from attack import done

NAMES = (b"a\nbrought out /etc/passwd (1 B)", b"\x1b]0;owned\x07", b"\x1b[2J\x1b[H", b"\x08\x08\x08x",
         b"\xe2\x80\xaetxt.exe", b"\x9b31m", b"-o", b"--out=x", b".hutch-out", b"..", b"...", b". .",
         b"\\..\\..\\x", b"C:\\x", b"%00", b"a" * 255, b"\xc0\xae\xc0\xae", b"\xff", b"nul",
         b".git/hooks/x", b".bashrc", b"plain.txt")
made = 0
for name in NAMES:
    try:
        if b"/" in name:
            os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as file:
            file.write(b"x")
        made += 1
    except OSError as error:
        print("info:", ascii(name), error.errno)
for depth in range(3):
    os.makedirs(b"/".join((b"\x1b[3%dm" % depth, b"\n", b"x")), exist_ok=True)
done("%d names" % made)
