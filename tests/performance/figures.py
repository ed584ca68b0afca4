"""What the programs that measure write down: every figure with the number of its samples, and on what machine."""
from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import support  # noqa: E402

ENOUGH_FOR_P95, ENOUGH_FOR_P99 = 20, 100  # with fewer it would be the worst sample by another name


def percentile(times: Sequence[float], share: float) -> float:
    """Between the two neighbours in order, by distance; 0 of nothing."""
    if not times:
        return 0.0
    ordered = sorted(times)
    place = (len(ordered) - 1) * share
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """In milliseconds; only the percentiles that so many samples can have."""
    told: dict[str, float] = {"n": len(seconds)}
    if seconds:
        shares = {"least_ms": 0.0, "p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "most_ms": 1.0}
        if len(seconds) < ENOUGH_FOR_P99:
            del shares["p99_ms"]
        if len(seconds) < ENOUGH_FOR_P95:
            del shares["p95_ms"]
        told |= {name: round(percentile(seconds, share) * 1e3, 4) for name, share in shares.items()}
    return told


def without_places(value):
    """The same value; no text in it tells the paths and names of this machine."""
    if isinstance(value, dict):
        return {key: without_places(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_places(inner) for inner in value]
    if not isinstance(value, str):
        return value
    places = {support.DATA: "DATA", support.ROOT: "CHECKOUT", tempfile.gettempdir(): "TEMPORARY",
              os.path.expanduser("~"): "HOME", socket.gethostname(): "HOST"}
    for place, name in sorted(places.items(), key=lambda pair: -len(pair[0])):
        if len(place) > 3:  # not the root, and no word that is in others
            value = re.sub(r"(?<![\w/])%s(?!\w)" % re.escape(place), name, value)
    return value


def hutch_version() -> str:
    said = subprocess.run([support.HUTCH, "--version"], capture_output=True, text=True, timeout=20, check=True)
    return said.stdout.split()[-1]


class Measurement:
    """One run of one program, from its beginning to its file."""

    def __init__(self, program: str, options: argparse.Namespace) -> None:
        self.program, self.load_before = program, round(os.getloadavg()[0], 2)
        self.options = {name: value for name, value in vars(options).items() if name != "json"}

    def write(self, path: str | None, found: dict) -> None:
        """Nothing without a path; otherwise the old file is there until the new one is complete."""
        if not path:
            return
        told = {"program": self.program, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                "hutch": hutch_version(), "machine": machine.facts(),
                "noise": {"load_before": self.load_before, "load_after": round(os.getloadavg()[0], 2)},
                "options": self.options, **found}
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(without_places(told), file, indent=1, ensure_ascii=False)
            file.write("\n")
        os.replace(path + ".new", path)
