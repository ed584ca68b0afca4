"""Thousands of runs of every kind, through the engine's socket, with a census before and after: nothing may leak.

    python3 tests/performance/soak.py [--runs 10000] [--clients 4] [--template bare]

Prints one JSON object; the exit code is 1 when something leaked or a run did not end as it had to."""
from __future__ import annotations

import argparse
import collections
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scenarios"))
import engine_protocol as protocol  # noqa: E402
import support  # noqa: E402
from engine_protocol import Limits, Request  # noqa: E402

WARM_UP = 50
MOST_GROWTH = 8 << 20  # of an engine's or keeper's own memory, whatever the number of runs

# Share in percent, the program, its limits, and how it must end.
MIX = {
    "print": (70, "print(6 * 7)", Limits(), (0, None)),
    "exception": (10, "def f(): raise ValueError('x')\nf()", Limits(), (1, "python_exception")),
    "timeout": (5, "while True: pass", Limits(wall_ms=200), (124, "timeout")),
    "memory": (5, "x = []\nwhile True: x.append(bytearray(1 << 20))", Limits(memory=24 << 20), (137, "memory_limit")),
    "fork bomb": (5, "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
                  Limits(wall_ms=200, processes=16), (124, "timeout")),
    "flood": (5, "while True: print('x' * 65536)", Limits(output=1 << 20), (137, "resource_limit")),
}


class Tally:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.left = 0
        self.ended: collections.Counter = collections.Counter()
        self.wrong: list[str] = []
        self.latencies: list[float] = []

    def next(self) -> bool:
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def add(self, kind: str, problem: str, seconds: float) -> None:
        with self.lock:
            self.ended[kind] += 1
            if kind == "print":
                self.latencies.append(seconds)
            if problem:
                self.wrong.append("%s: %s" % (kind, problem))


def judge(kind: str, outcome: protocol.Outcome) -> str:
    """Empty when the run ended as its kind must."""
    code, category = MIX[kind][3]
    if outcome.failed:
        return "failed: %(message)s (%(step)s)" % outcome.failed
    record = outcome.record
    error = record["error"]
    if record["exit_code"] != code or (error and error["category"]) != category:
        return "exit code %d, error %s" % (record["exit_code"], error and error["message"])
    if kind == "print" and outcome.out != b"42\n":
        return "said %r" % outcome.out[:100]
    return ""


def work(path: str, template: str, tally: Tally, seed: int) -> None:
    generator = random.Random(seed)
    kinds, weights = list(MIX), [share for share, *_ in MIX.values()]
    while tally.next():
        kind = generator.choices(kinds, weights)[0]
        _, code, limits, _ = MIX[kind]
        begin = time.monotonic()
        try:
            with protocol.Client(path, 60) as client:
                client.hello()
                problem = judge(kind, client.run(Request(code, template=template, limits=limits)))
        except (OSError, protocol.HungUp, protocol.ProtocolError) as error:
            problem = "%s: %s" % (type(error).__name__, error)
        tally.add(kind, problem, time.monotonic() - begin)


def run_many(home: support.Home, template: str, runs: int, clients: int) -> Tally:
    tally = Tally()
    tally.left = runs
    threads = [threading.Thread(target=work, args=(home.runtime + "/engine.sock", template, tally, seed))
               for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def memory_of(home: support.Home) -> dict[str, int]:
    engine = home.status()["pid"]
    keeper = next(pid for pid, name in support.descendants(engine).items() if name == "hutch-keeper")
    return {"engine": support.resident_bytes(engine), "keeper": support.resident_bytes(keeper)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--template", default="bare")
    options = parser.parse_args()

    home = support.begin(options.template)
    stopped_before = support.take_census(home)
    home.run("1")
    run_many(home, options.template, WARM_UP, options.clients)
    idle_before, memory_before = support.idle_counts(home), memory_of(home)
    engine = home.status()["pid"]

    begin = time.monotonic()
    tally = run_many(home, options.template, options.runs, options.clients)
    seconds = time.monotonic() - begin

    idle_after, memory_after = support.idle_counts(home), memory_of(home)
    survived = home.status()["pid"] == engine
    home.stop()
    support.settle(lambda: support.take_census(home) == stopped_before)
    stopped_after = support.take_census(home)
    home.close()

    latencies = sorted(tally.latencies) or [0.0]
    leaks = [text for text in (support.differences(idle_before, idle_after),
                               support.differences(stopped_before, stopped_after)) if text]
    leaks += ["%s grew by %d bytes" % (name, memory_after[name] - memory_before[name]) for name in memory_before
              if memory_after[name] - memory_before[name] > MOST_GROWTH]
    print(json.dumps({
        "runs": options.runs, "clients": options.clients, "template": options.template, "seconds": round(seconds, 1),
        "runs_per_second": round(options.runs / seconds, 1), "kinds": dict(tally.ended),
        "print_p50_ms": round(latencies[len(latencies) // 2] * 1000, 2),
        "print_p95_ms": round(latencies[len(latencies) * 95 // 100] * 1000, 2),
        "wrong": len(tally.wrong), "wrong_examples": tally.wrong[:10], "engine_survived": survived,
        "memory_before": memory_before, "memory_after": memory_after, "idle_before": idle_before,
        "idle_after": idle_after, "leaks": leaks,
    }, indent=2))
    return 1 if leaks or tally.wrong or not survived else 0


if __name__ == "__main__":
    sys.exit(main())
