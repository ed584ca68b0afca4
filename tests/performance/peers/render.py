#!/usr/bin/env python3
"""Prints what a run found as the section of BENCHMARKS.md; the same JSON gives the same text and the same plots.

    python3 tests/performance/peers/render.py benchmarks/peers.json [--plots docs/images]"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys

import markdown
import svg

LINKED = "docs/images"  # as seen from BENCHMARKS.md


def file_name(key: str) -> str:
    return "peers-%s.svg" % key


def section(found: dict) -> str:
    links = {key: "%s/%s" % (LINKED, file_name(key)) for key in svg.charts(found)}
    return markdown.body(found, "###", links)


def write_plots(found: dict, directory: pathlib.Path) -> None:
    """Those of an earlier run for which there are no figures now are removed."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn = svg.charts(found)
    for key in svg.FIGURES:
        path = directory / file_name(key)
        if key in drawn:
            path.write_text(drawn[key], encoding="utf-8")
        else:
            path.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path, help="what main.py --json wrote")
    parser.add_argument("--plots", type=pathlib.Path, help="where to write the plots, too")
    arguments = parser.parse_args()
    found = json.loads(arguments.file.read_text(encoding="utf-8"))
    if arguments.plots:
        write_plots(found, arguments.plots)
    print(section(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
