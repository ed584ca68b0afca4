"""Runs the runner's tests with the interpreter of the default template: pandas, matplotlib and IPython are there."""
from __future__ import annotations

import os
import sys
from pathlib import Path

FILES = ("test_cell", "test_changes", "test_display", "test_display_libraries", "test_inspector")


def main() -> None:
    found = sorted(Path(os.environ["HUTCH_DATA_DIR"]).glob("templates/default-*/env/bin/python"))
    if not found:
        sys.exit("the default template is not built: hutch template build default")
    directory = Path(__file__).resolve().parent
    os.chdir(directory)
    os.execv(found[-1], [str(found[-1]), "-m", "unittest", *FILES])


main()
