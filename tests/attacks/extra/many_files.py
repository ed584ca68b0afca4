"""As many small files as fit, wide rather than deep: whoever holds one descriptor per file runs out."""
import os

from attack import done

made = 0
try:
    for directory in range(16):
        os.mkdir("d%d" % directory)
        for name in range(500):
            with open("d%d/%d.txt" % (directory, name), "w") as file:
                file.write("x")
            made += 1
except OSError as error:
    print("info:", error)
done("%d files" % made)
