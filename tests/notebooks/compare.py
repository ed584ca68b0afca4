#!/usr/bin/env python3
"""Runs every notebook here with nbclient and ipykernel and with `hutch notebook run`, and lists where the outputs differ.

    compare.py PYTHON [NOTEBOOK ...]

PYTHON is the interpreter of an environment that has nbclient, ipykernel and the packages of the template `default`, in
the same versions: python3 -m venv DIR; DIR/bin/pip install nbclient ipykernel ipywidgets pandas matplotlib sympy.
What is known to differ, and why, is in docs/notebooks.md. Exits 1 when anything else does.
"""
from __future__ import annotations

import base64
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

NEARLY = 4  # pixels
HERE = os.path.dirname(os.path.abspath(__file__))
HUTCH = os.environ.get("HUTCH", os.path.join(HERE, "../../build/bin/hutch"))

REFERENCE = """
import sys, nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
notebook = nbformat.read(sys.argv[1], as_version=4)
try:
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
except Exception as error:
    print(type(error).__name__, file=sys.stderr)
nbformat.write(notebook, sys.argv[2])
"""

# (notebook, cell, what Jupyter has there, what we have): why it is not the same.
KNOWN = (
    ("errors", 3, "invalid syntax", "invalid syntax (<cell 3>, line 1)", "cells are named by their numbers"),
    ("errors", 4, "incomplete input", "was never closed", "Python's words, not those of IPython's parser"),
    ("errors", 7, "Exception Group Traceback", "'ExceptionGroup', 'many", "IPython does not know groups"),
    ("exit", 2, "To exit: use", "'SystemExit', '3'", "no warning about sys.exit()"),
    ("input", 1, "StdinNotImplementedError", "EOFError", "standard input is empty, not missing"),
    ("magics", 7, "hello\\r\\n", "hello\\n", "Jupyter gives a command a terminal"),
    ("magics", 12, "UsageError: Line magic", "'error', 'UsageError'", "a cell that fails has an error"),
    ("widgets", 1, "widget-view+json", "ModuleNotFoundError", "the template has no widgets"),
)


def run_reference(python: str, source: str, target: str) -> None:
    with tempfile.TemporaryDirectory() as directory:  # a kernel leaves files where it runs
        subprocess.run([python, "-W", "ignore", "-c", REFERENCE, source, target], check=True, cwd=directory, timeout=300,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "PATH": os.path.dirname(python) + ":" + os.environ["PATH"]})


def run_ours(source: str, target: str) -> None:
    done = subprocess.run([HUTCH, "notebook", "run", source, "-o", target, "--memory", "1G"], capture_output=True, text=True,
                          timeout=300)
    if done.returncode not in (0, 1):
        raise SystemExit("hutch: %s" % done.stderr)


def joined(value: object) -> object:
    return "".join(value) if isinstance(value, list) and all(isinstance(line, str) for line in value) else value


class Picture:
    """The same when its size is: fonts and versions of libpng change every pixel."""

    def __init__(self, png: str) -> None:
        self.size = struct.unpack(">II", base64.b64decode(png)[16:24])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and all(abs(a - b) <= NEARLY for a, b in zip(self.size, other.size))

    def __repr__(self) -> str:
        return "<PNG of %d x %d>" % self.size


def plain(output: dict) -> tuple:
    """An output without what differs from one run to the next."""
    kind = output["output_type"]
    if kind == "error":
        return kind, output["ename"], re.sub(r"\x1b\[[0-9;]*m", "", output["evalue"])
    data = {mime: joined(value) if not mime.endswith("json") else value for mime, value in output["data"].items()}
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", json.dumps(data, sort_keys=True, ensure_ascii=False))
    shown = {mime: Picture(value) if mime == "image/png" else value for mime, value in json.loads(text).items()}
    return kind, output.get("execution_count"), shown, output["metadata"]


def outputs_of(cell: dict) -> list[tuple]:
    """Pieces of a stream that follow each other are one; between two streams there is no order."""
    result: list[tuple] = []
    streams: dict[str, str] = {}
    for output in cell["outputs"] + [None]:
        if output is not None and output["output_type"] == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + joined(output["text"])
            continue
        result += [("stream", name, text) for name, text in sorted(streams.items())]
        streams = {}
        if output is not None:
            result.append(plain(output))
    return result


def compare(theirs: dict, ours: dict) -> list[tuple[int, str, str]]:
    """(cell, what Jupyter has, what we have) of every difference."""
    found = []
    if len(theirs["cells"]) != len(ours["cells"]):
        return [(-1, "%d cells" % len(theirs["cells"]), "%d cells" % len(ours["cells"]))]
    for number, (their, our) in enumerate(zip(theirs["cells"], ours["cells"])):
        for field in ("cell_type", "source", "attachments", "id"):
            if field == "id" and their.get(field) is None:  # before 4.5 there were none, and we write 4.5
                continue
            if joined(their.get(field)) != joined(our.get(field)):
                found.append((number, "%s %r" % (field, their.get(field)), "%r" % our.get(field)))
        if {**their["metadata"], "execution": None} != {**our["metadata"], "execution": None}:
            found.append((number, repr(their["metadata"]), repr(our["metadata"])))
        if their["cell_type"] != "code":
            continue
        if their["execution_count"] != our["execution_count"]:
            found.append((number, "count %s" % their["execution_count"], "count %s" % our["execution_count"]))
        first, second = outputs_of(their), outputs_of(our)
        if first != second:
            found.append((number, "\n           ".join(map(repr, first)), "\n           ".join(map(repr, second))))
    return found


def load(path: str) -> dict:
    with open(path) as file:
        return json.load(file)


def main() -> int:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    python = os.path.abspath(sys.argv[1])
    unknown = 0
    for source in sys.argv[2:] or sorted(glob.glob(os.path.join(HERE, "*.ipynb"))):
        name = os.path.splitext(os.path.basename(source))[0]
        with tempfile.TemporaryDirectory() as directory:
            theirs, ours = os.path.join(directory, "theirs.ipynb"), os.path.join(directory, "ours.ipynb")
            run_reference(python, os.path.abspath(source), theirs)
            run_ours(source, ours)
            found = compare(load(theirs), load(ours))
        print("%-18s %s" % (name, "same" if not found else "%d differences" % len(found)))
        for number, their, our in found:
            reason = next((reason for at, cell, before, after, reason in KNOWN
                           if (at, cell) == (name, number + 1) and before in their and after in our), None)
            unknown += reason is None
            print("  cell %d: %s" % (number + 1, reason or "UNEXPLAINED"))
            if reason is None:
                print("    Jupyter: %s\n    Hutch:   %s" % (their[:1500], our[:1500]))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
