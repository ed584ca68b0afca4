"""What each peer leaves open: a handful of the attack programs, judged by the line that each ends with."""
from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import sys

from context import ROOT
from measure import Say
from peer import Peer, PeerError
from workloads import Program

sys.path.insert(0, str(ROOT / "tests/attacks"))
from run import plant_canaries  # noqa: E402

# Each can be asked of any Python anywhere, does no harm without walls, and says itself whether it got through.
# What it means where one gets through: something of the host, or of another run, was read or reached; only something
# about the host was learnt; or nothing was reached yet, but there is one wall fewer.
ESCAPE, INFORMATION, HARDENING = "escape", "information", "hardening absent"
CLASSES = {
    "host_canary_read": ESCAPE, "tmp_persistence": ESCAPE, "environment_secrets": ESCAPE, "loopback_services": ESCAPE,
    "abstract_unix_sockets": ESCAPE, "proc_net_host": INFORMATION, "pid_visibility": INFORMATION,
    "capability_sets": HARDENING, "seccomp_missing": HARDENING, "unshare_user": HARDENING, "chroot_pivot": HARDENING,
    "io_uring": HARDENING}
NAMES = tuple(CLASSES)
TWICE = {"tmp_persistence"}  # the second run looks for what the first left

MARKER = ".attack-marker-7f3a91"
PLACES = ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/run/user", "/var/lib", "/var/cache", "~", "~/.cache",
          "~/.config", "~/.local/lib")


def class_of(name: str) -> str:
    """A way out that only one peer has is one."""
    return CLASSES.get(name, ESCAPE)


@dataclasses.dataclass
class Siege:
    """Names of programs: what held, what did not and by which evidence, and what could not be tried."""

    peer: str
    blocked: list[str] = dataclasses.field(default_factory=list)
    open: dict[str, str] = dataclasses.field(default_factory=dict)
    untried: dict[str, str] = dataclasses.field(default_factory=dict)


def load_program(name: str) -> Program:
    """Packed: they look for secrets in their own command line, where their own words would be."""
    path = ROOT / "tests/attacks/programs" / (name + ".py")
    packed = base64.b64encode(path.read_bytes()).decode()
    return Program(name, name, "import base64\nexec(base64.b64decode('%s'))\n" % packed, "")


def remove_markers() -> None:
    """What tmp_persistence leaves on the host where nothing keeps it inside."""
    for place in PLACES:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(os.path.expanduser(place), MARKER))


def judge(output: str) -> tuple[str, str]:
    """BLOCKED or ESCAPED, or nothing, and the whole line."""
    verdicts = [line for line in output.splitlines() if line.startswith(("BLOCKED ", "ESCAPED "))]
    return (verdicts[-1].split()[0], verdicts[-1]) if verdicts else ("", output.strip()[-200:])


def attack(peer: Peer, program: Program, siege: Siege) -> None:
    name = program.name
    if name in peer.misjudged:
        siege.untried[name] = peer.misjudged[name]
        return
    try:
        verdicts = [judge(peer.attack(program).output) for _ in range(2 if name in TWICE else 1)]
    except PeerError as error:
        siege.untried[name] = str(error)
        return
    word, line = next((verdict for verdict in verdicts if verdict[0] == "ESCAPED"), verdicts[-1])
    if word == "BLOCKED":
        siege.blocked.append(name)
    elif word == "ESCAPED":
        siege.open[name] = line.split(" ", 2)[2]
    else:
        siege.untried[name] = line or "it said nothing"


def besiege(peers: list[Peer], say: Say) -> list[Siege]:
    canaries = plant_canaries()
    sieges = []
    try:
        for peer in peers:
            siege = Siege(peer.name)
            for program in (*map(load_program, NAMES), *peer.own_attacks):
                say("attacks: %s, %s" % (peer.name, program.name))
                try:
                    attack(peer, program, siege)
                finally:
                    remove_markers()
            sieges.append(siege)
    finally:
        if canaries:
            canaries.terminate()
            canaries.wait()
    return sieges
