"""Facts about the machine that a reader needs, and nothing by which it could be recognised."""
from __future__ import annotations

import os
import platform
import re
import socket
import subprocess

from context import ROOT, Context


def processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def memory_gib() -> float:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1)


def first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (done.stdout.strip().splitlines() or ["unknown"])[0]


def facts(context: Context) -> dict[str, object]:
    return {"processor": processor(), "cores": os.cpu_count(), "memory_gib": memory_gib(),
            "kernel": platform.release(), "python": first_line(context.python, "--version"),
            "hutch": first_line(context.hutch, "--version")}


def load() -> float:
    return round(os.getloadavg()[0], 2)


class Cleaner:
    """Takes this machine's paths, names and addresses out of whatever is reported."""

    def __init__(self, context: Context) -> None:
        private = {str(context.scratch): "SCRATCH", context.library_tree: "LIBRARIES", context.data: "DATA",
                   str(context.installed): "PEERS", str(ROOT): "CHECKOUT", os.path.expanduser("~"): "HOME",
                   socket.gethostname(): "HOST"}
        long = [(word, name) for word, name in private.items() if len(word) > 3]
        self.words = sorted(long, key=lambda pair: -len(pair[0]))

    def text(self, value: str) -> str:
        for word, name in self.words:
            value = value.replace(word, name)
        return re.sub(r"\b[a-z]+://\S+", "URL", re.sub(r"\x1b\[[0-9;]*m", "", value))

    def everything(self, value):
        """The same value with every string in it cleaned."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.everything(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.everything(inner) for inner in value]
        return value
