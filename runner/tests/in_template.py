"""Runs the runner's tests with the interpreters of templates: pandas, matplotlib and IPython are there, and in `viz` every
library that has displays of its own."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FILES = {"default": ("test_cell", "test_changes", "test_display", "test_inspector"), "viz": ("test_display_libraries",)}


def main() -> None:
    directory = Path(__file__).resolve().parent
    failed = False
    for template, files in FILES.items():
        found = sorted(Path(os.environ["HUTCH_DATA_DIR"]).glob("templates/%s-*/env/bin/python" % template))
        if not found:
            sys.exit("the template %s is not built: hutch template build %s" % (template, template))
        failed |= subprocess.run([found[-1], "-m", "unittest", *files], cwd=directory).returncode != 0
    sys.exit(failed)


main()
