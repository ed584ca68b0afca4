"""Peers that are a command in front of an interpreter: none at all, rlimits, bubblewrap, nsjail."""
from __future__ import annotations

import os
import re
import resource

import process
from context import NOBODY, SECRETS, Context
from machine import first_line
from peer import Peer, Sample, Session
from workloads import Program

LINKS = tuple(name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32") if os.path.islink("/" + name))
ADDRESS_SPACE = 4 << 30  # numerical libraries reserve far more than they use


class CommandPeer(Peer):
    """Subclasses say how an interpreter is started."""

    program = ""  # what must be installed

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.path = process.find_program(self.program, context.installed / "bin") if self.program else ""

    def missing(self) -> str:
        return "" if self.path or not self.program else "%s is not installed" % self.program

    def version(self) -> str:
        return first_line(self.path or self.context.python, "--version")

    def command(self, arguments: list[str], libraries: bool) -> list[str]:
        return [self.context.interpreter(libraries), *arguments]

    def before_exec(self) -> process.BeforeExec:
        return None

    def run(self, program: Program) -> Sample:
        return self.timed(program, {})

    def attack(self, program: Program) -> Sample:
        return self.timed(program, SECRETS)

    def timed(self, program: Program, more: dict[str, str]) -> Sample:
        self.needs_libraries(program.libraries)
        return process.time_command(self.command(["-c", program.code], program.libraries),
                                    {**self.context.variables(program.libraries), **more}, self.before_exec())

    def session(self, libraries: bool) -> Session:
        self.needs_libraries(libraries)
        return process.PipeSession(self.command(["-c", process.LOOP], libraries), self.context.variables(libraries),
                                   self.before_exec())


class PlainPython(CommandPeer):
    name = "python3"
    about = "the interpreter itself, from nothing, as this user; no walls: no namespaces, no seccomp filter, no limits"


def set_limits() -> None:
    for limit, value in ((resource.RLIMIT_AS, ADDRESS_SPACE), (resource.RLIMIT_CPU, 30), (resource.RLIMIT_CORE, 0),
                         (resource.RLIMIT_FSIZE, 64 << 20), (resource.RLIMIT_NOFILE, 1024)):
        resource.setrlimit(limit, (value, value))


class Limited(CommandPeer):
    name = "subprocess + rlimits"
    about = ("subprocess with preexec_fn, from nothing; limits of address space, processor time, file size, open "
             "files, no core; no namespaces, no seccomp filter")

    def before_exec(self) -> process.BeforeExec:
        return set_limits


def can_disable_user_namespaces(version: str) -> bool:
    """bubblewrap has --disable-userns since 0.8."""
    return tuple(map(int, re.findall(r"\d+", version)[:2])) >= (0, 8)


class Bubblewrap(CommandPeer):
    name = "bubblewrap"
    about = ("from nothing; all namespaces, uid nobody, no capabilities, empty environment, /usr read-only, private "
             "/proc /dev /tmp, rlimits; no seccomp filter, because bubblewrap brings none")
    program = "bwrap"
    closing: tuple[str, ...] = ()

    def prepare(self) -> None:
        if can_disable_user_namespaces(self.version()):
            self.closing = ("--disable-userns",)
            self.about += "; further user namespaces disabled"
        else:
            self.about += "; this version cannot disable further user namespaces"

    def before_exec(self) -> process.BeforeExec:
        return set_limits

    def command(self, arguments: list[str], libraries: bool) -> list[str]:
        words = [self.path, "--unshare-all", "--unshare-user", *self.closing, "--uid", str(NOBODY),
                 "--gid", str(NOBODY), "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv",
                 "--ro-bind", "/usr", "/usr"]
        for name in LINKS:
            words += ["--symlink", "usr/" + name, "/" + name]
        for name, value in self.context.variables(libraries).items():
            words += ["--setenv", name, value]
        words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        if libraries:
            tree, fonts = self.context.library_tree, self.context.font_cache
            words += ["--ro-bind", tree, tree, "--bind", fonts, fonts]
        return [*words, "--remount-ro", "/", "--chdir", "/tmp", *super().command(arguments, libraries)]


class Nsjail(CommandPeer):
    name = "nsjail"
    about = ("from nothing; all namespaces, uid nobody, empty environment, rlimits, /usr read-only, private /proc and "
             "/tmp; no seccomp filter, because nsjail brings no default one")
    program = "nsjail"

    def command(self, arguments: list[str], libraries: bool) -> list[str]:
        words = [self.path, "--mode", "o", "--really_quiet", "--user", str(NOBODY), "--group", str(NOBODY),
                 "--rlimit_as", str(ADDRESS_SPACE >> 20), "--rlimit_nofile", "1024", "--bindmount_ro", "/usr",
                 "--bindmount_ro", "/dev/null", "--bindmount_ro", "/dev/urandom", "--tmpfsmount", "/tmp",
                 "--cwd", "/tmp"]
        for name in LINKS:
            words += ["--symlink", "usr/%s:/%s" % (name, name)]
        for name, value in self.context.variables(libraries).items():
            words += ["--env", "%s=%s" % (name, value)]
        if libraries:
            words += ["--bindmount_ro", self.context.library_tree, "--bindmount", self.context.font_cache]
        return [*words, "--", *super().command(arguments, libraries)]
