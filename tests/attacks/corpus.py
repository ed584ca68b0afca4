"""The programs: the public corpus (manifest.json, programs/) and our own (extra/), with what each needs and how each is
judged. A self-judged program ends with BLOCKED or ESCAPED; the others are judged from outside by their checks."""
from __future__ import annotations

import dataclasses
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST_WALL = 2.0  # the programs of the corpus are stopped this early, unless --full: their harm is done at once
SCRATCH_MB = 64     # the default of --scratch; what comes out must not be more

# Traps that are sprung today. out: files are brought out into a directory; record: the whole record is read as JSON.
TRAPS = {
    "symlink_to_host_files": ["out"], "symlinked_directory_upload": ["out"], "symlink_race": ["out"],
    "fifo_socket_device_in_workspace": ["out"], "huge_sparse_download": ["out"], "weird_file_names": ["out", "record"],
    "zip_bomb": ["out"], "tar_traversal_and_links": ["out"], "log_injection": ["record"],
    "xss_html_result": ["record"], "xss_svg_result": ["out", "record"], "bad_unicode_output": ["out", "record"],
    "repr_bomb": ["record"],
}
# Tighter than the manifest: with its quota used up, a killed process waits for the processor time to die in.
TIGHTER = {"memory_many_children": ["returns_within:+0.6"], "fork_bomb": ["returns_within:+0.6"],
           "cpu_spin_all_cores": ["returns_within:+0.6"], "gil_holder": ["returns_within:+0.6"]}
ENVIRONMENT = {"zip_bomb": {"ATTACK_BOMB_MB": "64"}}

MEMORY = ["victim_ok", "returns_within:+3", "mem_drop_max_mb:700"]
# Our own programs that are judged from outside: checks, and (wall, more options for `hutch run`).
OUTSIDE = {
    "memory_page_tables": (MEMORY, 3),
    "memory_shared_anonymous": (MEMORY, 3),
    "memory_sealed_memfd": (MEMORY, 3),
    "memory_pipes_and_sockets": (MEMORY, 3),
    "zombie_flood": (["victim_ok", "returns_within:+2", "no_process:atk-zombie"], 4),
    "vfork_hang": (["returns_within:+2", "no_process:atk-vfork", "exit_code:124"], 1),
    "exit_hang": (["returns_within:+2", "no_process:atk-exit", "exit_code:124"], 1),
    "inflight_held": (["victim_ok", "returns_within:+2"], 3),
    "closed_streams": (["returns_within:+2", "exit_code:7", "out"], 3),
    "smuggled_descriptors": (["victim_ok", "exit_code:3", "engine_descriptors:4"], 3),
    "forged_frames": (["victim_ok", "record", "exit_code:5", "engine_growth_mb:16"], 3),
    "forged_error": (["record", "exit_code:0", "status:ok"], 3),
    "deep_directories": (["returns_within:+2", "out", "engine_growth_mb:64"], 3, "--inodes", "65536"),
    "many_files": (["returns_within:+2", "out", "victim_ok", "engine_descriptors:16"], 5),
    "sparse_files": (["returns_within:+2", "out"], 3),
    "hard_links": (["returns_within:+2", "out"], 3),
    "vanished_workspace": (["returns_within:+2", "out", "exit_code:0"], 3),
    "hostile_names": (["returns_within:+2", "out", "record", "terminal"], 3),
    "tiny_writes": (["returns_within:+2", "record", "output_max_mb:32", "engine_growth_mb:64"], 4),
    "denial_flood": (["victim_ok", "returns_within:+2", "no_process:atk-denial"], 4),
    "exit_race": (["victim_ok", "returns_within:+2", "no_process:atk-race", "exit_code:0"], 3),
    "kill_all": (["victim_ok", "returns_within:+2", "no_process:atk-kill"], 3),
    "output_after_close": (["returns_within:+0", "no_process:atk-after", "exit_code:0"], 3),
    "raising_reports": (["returns_within:+2", "victim_ok", "record", "engine_growth_mb:64", "output_max_mb:20"], 5),
}
TOGETHER = {"meet_in_the_middle": 2}  # so many at the same time


@dataclasses.dataclass
class Program:
    name: str
    path: str                   # below the stage, where every identity can read it
    judge: str                  # self or outside
    checks: list[str]
    wall: float
    runs: int = 1               # one after the other
    together: int = 1           # at the same time
    options: tuple[str, ...] = ()

    def has(self, check: str) -> bool:
        return check in self.checks

    def value(self, check: str) -> str | None:
        return next((text.partition(":")[2] for text in self.checks if text.startswith(check + ":")), None)


# Words of a program's header that it would find in its own memory and take for the host's.
OWN_WORDS = {"memory_scan_for_secrets.py": b"# canaries planted outside:"}


def stage(target: str) -> None:
    """Puts the programs where an ordinary user can read them, wherever the checkout is."""
    for directory in ("programs", "extra", "extra/support"):
        os.mkdir(os.path.join(target, directory))
        for name in os.listdir(os.path.join(HERE, directory)):
            if not name.endswith(".py"):
                continue
            with open(os.path.join(HERE, directory, name), "rb") as file:
                lines = file.readlines()
            with open(os.path.join(target, directory, name), "wb") as file:
                file.writelines(line for line in lines if not line.startswith(OWN_WORDS.get(name, b"\0")))


def limit_options(limits: dict) -> tuple[str, ...]:
    flags = {"memory_mb": ("--memory", "%dM"), "pids": ("--processes", "%d"), "disk_mb": ("--scratch", "%dM"),
             "output_mb": ("--output-limit", "%dM"), "inodes": ("--inodes", "%d")}
    options = [text for key, (flag, form) in flags.items() if key in limits for text in (flag, form % limits[key])]
    if "cpus" in limits:
        options += ["--cpu", str(100 * limits["cpus"])]
    return tuple(options)


def public_programs(full: bool) -> list[Program]:
    with open(os.path.join(HERE, "manifest.json")) as file:
        manifest = json.load(file)
    programs = []
    for entry in manifest:
        name, limits = entry["name"], entry["limits_needed"]
        outside = entry["judge"] == "outside"
        wall = float(limits.get("wall_s", 30))
        if outside and not full:
            wall = min(wall, LONGEST_WALL)
        options = limit_options(limits)
        for key, value in ENVIRONMENT.get(name, {}).items():
            options += ("--env", "%s=%s" % (key, value))
        checks = [check for check in entry["outside_checks_machine"] if check != "needs_api"]
        checks += TRAPS.get(name, []) + TIGHTER.get(name, [])
        if name in TRAPS and "returns_within:+2" not in checks:
            checks.append("returns_within:+2")
        if "needs_api" in entry["outside_checks_machine"] and name not in TRAPS:
            raise SystemExit("no trap is set for " + name)
        programs.append(Program(name, entry["file"], entry["judge"], checks, wall,
                                entry["runs"], 1, options))
    return programs


def extra_programs() -> list[Program]:
    programs = []
    support = ("--in", "extra/support/attack.py")
    for file in sorted(os.listdir(os.path.join(HERE, "extra"))):
        name, suffix = os.path.splitext(file)
        if suffix != ".py":
            continue
        checks, wall, *options = OUTSIDE.get(name, ([], 30))
        programs.append(Program(name, "extra/" + file, "outside" if name in OUTSIDE else "self",
                                list(checks), wall, 1, TOGETHER.get(name, 1), (*support, *options)))
    return programs


def load(full: bool) -> list[Program]:
    return public_programs(full) + extra_programs()
