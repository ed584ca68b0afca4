#!/usr/bin/env python3
"""Many clients of one daemon, a fifth of them hostile: every ordinary answer must be right, a victim must not suffer.

  python3 tests/performance/load.py [--clients 200] [--seconds 300] [--template bare] [--json FILE]

A victim and a prober measure the idle daemon, before and after; in between they go on while clients of eight tenants
mix runs, cells, files, streams and hostile programs; then a daemon with a short queue is asked for too much. All share
the machine's cores; the clients are niced, and those who measure never wait for a processor (real time, as root). Exits
with 1 when a criterion is not met. As root it is also told what the figures are without the moments in which the
machine itself was away.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import api_support  # noqa: E402
import figures  # noqa: E402
import machine  # noqa: E402
import support  # noqa: E402
from figures import percentile, summary  # noqa: E402
from load_connection import Answer, Connection, Lost  # noqa: E402

TENANTS = 8
IDLE_SAMPLES = 300  # before the load, and as many after it: the machine is not ours alone, and not always as quiet
REFUSED_WITHIN, VICTIM_FACTOR = 0.010, 2.0
FORK = multiprocessing.get_context("fork")
# Output beyond the cap goes to disk, and this disk is not ours alone.
ENVIRONMENT = {"HUTCH_ENGINE_POOL_MAX": "8", "HUTCH_SERVE_LOG_CAP": "4MiB"}
HOSTILE_LIMITS = {"timeout": 1, "memory": 96 << 20, "scratch": 16 << 20, "processes": 24, "output": 1 << 20}
SESSION_LIMITS = {"memory": 128 << 20, "scratch": 16 << 20, "processes": 24}

# The program, and the exit codes it may end with; on a busy machine any may run out of time first, which is 124.
HOSTILE = {
    "fork bomb": ("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", (124,)),
    "memory bomb": ("x = []\nwhile True: x.append(bytearray(1 << 22))", (1, 137)),
    "endless print": ("while True: print('x' * 65536)", (137,)),
    "disk filler": ("n = 0\nwhile True:\n  n += 1\n  open('f%d' % n, 'wb').write(bytes(1 << 20))", (1, 137)),
    "ignores signals": ("import signal\nfor s in (1, 2, 3, 14, 15): signal.signal(s, 1)\nwhile True: pass", (124,)),
    "closes all": ("import os\nos.closerange(0, 4096)\nwhile True: pass", (120, 137)),
    "_exit": ("import os; os._exit(7)", (7,)),
    "segfault": ("import ctypes; ctypes.string_at(0)", (139,)),
}
KINDS = {"run": 30, "cell": 22, "files": 14, "stream": 14, "hostile run": 12, "hostile cell": 6, "hang up": 2}


# Clients


class Tally:
    def __init__(self) -> None:
        self.times: dict[str, list[float]] = collections.defaultdict(list)
        self.refused: collections.Counter = collections.Counter()
        self.refusals: list[float] = []
        self.problems: dict[str, list[str]] = collections.defaultdict(list)
        self.hostile: collections.Counter = collections.Counter()

    def merge(self, other: Tally) -> None:
        for kind, times in other.times.items():
            self.times[kind] += times
        for kind, problems in other.problems.items():
            self.problems[kind] += problems
        self.refused += other.refused
        self.hostile += other.hostile
        self.refusals += other.refusals

    def add_refusal(self, answer: Answer, took: machine.Took) -> None:
        """It must say in both ways when to come again."""
        error, header = answer.json["error"], answer.headers.get("retry-after", "")
        self.refused["%d %s" % (answer.status, error["code"])] += 1
        self.refusals.append(took)
        ms = error["retry_after_ms"]
        if not header.isdigit() or not isinstance(ms, int) or ms <= 0 or int(header) < ms // 1000:
            self.problems["refusal"].append("Retry-After %r, retry_after_ms %r: %r" % (header, ms, answer))


class Wrong(Exception):
    """Not what was expected; `kind` says how bad it is."""

    def __init__(self, text: str, kind: str = "wrong") -> None:
        super().__init__(text)
        self.kind = kind


class Client:
    """One after the other, on one connection, with at most one session."""

    def __init__(self, options: argparse.Namespace, connection: Connection, seed: int) -> None:
        self.options, self.connection, self.tally = options, connection, Tally()
        self.random = random.Random(seed)
        self.session = ""
        self.value: int | None = None  # what the session's variable must be
        self.before: list[str] = []  # what was done in the session

    def program(self, code: str, **more) -> dict:
        return {"code": code, "template": self.options.template, **more}

    def ask(self, method: str, target: str, *arguments, expect: tuple = (200,), **more) -> Answer:
        """Comes again when told so; anything but what is expected is wrong."""
        while True:
            begin = time.monotonic()
            answer = self.connection.request(method, target, *arguments, **more)
            if answer.status in expect:
                return answer
            if answer.status not in (429, 503):
                raise Wrong("%s %s: %r" % (method, target, answer), "5xx" if answer.status >= 500 else "wrong")
            self.tally.add_refusal(answer, machine.Took.since(begin))
            time.sleep((answer.json["error"]["retry_after_ms"] or 1000) / 1000 * self.random.uniform(1, 1.2))

    def work(self, kinds: dict[str, int], deadline: float) -> None:
        while time.monotonic() < deadline:
            kind = self.random.choices(list(kinds), list(kinds.values()))[0]
            begin = time.monotonic()
            try:
                getattr(self, kind.replace(" ", "_"))()
                self.tally.times[kind].append(time.monotonic() - begin)
            except (Lost, OSError, http.client.HTTPException) as error:
                self.tally.problems["lost"].append("%s: %s" % (kind, error))
                self.session = ""
            except (Wrong, LookupError, TypeError, ValueError) as error:
                self.tally.problems[getattr(error, "kind", "wrong")].append("%s: %r" % (kind, error))
                self.leave_session()
        self.leave_session()

    def must_be(self, run: dict, out: str) -> None:
        if (run["status"], run["stdout"], run["stderr"], run["exit_code"], run["error"]) != ("ok", out, "", 0, None):
            said = [run[name] for name in ("execution_id", "status", "stdout", "session", "execution_count", "error")]
            raise Wrong("expected %r: %s; in this session before: %s" % (out, json.dumps(said), self.before[-4:]))

    def run(self) -> None:
        number = self.random.getrandbits(60)
        answer = self.ask("POST", "/v1/run", self.program("print(%d + 1)" % number))
        self.must_be(answer.json, "%d\n" % (number + 1))
        if number % 10 == 0:
            again = self.ask("GET", "/v1/runs/" + answer.json["execution_id"])
            if again.json != answer.json:
                raise Wrong("read again: %r is not %r" % (again, answer))

    def slow_run(self) -> None:  # only where too much is asked for
        self.ask("POST", "/v1/run", self.program("import time; time.sleep(0.5)"))

    def need_session(self) -> str:
        if not self.session:
            answer = self.ask("POST", "/v1/sessions", {
                "template": self.options.template, "mode": "plain", "limits": SESSION_LIMITS}, expect=(201,))
            self.session, self.value, self.before = "/v1/sessions/" + answer.json["id"], None, []
        return self.session

    def leave_session(self) -> None:
        if not self.session:
            return
        path, self.session = self.session, ""
        try:
            if (answer := self.connection.request("DELETE", path)).status != 204:
                self.tally.problems["wrong"].append("DELETE %s: %r" % (path, answer))
        except Lost as error:
            self.tally.problems["lost"].append(str(error))

    def cell(self) -> None:
        path = self.need_session()
        number = self.random.getrandbits(60)
        code = "v = %d" % number if self.value is None else "print(v); v = %d" % number
        answer = self.ask("POST", path + "/runs", {"code": code})
        self.must_be(answer.json, "" if self.value is None else "%d\n" % self.value)
        self.value = number
        self.before.append("cell")
        if number % 20 == 0:
            self.leave_session()

    def files(self) -> None:
        name = "%s/files/d%d/f%d" % (self.need_session(), self.random.getrandbits(2), self.random.getrandbits(30))
        content = self.random.randbytes(self.random.choice((0, 100, 10_000, 300_000)))
        info = self.ask("PUT", name, body=content, expect=(201,)).json
        got = self.ask("GET", name).body
        if (info["size"], got) != (len(content), content):
            raise Wrong("stored %s, read %d bytes, not the %d written" % (info, len(got), len(content)))
        self.ask("DELETE", name, expect=(204,))
        self.ask("GET", name, expect=(404,))

    def stream(self) -> None:
        accept = self.random.choice(("text/event-stream", "application/x-ndjson"))
        number = self.random.getrandbits(60)
        program = self.program("for i in range(5): print(%d, i, flush=True)" % number)
        answer = self.ask("POST", "/v1/run", program, accept=accept)
        lines = answer.body.decode().splitlines()
        if accept == "text/event-stream":
            lines = [line[5:] for line in lines if line.startswith("data:")]
        events = [json.loads(line) for line in lines if line]
        expected = "".join("%d %d\n" % (number, i) for i in range(5))
        if not events or [event["seq"] for event in events] != list(range(1, len(events) + 1)):
            raise Wrong("numbering: %r" % answer)
        if events[-1]["type"] != "finished":
            raise Wrong("no end: %s" % events[-1])
        if "".join(event["text"] for event in events if event["type"] == "stdout") != expected:
            raise Wrong("events tell something else: %r" % answer)
        self.must_be(events[-1]["result"], expected)

    def judge(self, name: str, run: dict) -> None:
        self.tally.hostile[name] += 1
        code, status = run["exit_code"], run["status"]
        expected = "timeout" if code == 124 else "error"
        if code not in (124, *HOSTILE[name][1]) or status != expected or not run["error"]:
            raise Wrong("%s: %s %s %s" % (name, status, code, run["error"]), "hostile")

    def hostile_run(self) -> None:
        name = self.random.choice(list(HOSTILE))
        answer = self.ask("POST", "/v1/run", self.program(HOSTILE[name][0], limits=HOSTILE_LIMITS))
        self.judge(name, answer.json)

    def hostile_cell(self) -> None:
        name = self.random.choice(list(HOSTILE))
        path = self.need_session()
        run = (self.ask("POST", path + "/runs", {"code": HOSTILE[name][0], "timeout": 1})).json
        self.judge(name, run)
        self.before.append("%s: %s %s, %s" % (name, run["status"], run["exit_code"], run["session"]["state"]))
        if run["session"]["state"] != "kept":
            self.value = None
        if name == "disk filler" or self.random.random() < 0.3:
            self.leave_session()

    def hang_up(self) -> None:
        """A stream of endless output that nobody reads to its end."""
        program = self.program(HOSTILE["endless print"][0], limits=HOSTILE_LIMITS)
        self.connection.begin("POST", "/v1/run", program, accept="text/event-stream").read(10_000)
        self.connection.http.close()


def go_apart(priority: int) -> None:
    """Where the kernel schedules by sessions (autogroup), a process shares the lot of its own and nice is for within."""
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
        file.write(str(priority))
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, priority)


def go_before_all() -> None:
    """As if on another machine: what those who measure wait for is the daemon, not a processor. In real time as root,
    else by priority."""
    go_apart(-10)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def drive(options: argparse.Namespace, kinds: dict[str, int], port: int, keys: list[str], numbers: range,
          deadline: float) -> Tally:
    go_apart(10)
    clients = [Client(options, Connection(port, keys[number % len(keys)]), number) for number in numbers]
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        for done in [pool.submit(client.work, kinds, deadline) for client in clients]:
            done.result()
    tally = Tally()
    for client in clients:
        tally.merge(client.tally)
    return tally


# Victim and prober


def be_victim(options: argparse.Namespace, port: int, key: str, samples: int, deadline: float) -> Tally:
    """A small run and a small cell in turn, for so many turns or until then."""
    go_before_all()
    tally, connection, number = Tally(), Connection(port, key), 0
    answer = connection.request("POST", "/v1/sessions", {"template": options.template, "mode": "plain"})
    path = "/v1/sessions/" + answer.json["id"]
    while number < samples if samples else time.monotonic() < deadline:
        number += 1
        for kind, target, more in (("run", "/v1/run", {"template": options.template}), ("cell", path + "/runs", {})):
            answer, took = connection.timed("POST", target, {"code": "print(%d)" % number, **more})
            if answer.status in (429, 503):
                tally.add_refusal(answer, took)
            elif answer.status != 200 or answer.json["stdout"] != "%d\n" % number:
                tally.problems["wrong"].append("victim's %s: %r" % (kind, answer))
            else:
                tally.times[kind].append(took)
                for step in answer.json["steps"]:
                    tally.times["%s: %s" % (kind, step["name"])].append(step["ms"] / 1000)
        time.sleep(0.02)
    connection.request("DELETE", path)
    return tally


def be_prober(options: argparse.Namespace, port: int, key: str, samples: int, deadline: float) -> Tally:
    """Asks for what it will be refused, and sees how late this process itself is woken."""
    go_before_all()
    tally, connection, number = Tally(), Connection(port, key), 0
    while number < samples if samples else time.monotonic() < deadline:
        number += 1
        answer, took = connection.timed("POST", "/v1/run", {"code": "print(1)", "template": options.template})
        if answer.status in (429, 503):
            tally.add_refusal(answer, took)
        elif answer.status != 200:
            tally.problems["wrong"].append("prober: %r" % answer)
        begin = time.perf_counter()
        time.sleep(0.03)
        tally.times["woken late"].append(time.perf_counter() - begin - 0.03)
    return tally


# All together


def measure_load(options: argparse.Namespace, server: api_support.Server) -> dict:
    most = str(max((options.clients // TENANTS + 1) * 4 // 5, 1))  # a little less than all of a tenant's clients
    keys = [server.new_client("tenant-%d" % i, "--concurrent-runs", most).key for i in range(TENANTS)]
    victim, prober = server.new_client("victim").key, server.new_client("prober", "--runs-per-minute", "1").key
    drivers = max(options.clients // 100, 1)
    tally = Tally()
    with concurrent.futures.ProcessPoolExecutor(drivers + 2, FORK) as pool:
        def watch(samples: int, deadline: float) -> list[Tally]:
            both = [pool.submit(be_victim, options, server.port, victim, samples, deadline),
                    pool.submit(be_prober, options, server.port, prober, samples, deadline)]
            return [one.result() for one in both]

        at_first = time.monotonic()
        idle = watch(IDLE_SAMPLES, 0)
        begin = time.monotonic()
        deadline = begin + options.seconds
        driven = [pool.submit(drive, options, KINDS, server.port, keys, range(i, options.clients, drivers), deadline)
                  for i in range(drivers)]
        time.sleep(min(2.0, options.seconds / 4))  # the clients have come
        loaded = watch(0, deadline)
        for one in driven:
            tally.merge(one.result())
        seconds = time.monotonic() - begin
        for before, after in zip(idle, watch(IDLE_SAMPLES, 0)):
            before.merge(after)
    return {"tally": tally, "idle": idle, "loaded": loaded, "seconds": seconds,
            "all_seconds": time.monotonic() - at_first}


def measure_overload(options: argparse.Namespace, home: support.Home) -> Tally:
    """A queue of eight, and many more who want to be in it."""
    server = api_support.Server(home, env={**ENVIRONMENT, "HUTCH_ENGINE_MAX_WAITING": "8"}, name="short").start()
    try:
        many, prober = server.new_client("many", "--concurrent-runs", "1000").key, server.new_client("prober").key
        deadline = time.monotonic() + min(options.seconds, 15)
        with concurrent.futures.ProcessPoolExecutor(2, FORK) as pool:
            numbers = range(min(options.clients, 60))
            crowd = pool.submit(drive, options, {"slow run": 1}, server.port, [many], numbers, deadline)
            time.sleep(1)
            tally = pool.submit(be_prober, options, server.port, prober, 0, deadline - 1).result()
            crowded = crowd.result()
        crowded.refusals.clear()  # of a process that is busy itself
        tally.merge(crowded)
        return tally
    finally:
        stops(server)


def stops(server: api_support.Server) -> bool:
    with contextlib.suppress(AssertionError):
        return server.process.poll() is None and server.stop() == 0
    return False


def criteria(load: dict, overload: Tally, survived: bool, left: str) -> list[tuple[bool, str]]:
    tally, (victim_idle, _), (victim, prober) = load["tally"], load["idle"], load["loaded"]
    everyone = (tally, victim_idle, load["idle"][1], victim, prober, overload)

    def none(kind: str, text: str) -> tuple[bool, str]:
        found = [problem for one in everyone for problem in one.problems[kind]]
        return not found, "%s: %d%s" % (text, len(found), "".join("\n      " + problem[:700] for problem in found[:5]))

    def not_slower(kind: str) -> tuple[bool, str]:
        before, after = (percentile(one.times[kind], 0.99) * 1e3 for one in (victim_idle, victim))
        return 0 < after <= VICTIM_FACTOR * before, "victim's %s: p99 %.1f ms, %.1f ms idle (goal: at most %g x)" % (
            kind, after, before, VICTIM_FACTOR)

    def quick(text: str, times: list[float]) -> tuple[bool, str]:
        worst = percentile(times, 0.99)
        return bool(times) and worst < REFUSED_WITHIN, "%s: p99 %.2f ms of %d (goal: below 10 ms)" % (
            text, worst * 1e3, len(times))

    unused = [kind for kind in KINDS if not tally.times[kind]] + [name for name in HOSTILE if not tally.hostile[name]]
    return [
        (not unused, "%d answers; never answered: %s" % (sum(map(len, tally.times.values())), unused or "nothing")),
        none("wrong", "wrong answers"),
        none("lost", "lost answers"),
        none("5xx", "5xx other than 503"),
        none("hostile", "hostile programs that ended otherwise than they must"),
        none("refusal", "refusals without Retry-After and retry_after_ms"),
        quick("refusals under load (429)", prober.refusals),
        quick("refusals by a full queue (503)", overload.refusals),
        (not victim.refused, "victim refused: %d" % sum(victim.refused.values())),
        not_slower("run"),
        not_slower("cell"),
        (survived, "the daemon survived, and ended when it was told to"),
        (not left, "census: " + (left or "clean")),
    ]


def rows_of(load: dict, overload: Tally) -> list[tuple[str, list[float]]]:
    tally, (victim_idle, prober_idle), (victim, prober) = load["tally"], load["idle"], load["loaded"]
    rows = [(kind, tally.times[kind]) for kind in KINDS]
    rows += [("refused (as clients see it)", tally.refusals), ("prober queue full: refused", overload.refusals)]
    for when, one in (("idle", prober_idle), ("loaded", prober)):
        rows += [("prober %s: refused" % when, one.refusals), ("prober %s: woken late" % when, one.times["woken late"])]
    rows += [("victim %s: %s" % (when, kind), one.times[kind]) for kind in ("run", "cell", "run: wait for a slot")
             for when, one in (("idle", victim_idle), ("loaded", victim))]
    return rows


def rows_without(watch: machine.Watch, load: dict) -> list[tuple[str, list[float]]]:
    """What is left where the machine was there all the time."""
    rows = []
    for when in ("idle", "loaded"):
        victim, prober = load[when]
        timed = [("victim", kind, victim.times[kind]) for kind in ("run", "cell")] + [("prober", "refused", prober.refusals)]
        rows += [("%s %s: %s, undisturbed" % (who, when, what), watch.during(times)) for who, what, times in timed]
    return rows


def told(load: dict, overload: Tally) -> dict:
    """What the goals are about."""
    (victim_idle, prober_idle), (victim, prober) = load["idle"], load["loaded"]
    everyone = (load["tally"], victim_idle, prober_idle, victim, prober, overload)
    problems = {name: sum(len(one.problems[kind]) for one in everyone) for name, kind in (
        ("wrong", "wrong"), ("lost", "lost"), ("server_errors", "5xx"), ("hostile_astray", "hostile"))}
    return {**problems, "answers": sum(map(len, load["tally"].times.values())), "seconds": load["seconds"],
            "refused_429": summary(prober.refusals), "refused_503": summary(overload.refusals),
            "idle": {kind: summary(victim_idle.times[kind]) for kind in ("run", "cell")},
            "loaded": {kind: summary(victim.times[kind]) for kind in ("run", "cell")}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--template", default="bare")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    measurement = figures.Measurement("load", options)

    home = support.begin(options.template, own_cgroup=False)  # where a user's would be: what it is weighed against counts
    try:
        server = api_support.Server(home, env=ENVIRONMENT).start()
        try:
            with machine.Watch() as watch:
                load = measure_load(options, server)
            memory = support.resident_bytes(server.process.pid) if server.process.poll() is None else 0
        finally:
            survived = stops(server)
        overload = measure_overload(options, home)
    finally:
        left = ""
        try:
            support.finish()
        except AssertionError as error:
            left = str(error)

    print("%d clients for %.0f s, template %s; %d cores, shared with the clients and whatever else runs here" % (
        options.clients, load["seconds"], options.template, os.cpu_count()))
    rows = rows_of(load, overload)
    if watch.possible:
        rows += rows_without(watch, load)
        print("the machine was away for %.1f %% of that time" % (100 * watch.share(load["all_seconds"])))
    print("%-36s %8s %10s %10s %10s" % ("", "count", "p50 ms", "p99 ms", "most ms"))
    for name, times in rows:
        print("%-36s %8d %10.2f %10.2f %10.2f" % (name, len(times), *(
            percentile(times, share) * 1e3 for share in (0.5, 0.99, 1))))
    refused = {"load": load["tally"].refused, "victim": load["loaded"][0].refused, "full queue": overload.refused}
    print("refused:", {name: dict(counts) for name, counts in refused.items()})
    print("hostile: %s; daemon's own memory after the load: %.1f MiB" % (dict(load["tally"].hostile), memory / 2**20))
    results = criteria(load, overload, survived, left)
    for met, text in results:
        print("%s  %s" % ("ok  " if met else "FAIL", text))
    failed = sum(not met for met, _ in results)
    print("%d passed, %d failed" % (len(results) - failed, failed))
    measurement.write(options.json, {
        **told(load, overload), "memory": memory, "refused": refused, "left": left,
        "away_share": watch.share(load["all_seconds"]) if watch.possible else None,
        "criteria": [{"met": met, "text": text} for met, text in results],
        "times": {name: summary(times) for name, times in rows},
        "victim": {name: summary(times) for name, times in load["loaded"][0].times.items()},
        "problems": load["tally"].problems})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
