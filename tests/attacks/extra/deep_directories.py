"""A chain of 20,000 directories with files on the way: whoever walks it by path, or by recursion, is in for it."""
import os

from attack import done

depth = 0
try:
    while depth < 20_000:
        if depth % 10 == 0:
            with open("f", "w") as file:
                file.write("x")
        os.mkdir("d" * 20)
        os.chdir("d" * 20)
        depth += 1
except OSError as error:
    print("info:", error)
done("%d deep" % depth)
