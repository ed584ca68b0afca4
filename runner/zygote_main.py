"""python -I -X utf8 zygote_main.py CONTROL_FD [MODULE …]"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hutch_runner import zygote  # noqa: E402

zygote.main(sys.argv[1:])
