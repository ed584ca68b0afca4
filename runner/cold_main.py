"""python -I -X utf8 cold_main.py: the runner without a zygote; its task socket is descriptor 3."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hutch_runner import main  # noqa: E402

workspace = os.environ.pop("HUTCH_WORKSPACE", main.WORKSPACE)
if any(name.startswith("HUTCH_") for name in os.environ):
    from hutch_runner import home

    home.fill()
del sys.path[0]
main.start(3, workspace)
