#!/usr/bin/env python3
"""Checks which file of src/ includes what: modules only downwards, heavy headers only where they are allowed.

Prints one line per offence and exits 1 if there was any.   usage: include_check.py [ROOT]
"""

import re
import sys
from pathlib import Path

# A module includes itself and the modules before it.
MODULES = ["base", "wire", "sandbox", "zygote", "session", "agent", "api", "cli"]

# (what, include pattern, the files that may; a bare name allows it in any module)
CONFINED = [
    ("Beast", r"boost/beast", {
        "agent/http_transport.cc", "api/http_client.cc", "api/http_connection.cc", "api/http_stream.cc", "api/http_stream.h",
        "api/websocket.cc", "api/websocket.h", "session/beast_library.cc"}),
    ("toml++", r"toml\+\+/|toml\.hpp|toml\.h$", {"session/toml.h"}),
    ("CLI11", r"CLI/", {"cli/commands.h"}),
]

# (module, what, include pattern): not even through a header of another module.
FORBIDDEN = [
    ("sandbox", "Asio", r"boost/asio|asio\.hpp"),
    ("sandbox", "JSON", r"boost/json|nlohmann/|json/"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')


def read_includes(path):
    """The (line number, name, whether it is in quotes) of every #include in a file."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    matches = [(number, INCLUDE.match(line)) for number, line in enumerate(lines, 1)]
    return [(number, match[1] or match[2], match[2] is not None) for number, match in matches if match]


def direction_offences(file, includes, files):
    module = file.split("/")[0]
    for number, name, quoted in includes:
        target = name.split("/")[0]
        if not quoted and "/" not in name:
            continue  # <limits.h> is the system's, whatever we have of that name
        if "/" not in name or name.startswith("."):
            if name.startswith(".") or f"{module}/{name}" in files:
                yield number, f'write the path from src/: "{module}/{name.split("/")[-1]}", not "{name}"'
        elif target in MODULES and MODULES.index(target) > MODULES.index(module):
            yield number, f"{module} may not include {name}: {target} comes after it"


def confinement_offences(file, includes):
    for what, pattern, allowed in CONFINED:
        if file in allowed or file.split("/")[-1] in allowed:
            continue
        for number, name, _ in includes:
            if re.match(pattern, name):
                yield number, f"{what} ({name}) is only for {', '.join(sorted(allowed))}"


def reached(file, files):
    """Every (line in `file`, chain of headers, include) that the file pulls in, directly or through our headers."""
    seen = {file}
    queue = [(number, (), name) for number, name, _ in files[file]]
    while queue:
        number, chain, name = queue.pop(0)
        yield number, chain, name
        if name in files and name not in seen:
            seen.add(name)
            queue += [(number, (*chain, name), deeper) for _, deeper, _ in files[name]]


def forbidden_offences(file, files):
    for module, what, pattern in FORBIDDEN:
        if not file.startswith(module + "/"):
            continue
        for number, chain, name in reached(file, files):
            if re.match(pattern, name):
                through = f" (through {' -> '.join(chain)})" if chain else ""
                yield number, f"no {what} in {module}: {name}{through}"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    source = root / "src"
    paths = sorted(path for path in source.rglob("*") if path.suffix in {".cc", ".h"})
    files = {path.relative_to(source).as_posix(): read_includes(path) for path in paths}
    count = 0
    for file, includes in files.items():
        if file.split("/")[0] not in MODULES:
            offences = [(1, f"not in a module; the modules are {', '.join(MODULES)}")]
        else:
            offences = [
                *direction_offences(file, includes, files),
                *confinement_offences(file, includes),
                *forbidden_offences(file, files),
            ]
        for number, message in sorted(offences):
            print(f"src/{file}:{number}: {message}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
