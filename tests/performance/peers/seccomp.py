"""The default filter of containers, as podman and docker give it, for bundles that nobody else gives one to."""
from __future__ import annotations

import json
import pathlib
import platform
import re

PROFILE = pathlib.Path("/usr/share/containers/seccomp.json")  # of containers/common
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NATIVE = {"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def applies(rule: dict, architecture: str, kernel: str) -> bool:
    """To a container that has no capability at all."""
    wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
    if wanted.get("caps") or architecture in unwanted.get("arches", []):
        return False
    if wanted.get("arches") and architecture not in wanted["arches"]:
        return False
    return numbers(kernel) >= numbers(wanted.get("minKernel", ""))


def convert_rule(rule: dict) -> dict:
    names = rule.get("names") or [rule["name"]]
    kept = {key: rule[key] for key in ("action", "errnoRet", "args") if rule.get(key) not in (None, [])}
    return {"names": names, **kept}


def native_architectures(profile: dict, architecture: str) -> list[str]:
    """With those whose programs it runs, too."""
    for entry in profile.get("archMap") or []:
        if entry["architecture"] == NATIVE[architecture]:
            return [entry["architecture"], *(entry.get("subArchitectures") or [])]
    return profile.get("architectures") or [NATIVE[architecture]]


def convert(profile: dict, architecture: str, kernel: str) -> dict:
    """From the form of containers/common to that of a bundle's linux.seccomp."""
    rules = [convert_rule(rule) for rule in profile["syscalls"] if applies(rule, architecture, kernel)]
    return {"defaultAction": profile["defaultAction"], "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
            "architectures": native_architectures(profile, architecture), "syscalls": rules}


def default_filter(path: pathlib.Path = PROFILE) -> dict | None:
    """None where the profile is not installed or the machine is of another kind."""
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None or not path.is_file():
        return None
    return convert(json.loads(path.read_text(encoding="utf-8")), architecture, platform.release())
