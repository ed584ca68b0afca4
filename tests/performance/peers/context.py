"""What every peer is given: interpreters, libraries, a scratch directory; found once, by asking Hutch."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOBODY = 65534
MEMORY = 512 << 20  # bytes, where a peer can be told; what Hutch allows a run
PROCESSES = 64
TOKEN = "-".join(("CANARY", "7f3a91"))  # in two pieces: the attack programs look for the whole in memory
SECRETS = {"ATTACK_CANARY": TOKEN + "-env"}


@dataclasses.dataclass(frozen=True)
class Context:
    """Paths are of this machine and stay out of every report."""

    hutch: str
    data: str                     # where Hutch keeps its templates
    installed: pathlib.Path       # build/peers: what tools/setup-peers put there
    scratch: pathlib.Path         # removed at the end
    python: str                   # the interpreter behind every link, for programs without libraries
    library_python: str           # sees pandas and matplotlib; empty when the template is not built
    library_tree: str             # what library_python needs besides /usr
    library_variables: dict[str, str]
    font_cache: str               # matplotlib's, warm and writable for every peer

    def interpreter(self, libraries: bool) -> str:
        return self.library_python if libraries else self.python

    def variables(self, libraries: bool) -> dict[str, str]:
        plain = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        return {**plain, **self.library_variables} if libraries else plain

    def directory(self, name: str) -> pathlib.Path:
        path = self.scratch / name
        path.mkdir(exist_ok=True)
        return path


def describe_template(hutch: str, data: str, name: str) -> dict:
    """What `hutch template show` says; empty when there is no such template."""
    shown = subprocess.run([hutch, "template", "show", name, "--json"], capture_output=True, timeout=30,
                           env={**os.environ, "HUTCH_DATA_DIR": data})
    return json.loads(shown.stdout) if shown.returncode == 0 else {}


def find_context(hutch: str, installed: pathlib.Path) -> Context:
    data = os.environ.get("HUTCH_DATA_DIR", str(ROOT / "build/data"))
    template = describe_template(hutch, data, "default")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="hutch-peers-", dir="/var/tmp"))
    scratch.chmod(0o755)  # an unprivileged user inside a container reads what is in it
    fonts = scratch / "fonts"
    fonts.mkdir()
    fonts.chmod(0o777)
    tree = os.path.join(template["path"], "env") if template.get("state") == "ready" else ""
    variables = {name: value for name, value in template.get("environment", {}).items()
                 if name not in ("PATH", "MATPLOTLIBRC")}
    return Context(
        hutch=os.path.abspath(hutch), data=data, installed=installed.resolve(), scratch=scratch,
        python=os.path.realpath(template.get("interpreter", "/usr/bin/python3")),
        library_python=os.path.join(tree, "bin/python") if tree else "", library_tree=tree,
        library_variables={**variables, "MPLCONFIGDIR": str(fonts)}, font_cache=str(fonts))
