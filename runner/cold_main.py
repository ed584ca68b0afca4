"""python -I -X utf8 cold_main.py: the runner without a zygote; its task socket is descriptor 3."""
import gc
import marshal
import os
import sys

gc.disable()  # until there is something of the program's to collect

here = os.path.dirname(os.path.abspath(__file__))


def load_bundle():
    """The runner's modules from the one file that bundle.py wrote, as if they had been imported."""
    with open(here + "/cold.bundle", "rb") as bundle:
        codes = marshal.loads(bundle.read())
    package = sys.modules["hutch_runner"] = type(sys)("hutch_runner")
    package.__path__ = [here + "/hutch_runner"]
    for name, code in codes:
        module = sys.modules["hutch_runner." + name] = type(sys)("hutch_runner." + name)
        module.__package__, module.__loader__, module.__file__ = "hutch_runner", __loader__, code.co_filename
        setattr(package, name, module)
        exec(code, module.__dict__)
    return package.main


sys.path.insert(0, here)
try:
    main = load_bundle()
except FileNotFoundError:  # in the source tree
    from hutch_runner import main

workspace = os.environ.pop("HUTCH_WORKSPACE", main.WORKSPACE)
if any(name.startswith("HUTCH_") for name in os.environ):
    from hutch_runner import home

    home.fill()
del sys.path[0]
main.start(3, workspace)
