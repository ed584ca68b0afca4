"""Peers that are a Python in WebAssembly: Pyodide on Node and on Deno."""
from __future__ import annotations

import pathlib

import process
from command_peers import CommandPeer
from context import Context
from peer import PeerError

DRIVER = pathlib.Path(__file__).with_name("pyodide_driver.mjs")


class PyodidePeer(CommandPeer):
    """A process per instance; the package holds no pandas, and what it would load comes from a server."""

    every = 4
    together = 20
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

    def needs_libraries(self, libraries: bool) -> None:
        if libraries:
            raise PeerError("the npm package has no pandas or matplotlib; Pyodide loads them from the internet")

    def flags(self) -> list[str]:
        return []

    def command(self, arguments: list[str], libraries: bool) -> list[str]:
        code = [] if arguments[1] == process.LOOP else [arguments[1]]  # the driver has a loop of its own
        return [self.path, *self.flags(), str(DRIVER), str(self.package), *code]


class PyodideNode(PyodidePeer):
    name = "Pyodide on Node"
    about = "WebAssembly in a Node process of its own, with everything Node may do"
    program = "node"


class PyodideDeno(PyodidePeer):
    name = "Pyodide on Deno"
    about = "WebAssembly in a Deno process of its own that may only read the Pyodide package"
    program = "deno"

    def flags(self) -> list[str]:
        return ["run", "--no-prompt", "--no-config", "--no-lock", "--cached-only", "--allow-read=%s" % self.package]
