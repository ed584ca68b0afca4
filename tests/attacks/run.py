#!/usr/bin/env python3
"""Runs the attack corpus through `hutch run` and judges it.

  tests/attacks/run.py                         as root: as root, then as a user, then as a user with weaker limits
  tests/attacks/run.py --as user --only fork_bomb,meet_in_the_middle -v

One line per program, then `N passed, N failed`. With HUTCH_TESTS_MUST_RUN=1 a skip is a failure."""
from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time

import corpus
from identity import Identity, Skip
from judge import CANARY, Judge, Verdict

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
IDENTITIES = ("root", "user", "weaker")

# Without control groups these cannot be stopped in time; README says so, and --weaker-limits is never the default.
EXPECTED_WEAKER: dict[str, str] = {
    "memory_pipes_and_sockets": "kernel buffers are in no process's resident memory",
    "memory_shared_anonymous": "shared pages count only beyond those of the interpreter, and every 20 ms",
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hutch", default=os.environ.get("HUTCH", os.path.join(ROOT, "build/bin/hutch")))
    parser.add_argument("--as", dest="identity", choices=IDENTITIES, help="default: all three, when root")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="self-judged programs at the same time")
    parser.add_argument("--json", help="write every verdict here")
    parser.add_argument("--full", action="store_true", help="the corpus's own time limits, not the short ones")
    parser.add_argument("-v", action="store_true", help="say more about each program")
    return parser.parse_args()


def plant_canaries() -> subprocess.Popen | None:
    """None when somebody has planted them already."""
    # The kernel may have lent one of their ports to a connection, which holds it for a minute after its end.
    deadline = time.monotonic() + 90
    while True:
        ready = "/tmp/.attack-canary-ready-%d" % os.getpid()
        process = subprocess.Popen([sys.executable, os.path.join(HERE, "plant.py"), "--ready-file", ready],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            if os.path.exists(ready):
                os.unlink(ready)
                return process
            time.sleep(0.02)
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", 47811), 1).close()
            return None
        if time.monotonic() > deadline:
            raise SystemExit("the canaries cannot be planted: python3 tests/attacks/plant.py says why")
        time.sleep(1)


def canary_hits() -> int:
    try:
        return os.path.getsize(os.path.join(CANARY, "hits.log"))
    except OSError:
        return 0


class Tally:
    def __init__(self, verbose: bool) -> None:
        self.passed = self.failed = self.skipped = 0
        self.verbose = verbose
        self.rows: list[dict] = []
        self.failures: list[str] = []

    def add(self, kind: str, verdict: Verdict) -> None:
        word = "ok  " if verdict.passed else "FAIL"
        expected = kind == "weaker" and EXPECTED_WEAKER.get(verdict.name)
        if not verdict.passed and expected:
            word = "weak"
            verdict.evidence += " [expected: %s]" % expected
        self.passed += word != "FAIL"
        self.failed += word == "FAIL"
        self.rows.append({"as": kind, **dataclasses.asdict(verdict)})
        more = verdict.evidence if word != "ok  " else verdict.info if self.verbose else ""
        line = "%s %-6s %-32s %6.2f s  %s" % (word, kind, verdict.name, verdict.seconds, more)
        print(line, flush=True)
        if word == "FAIL":
            self.failures.append(line)

    def skip(self, kind: str, feature: str) -> None:
        if os.environ.get("HUTCH_TESTS_MUST_RUN"):
            self.add(kind, Verdict("everything", False, 0, "must run here, but the host lacks " + feature))
            return
        self.skipped += 1
        print("skip %-6s the host lacks %s" % (kind, feature), flush=True)


def run_all(kind: str, programs: list[corpus.Program], arguments: argparse.Namespace, tally: Tally) -> None:
    data = os.environ.get("HUTCH_DATA_DIR") or os.path.join(
        os.environ.get("XDG_DATA_HOME", os.path.expanduser("~/.local/share")), "hutch")
    identity = Identity(kind, os.path.abspath(arguments.hutch), data)
    begin, hits = time.monotonic(), canary_hits()
    try:
        template = identity.check_host()
        judge = Judge(identity, kind)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            alone = [program for program in programs if program.judge == "self"]
            for verdict in pool.map(judge.judge, alone):
                tally.add(kind, verdict)
        watched = [program for program in programs if program.judge == "outside"]
        for program in sorted(watched, key=lambda program: program.has("out")):  # their files fill caches
            tally.add(kind, judge.judge(program))
        if judge.engine and identity.status().get("pid") != judge.engine:
            tally.add(kind, Verdict("engine_survives", False, 0, "the engine was replaced on the way"))
    except Skip as reason:
        tally.skip(kind, str(reason))
        return
    finally:
        left = identity.close()
    if canary_hits() != hits:
        left.append("somebody reached the canaries on loopback")
    tally.add(kind, Verdict("leaves_nothing_behind", not left, time.monotonic() - begin, "; ".join(left),
                            "template " + template))


def main() -> int:
    arguments = options()
    names = set(filter(None, arguments.only.split(",")))
    programs = [program for program in corpus.load(arguments.full) if not names or program.name in names]
    if names - {program.name for program in programs}:
        raise SystemExit("no such program: %s" % ", ".join(names - {program.name for program in programs}))
    kinds = [arguments.identity] if arguments.identity else list(IDENTITIES[0 if os.geteuid() == 0 else 1:])
    if os.geteuid() != 0 and "root" in kinds:
        raise SystemExit("--as root needs root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is taken away
    plant = plant_canaries()
    tally = Tally(arguments.v)
    try:
        for kind in kinds:
            run_all(kind, programs, arguments, tally)
    finally:
        if plant:
            plant.terminate()
            plant.wait()
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(tally.rows, file, indent=1)
    for row in tally.failures:  # again, where the end of a long log is all that is seen
        print(row)
    skipped = ", %d skipped" % tally.skipped if tally.skipped else ""
    print("%d passed, %d failed%s" % (tally.passed, tally.failed, skipped))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
