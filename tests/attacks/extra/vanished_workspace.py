"""Takes the ground away: removes or replaces the working directory, its mode and its parents, then leaves files."""
import os
import shutil

from attack import done

os.makedirs("/workspace/a/b")
os.chdir("/workspace/a/b")
shutil.rmtree("/workspace/a")
for operation, arguments in ((os.rmdir, ("/workspace",)), (os.rename, ("/workspace", "/tmp/w")),
                             (os.symlink, ("/etc", "/workspace")), (os.chmod, ("/workspace", 0)),
                             (os.open, ("late.txt", os.O_CREAT | os.O_WRONLY))):
    try:
        operation(*arguments)
        print("info:", operation.__name__, "worked")
    except OSError as error:
        print("info:", operation.__name__, error)
try:
    print(os.getcwd())
except OSError as error:
    print("info: getcwd", error)
for name in ("unreadable", "locked"):
    try:
        os.chmod("/workspace", 0o755)
        with open("/workspace/" + name, "w") as file:
            file.write("x")
        os.chmod("/workspace/" + name, 0)
        os.chmod("/workspace", 0)
    except OSError as error:
        print("info:", error)
done()
