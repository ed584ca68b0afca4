"""`%pip install` and `!pip install`: answered in words, because a session cannot install packages yet."""
from __future__ import annotations

import builtins
import re

__builtins__ = dict(vars(builtins))

INSTALL = re.compile(r"""(?:(?<=^)|(?<=[;&|(\n]))\s*(?:sudo\s+)?(?:\S*python[\d.]*\s+-m\s+)?
                         (?:\S*/)?(?:pip[\d.]*|uv\s+pip|uv|conda|mamba|micromamba)\s+(?:-\S+\s+)*
                         (?:install|add)\b([^;&|<>\n]*)""", re.VERBOSE)


class PackageInstallError(Exception):
    """A cell wanted to install a package."""


PackageInstallError.__module__ = "builtins"  # so that tracebacks give the name alone


def without_installs(command: str) -> str:
    """A command for the shell, without what would install packages: that is answered here and never run."""
    for found in INSTALL.finditer(command):
        answer(found.group(1))
    return INSTALL.sub(" true ", command)


def magic(tool: str):
    def install(line: str) -> None:
        """Installing packages is not available in a session yet; `%pip list` tells what there is."""
        words = line.split()
        if words[:1] in (["list"], ["freeze"]):
            for name, version in sorted(installed().items()):
                print("%s==%s" % (name, version))
        elif tool in ("uv", "conda") and words[:1] == ["pip"]:
            answer(" ".join(words[2:]))
        else:
            answer(" ".join(words[1:]))

    return install


def answer(arguments: str) -> None:
    """Says what is there already, or raises."""
    wanted = [re.split(r"[\[=<>!~;@ ]", word.strip("'\""))[0] for word in arguments.split() if not word.startswith("-")]
    here = installed()
    missing = [name for name in wanted if name and normal(name) not in here]
    if wanted and not missing:
        for name in wanted:
            print("Requirement already satisfied: %s (%s)" % (name, here[normal(name)]))
        return
    what = "%s cannot be installed" % ", ".join(missing[:20]) if missing else "Packages cannot be installed"
    raise PackageInstallError(
        "%s: this session has no package manager yet. Installed are: %s. For others build a template that lists them "
        "under `packages` (`hutch template build NAME`) and open a session with it." % (
            what, ", ".join(sorted(here)[:150]) or "none"))


def installed() -> dict[str, str]:
    from importlib import metadata

    return {normal(found.metadata["Name"]): found.version for found in metadata.distributions()
            if found.metadata["Name"] and not str(found._path).startswith(("/usr/lib/python3/dist-packages",))}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
