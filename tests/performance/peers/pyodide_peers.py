"""Peers that are a Python in WebAssembly: Pyodide on Node and on Deno."""
from __future__ import annotations

import dataclasses
import json
import pathlib

import process
from command_peers import CommandPeer
from context import Context
from peer import PeerError, Sample
from workloads import Program

DRIVER = pathlib.Path(__file__).with_name("pyodide_driver.mjs")

# The attack programs make system calls by number; here there are none, and this says so in their place.
NO_SYSTEM_CALLS = """\
import ctypes, errno
class Library:
    class syscall:
        def __new__(cls, *arguments):
            ctypes.set_errno(errno.ENOSYS)
            return -1
ctypes.CDLL = lambda *arguments, **more: Library
"""
BY_JAVASCRIPT = Program("canary_by_javascript", "", """\
try:
    import js
    text = js.process.getBuiltinModule("node:fs").readFileSync("/tmp/attack-canary/secret.txt", "utf8")
    print("ESCAPED canary_by_javascript read it by Node's own functions" if text else "BLOCKED canary_by_javascript")
except Exception as error:
    print("BLOCKED canary_by_javascript", type(error).__name__)
""", "")


class PyodidePeer(CommandPeer):
    """A process per instance; the package holds no pandas, and what it would load comes from a server."""

    misjudged = {"loopback_services": "its sockets say that they are connected before they are",
                 "pid_visibility": "its kill() gives the same answer for every number"}
    own_attacks = (BY_JAVASCRIPT,)
    every = 4
    megabytes = 160
    live_sessions = 4

    def __init__(self, context: Context) -> None:
        modules = context.installed / "node/node_modules"
        self.package = modules / "pyodide"
        super().__init__(context)
        self.path = process.find_program(self.program, modules / ".bin")

    def missing(self) -> str:
        if not (self.package / "pyodide.mjs").exists():
            return "the npm package pyodide is not installed (tools/setup-peers)"
        return super().missing()

    def version(self) -> str:
        package = json.loads((self.package / "package.json").read_text(encoding="utf-8"))
        runtime = super().version().removeprefix("deno ").split()[0]
        return "pyodide %s, %s %s" % (package["version"], self.program, runtime)

    def needs_libraries(self, libraries: bool) -> None:
        if libraries:
            raise PeerError("the npm package has no pandas or matplotlib; Pyodide loads them from the internet")

    def attack(self, program: Program) -> Sample:
        return super().attack(dataclasses.replace(program, code=NO_SYSTEM_CALLS + program.code))

    def flags(self) -> list[str]:
        return []

    def command(self, arguments: list[str], libraries: bool) -> list[str]:
        code = [] if arguments[1] == process.LOOP else [arguments[1]]  # the driver has a loop of its own
        return [self.path, *self.flags(), str(DRIVER), str(self.package), *code]


class PyodideNode(PyodidePeer):
    name = "Pyodide on Node"
    about = ("WebAssembly in a Node process of its own, from nothing, with everything Node may do; no namespaces, no "
             "seccomp filter, no limits")
    program = "node"


class PyodideDeno(PyodidePeer):
    name = "Pyodide on Deno"
    about = ("WebAssembly in a Deno process of its own, from nothing, that may only read the Pyodide package; no "
             "namespaces, no seccomp filter, no limits")
    program = "deno"

    def flags(self) -> list[str]:
        return ["run", "--no-prompt", "--no-config", "--no-lock", "--cached-only", "--allow-read=%s" % self.package]
