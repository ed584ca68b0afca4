#!/usr/bin/env python3
"""Many sandboxes: a hundred starts at once, then thousands of sessions that stay open.

  python3 tests/performance/density.py [--sessions 2000] [--burst 100] [--template default]
                                          [--mode plain|ipython] [--cell small|larger] [--strict] [--json FILE]

Memory is what MemAvailable lost, divided by the number of sessions: everything the kernel keeps for them is in it. What
the kernel keeps is counted, too: before, with all of them idle, and after. Every session must still answer; in the end
nothing may be left. Exits with 1 when something failed; with --strict also when it was slow or large.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import engine_protocol as protocol  # noqa: E402
import figures  # noqa: E402
import goals  # noqa: E402
import support  # noqa: E402

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
MODES = {"plain": 1, "ipython": 2}
CELL_OK = 0
ROUNDS = 5
SETTLED_WITHIN = 15.0  # seconds; a few sessions need less
# Sessions are rehearsed with the like of the first; what the second leaves in memory is more its own.
CELLS = {"small": "y = %d", "larger": "import math\nx = {'n': %d}\ndef f(a):\n    return math.floor(a['n'])\ny = f(x)"}


def available(within: float) -> int:
    """Bytes, once the kernel has settled: it frees namespaces in its own time. Where others go on taking memory and
    giving it back it never does, so at last after so many seconds."""
    def read() -> int:
        with open("/proc/meminfo") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))

    last, since = read(), time.monotonic()
    end = since + within
    while since + 1.5 > time.monotonic() < end:
        time.sleep(0.1)
        now = read()
        if abs(now - last) > 1 << 20:
            last, since = now, time.monotonic()
    return last


def kernel_objects(home: support.Home) -> dict[str, int]:
    """What the kernel keeps for everything below this process that this process has no part in."""
    found: dict[str, set[str]] = {kind: set() for kind in NAMESPACES}
    mounts = processes = 0
    own = {kind: os.readlink("/proc/self/ns/" + kind) for kind in NAMESPACES}
    for pid in support.descendants():
        with contextlib.suppress(OSError):  # it has just ended
            namespaces = {kind: os.readlink("/proc/%d/ns/%s" % (pid, kind)) for kind in NAMESPACES}
            if namespaces["mnt"] != own["mnt"] and namespaces["mnt"] not in found["mnt"]:
                mounts += support.count_lines("/proc/%d/mountinfo" % pid)
            processes += 1
            for kind, link in namespaces.items():
                found[kind] |= {link} - {own[kind]}
    return {"processes": processes, "control groups": len(support.groups_of(home)), "mounts": mounts,
            **{kind + " namespaces": len(links) for kind, links in found.items()}}


class Session:
    """One open shell."""

    def __init__(self, path: str, template: str, mode: str = "plain") -> None:
        self.client = protocol.Client(path, 60)
        self.client.begin(protocol.Request(template=template, mode=MODES[mode]))

    def cell(self, code: str) -> bytes:
        """What the cell wrote."""
        self.client.send(protocol.cell(code))
        out = b""
        while True:
            kind, payload = self.client.receive()
            if kind == protocol.OUTPUT:
                reader = protocol.Reader(payload)
                reader.number("B"), reader.number("Q")
                out += reader.bytes()
            elif kind == protocol.CELL_DONE:
                if payload[0] != CELL_OK:
                    raise AssertionError("a cell failed: %r" % out)
                return out
            else:
                raise AssertionError("a session ended: %r" % (protocol.read_failed(payload)
                                                              if kind == protocol.FAILED else kind,))

    def close(self) -> None:
        self.client.close()


def single_times(path: str, template: str, count: int) -> list[float]:
    """One start after the other, each as soon as the last has answered, and none in a sandbox made in advance: a burst
    finds none either."""
    times = []
    with protocol.Client(path) as client:
        for _ in range(count):
            begin = time.perf_counter()
            outcome = client.run(protocol.Request("print(1)", template, on_demand=True))
            times.append(time.perf_counter() - begin)
            assert outcome.out == b"1\n", outcome
    return times


def burst(path: str, template: str, count: int) -> tuple[float, int]:
    """Seconds until the last of `count` requests, sent at the same moment, was answered; how many failed."""
    clients = [protocol.Client(path, 60) for _ in range(count)]
    waiting = selectors.DefaultSelector()
    begin = time.perf_counter()
    for client in clients:
        client.begin(protocol.Request("print(1)", template))
        waiting.register(client.socket, selectors.EVENT_READ, client)
    failed = 0
    while waiting.get_map():
        for key, _ in waiting.select(60):
            outcome = key.data.outcome()
            failed += outcome.out != b"1\n"
            waiting.unregister(key.fileobj)
    took = time.perf_counter() - begin
    waiting.close()
    for client in clients:
        client.close()
    return took, failed


def measure_burst(home: support.Home, path: str, template: str, count: int) -> dict:
    """In turns, because the machine is not always as quiet; each burst on its own, when nothing is left of the last."""
    singles, lasts, failed = [], [], 0
    for _ in range(ROUNDS):
        singles += single_times(path, template, min(count, 20))
        support.settle(lambda: home.status()["dying"] == 0)
        time.sleep(0.3)
        took, wrong = burst(path, template, count)
        lasts.append(took)
        failed += wrong
        support.settle(lambda: home.status()["dying"] == 0)
    allowed = count * statistics.median(singles) / os.cpu_count() * 1.2
    return {"count": count, "failed": failed, "single": figures.summary(singles), "last": figures.summary(lasts),
            "allowed_ms": allowed * 1e3}


def open_sessions(path: str, options: argparse.Namespace, sessions: list[Session], progress) -> list[float]:
    times = []
    for number in range(options.sessions):
        begin = time.perf_counter()
        sessions.append(Session(path, options.template, options.mode))
        if sessions[-1].cell(CELLS[options.cell] % number) != b"":
            raise AssertionError("an assignment wrote something")
        times.append(time.perf_counter() - begin)
        progress(number + 1)
    return times


def measure_sessions(home: support.Home, options: argparse.Namespace, progress) -> dict:
    sessions: list[Session] = []
    try:
        return measure_open(home, options, sessions, progress)
    finally:
        for session in sessions:
            session.close()


def measure_open(home: support.Home, options: argparse.Namespace, sessions: list[Session], progress) -> dict:
    path = home.runtime + "/engine.sock"
    count = options.sessions
    settling = min(SETTLED_WITHIN, 2 + count / 100)
    objects = {"before": kernel_objects(home)}
    before = available(settling)
    times = open_sessions(path, options, sessions, progress)
    after = available(settling)
    objects["open"] = kernel_objects(home)
    answers = [session.cell("print(y)") == b"%d\n" % number for number, session in enumerate(sessions)]
    cells = []
    for session in sessions[:: max(count // 200, 1)]:
        begin = time.perf_counter()
        session.cell("y += 1")
        cells.append(time.perf_counter() - begin)
    begin = time.monotonic()
    for session in sessions:
        session.close()
    gone = support.settle(lambda: (status := home.status())["sessions"] == 0 and status["dying"] == 0, 60)
    teardown = time.monotonic() - begin
    objects["after"] = kernel_objects(home)
    return {"count": count, "bytes_each": (before - after) / count, "answered": sum(answers),
            "start_at_10": figures.summary(times[5:15]), "start_at_all": figures.summary(times[-50:]),
            "cell": figures.summary(cells), "teardown_s": teardown, "all_gone": bool(gone), "objects": objects}


def leave() -> dict[str, str]:
    """The engine is stopped; whatever differs from before it was started, by kind."""
    try:
        support.finish()
    except AssertionError as error:
        return dict(part.split(": ", 1) for part in str(error).removeprefix("left behind: ").split("; "))
    return {}


def succeeded(found: dict, strict: bool) -> bool:
    """Nothing failed; where it is strict, no goal was missed either."""
    sessions, at_once = found.get("sessions"), found.get("burst")
    if sessions and not (sessions["answered"] == sessions["count"] and sessions["all_gone"]):
        return False
    if found["left"] or (at_once and at_once["failed"]):
        return False
    return not (strict and goals.missed(goals.judge("density", found)))


def show(found: dict) -> None:
    def told(times: dict) -> str:
        return "%.2f ms (%.2f to %.2f, n %d)" % (times["p50_ms"], times["least_ms"], times["most_ms"], times["n"])

    if burst := found.get("burst"):
        print("one start on demand: %s\nthe last of %d: %s; %d failed" % (
            told(burst["single"]), burst["count"], told(burst["last"]), burst["failed"]))
    if sessions := found.get("sessions"):
        print("%d of %d sessions answer; %.2f MiB each; all gone after %.1f s: %s" % (
            sessions["answered"], sessions["count"], sessions["bytes_each"] / (1 << 20), sessions["teardown_s"],
            sessions["all_gone"]))
        print("a start beside 10: %s\na start beside all: %s\none more cell: %s" % (
            told(sessions["start_at_10"]), told(sessions["start_at_all"]), told(sessions["cell"])))
        print("%-20s %8s %8s %8s" % ("", *sessions["objects"]))
        for kind in sessions["objects"]["before"]:
            print("%-20s %8d %8d %8d" % (kind, *(counts[kind] for counts in sessions["objects"].values())))
    for kind, what in found["left"].items():
        print("left behind: %s: %s" % (kind, what))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--burst", type=int, default=100)
    parser.add_argument("--template", default="default")
    parser.add_argument("--mode", choices=MODES, default="plain", help="of the sessions")
    parser.add_argument("--cell", choices=CELLS, default="small", help="what each has run")
    parser.add_argument("--strict", action="store_true", help="a goal that is missed is a failure, too")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    measurement = figures.Measurement("density", options)

    def progress(done: int) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K%d of %d sessions" % (done, options.sessions), end="", file=sys.stderr, flush=True)

    home = support.begin(options.template)
    home.environment["HUTCH_ENGINE_MAX_SESSIONS"] = str(options.sessions)
    home.environment["HUTCH_ENGINE_POOL_MAX"] = "8"
    found: dict = {"template": options.template, "mode": options.mode, "cell": options.cell, "cores": os.cpu_count()}
    try:
        first = home.run("1")
        if first.code != 0:
            sys.exit(first.errors)
        path = home.runtime + "/engine.sock"
        if options.burst:
            found["burst"] = measure_burst(home, path, options.template, options.burst)
        if options.sessions:
            found["sessions"] = measure_sessions(home, options, progress)
    finally:
        found["left"] = leave()
    measurement.write(options.json, found)
    show(found)
    for line in goals.lines(goals.judge("density", found)):
        print(line)
    return 0 if succeeded(found, options.strict) else 1


if __name__ == "__main__":
    sys.exit(main())
