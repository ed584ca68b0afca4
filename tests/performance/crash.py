#!/usr/bin/env python3
"""The daemon is killed with SIGKILL at random moments, under load, again and again; each time it must come back whole.

  python3 tests/performance/crash.py [--times 50] [--clients 20] [--template bare] [--seed 1] [--json FILE]

What a client was told before the kill must be true after it: results, files of sessions that persist, uploads. What
was under way is an error, neither running for ever nor unknown. Nothing of the old daemon may be left a second after its
death, and the new one is ready within two. Prints one line per criterion; exits with 1 when one is not met.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import api_support  # noqa: E402
import figures  # noqa: E402
import support  # noqa: E402

READY_WITHIN = 2.0
GONE_WITHIN = 1.0
OVER_WITHIN = 5.0  # a run that was under way must have an end by then
UPLOADS = (1_000, 100_000, 2_000_000)  # bytes; no size is in both
CELLS = (10, 10_000)
KEPT = 200  # results that are looked up again, newest first, of all rounds

CRITERIA = {
    "ready": "ready within %g s of its start" % READY_WITHIN,
    "processes": "no process of the old daemon is left after %g s" % GONE_WITHIN,
    "groups": "no control group of the old daemon is left once the new one is ready",
    "mounts": "no mount is left",
    "database": "the database opens and is whole",
    "results": "every result that a client had is there, and equal",
    "under way": "what was under way is an error, neither running nor unknown",
    "files": "a session that persists has every file it had acknowledged",
    "uploads": "an upload is whole or absent",
    "gone": "a session that does not persist says that it is lost",
    "answers": "before the kill every answer was right",
    "works": "the new daemon runs code",
}


class Memory:
    """What clients were told, of one round and of all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.results: collections.OrderedDict[str, dict] = collections.OrderedDict()
        self.started: set[str] = set()  # runs of which only the beginning was heard
        self.persistent: dict[str, dict[str, bytes]] = {}  # session: file: content that was acknowledged
        self.written: dict[str, dict[str, bytes]] = {}  # session: file: content that was sent, acknowledged or not
        self.transient: set[str] = set()
        self.problems: list[str] = []
        self.answers = 0

    def keep_result(self, run: dict) -> None:
        with self.lock:
            self.answers += 1
            self.results[run["execution_id"]] = run
            self.started.discard(run["execution_id"])


class Client(threading.Thread):
    """Works until the daemon is gone."""

    def __init__(self, server: api_support.Server, options: argparse.Namespace, memory: Memory, seed: int) -> None:
        super().__init__(daemon=True)
        self.server, self.options, self.memory = server, options, memory
        self.random = random.Random(seed)
        self.ended = threading.Event()

    def run(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        session = ""
        try:
            while not self.ended.is_set():
                kind = self.random.choice(("shot", "shot", "launch", "stream", "cell", "cell", "upload", "upload"))
                if kind in ("cell", "upload") and (not session or self.random.random() < 0.1):
                    session = self.new_session()
                getattr(self, kind)(*([session] if kind in ("cell", "upload") else []))
        except (OSError, http.client.HTTPException):
            pass  # killed: what was not heard does not count
        except (AssertionError, KeyError, ValueError, TypeError) as error:
            if not self.ended.is_set():
                self.memory.problems.append("%s: %r" % (type(error).__name__, error))
        finally:
            self.connection.close()

    def ask(self, method: str, target: str, data: object = None, body: bytes | None = None, expect: tuple = (200,),
            **headers: str):
        while True:
            if data is not None:
                body, headers["Content-Type"] = json.dumps(data).encode(), "application/json"
            self.connection.request(method, target, body, {"Authorization": "Bearer " + self.server.key, **headers})
            response = self.connection.getresponse()
            content = response.read()
            if response.status in expect:
                return content
            if response.status not in (429, 503):
                raise AssertionError("%s %s: %d %r" % (method, target, response.status, content[:300]))
            time.sleep(json.loads(content)["error"]["retry_after_ms"] / 1000)

    def new_session(self) -> str:
        persist = self.random.random() < 0.7
        about = json.loads(self.ask("POST", "/v1/sessions", {
            "template": self.options.template, "mode": "plain", "persist": persist,
            "limits": {"scratch": 64 << 20}}, expect=(201,)))
        with self.memory.lock:
            if persist:
                self.memory.persistent[about["id"]] = {}
                self.memory.written[about["id"]] = {}
            else:
                self.memory.transient.add(about["id"])
        return about["id"]

    def shot(self) -> None:
        number = self.random.getrandbits(60)
        run = json.loads(self.ask("POST", "/v1/run", {"code": "print(%d)" % number, "template": self.options.template}))
        assert run["status"] == "ok" and run["stdout"] == "%d\n" % number, run
        self.memory.keep_result(run)

    def launch(self) -> None:
        seconds = self.random.choice((0.01, 0.3, 1.5))
        run = json.loads(self.ask("POST", "/v1/run", {
            "code": "import time; time.sleep(%g); print(1)" % seconds, "template": self.options.template, "wait_ms": 0},
            expect=(200, 202)))
        self.memory.started.add(run["execution_id"])
        if self.random.random() < 0.5:
            run = json.loads(self.ask("GET", "/v1/runs/%s?wait_ms=10000" % run["execution_id"]))
            assert run["status"] == "ok" and run["stdout"] == "1\n", run
            self.memory.keep_result(run)

    def stream(self) -> None:
        text = self.ask("POST", "/v1/run", {"code": "print(2)", "template": self.options.template},
                        Accept="application/x-ndjson").decode()
        last = json.loads(text.splitlines()[-1])
        assert last["type"] == "finished" and last["result"]["stdout"] == "2\n", text
        self.memory.keep_result(last["result"])

    def cell(self, session: str) -> None:
        name, content = self.next_file(session, self.random.choice(CELLS))
        code = "open(%r, 'wb').write(bytes.fromhex(%r)); print(3)" % (name, content.hex())
        run = json.loads(self.ask("POST", "/v1/sessions/%s/runs" % session, {"code": code}))
        assert run["status"] == "ok" and run["stdout"] == "3\n", run
        self.memory.keep_result(run)
        self.acknowledge(session, name, content)

    def upload(self, session: str) -> None:
        name, content = self.next_file(session, self.random.choice(UPLOADS))
        self.ask("PUT", "/v1/sessions/%s/files/%s" % (session, name), body=content, expect=(200, 201))
        self.acknowledge(session, name, content)

    def next_file(self, session: str, size: int) -> tuple[str, bytes]:
        """A name among twelve, so that files are replaced as well; one at a time, for a session has one client."""
        name, content = "f%d" % self.random.randrange(12), self.random.randbytes(size)
        with self.memory.lock:
            if session in self.memory.written:
                self.memory.written[session][name] = content
        return name, content

    def acknowledge(self, session: str, name: str, content: bytes) -> None:
        with self.memory.lock:
            if session in self.memory.persistent:
                self.memory.persistent[session][name] = content


class Round:
    """One death: what was true before, looked for afterwards."""

    def __init__(self, options: argparse.Namespace, server: api_support.Server, memory: Memory, number: int) -> None:
        self.options, self.server, self.memory, self.number = options, server, memory, number
        self.random = random.Random(options.seed * 1000 + number)
        self.failed: dict[str, list[str]] = collections.defaultdict(list)
        self.checked: collections.Counter = collections.Counter()
        self.ready = self.gone = 0.0

    def fail(self, criterion: str, text: str) -> None:
        self.failed[criterion].append("round %d: %s" % (self.number, text))

    def go(self) -> None:
        clients = [Client(self.server, self.options, self.memory, self.random.getrandbits(30))
                   for _ in range(self.options.clients)]
        for client in clients:
            client.start()
        time.sleep(self.random.uniform(0.3, 2.5))
        old_groups, mounts = set(support.groups_of(self.server.home)), support.count_lines("/proc/self/mountinfo")
        self.kill(clients)
        self.start()
        self.check_rests(old_groups, mounts)
        self.check_database()
        api = Plain(self.server)
        self.check_results(api)
        self.check_under_way(api)
        self.check_sessions(api)
        status, run = api.json("POST", "/v1/run", {"code": "print(7)", "template": self.options.template})
        if status != 200 or run["stdout"] != "7\n":
            self.fail("works", "%d %s" % (status, run))
        api.close()

    def kill(self, clients: list[Client]) -> None:
        family = set(support.descendants(self.server.process.pid))
        for client in clients:
            client.ended.set()  # whatever they hear from now on is no problem
        self.server.process.kill()
        begin = time.monotonic()
        self.server.process.wait()
        support.settle(lambda: not family & set(support.descendants()), GONE_WITHIN)
        left = {pid: name for pid, name in support.descendants().items() if pid in family}
        self.gone = time.monotonic() - begin
        if left:
            self.fail("processes", "%s" % sorted(left.values()))
            support.settle(lambda: not family & set(support.descendants()), 30)
            self.gone = time.monotonic() - begin
        for client in clients:
            client.join()

    def start(self) -> None:
        """As api_support does, but the clock runs from its start to the first 200 of /readyz."""
        server, begin = self.server, time.monotonic()
        ready = os.path.join(server.home.directory, "ready.json")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(ready)
        with open(server.data + ".said", "ab") as out:
            server.process = server.home.start(
                "serve", "--listen", "127.0.0.1:0", "--socket", server.socket, "--data", server.data,
                "--ready-file", ready, "--log", server.data + ".log", env=server.env,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        while time.monotonic() - begin < 30:
            if server.process.poll() is not None:
                raise AssertionError("round %d: hutch serve did not start again, see %s" % (self.number, server.data))
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                with open(ready) as file:
                    server.port = int(json.load(file)["listen"].rpartition(":")[2])
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                with contextlib.closing(connection):
                    connection.request("GET", "/readyz")
                    if connection.getresponse().status == 200:
                        break
            time.sleep(0.002)
        self.ready = time.monotonic() - begin
        if self.ready > READY_WITHIN:
            self.fail("ready", "%.2f s" % self.ready)

    def check_rests(self, old_groups: set[str], mounts: int) -> None:
        def left() -> list[str]:
            return sorted(old_groups & set(support.groups_of(self.server.home)))

        support.settle(lambda: not left(), GONE_WITHIN)
        if rest := left():
            self.fail("groups", "%d of %d: %s" % (len(rest), len(old_groups), rest[:2]))
        now = support.count_lines("/proc/self/mountinfo")
        if now != mounts:
            self.fail("mounts", "%d before, %d after" % (mounts, now))

    def check_database(self) -> None:
        with contextlib.closing(sqlite3.connect("file:%s/hutch.db?mode=ro" % self.server.data, uri=True)) as database:
            found = database.execute("PRAGMA integrity_check").fetchone()[0]
        if found != "ok":
            self.fail("database", found)

    def check_results(self, api: Plain) -> None:
        for name, run in list(self.memory.results.items())[-KEPT:]:
            status, now = api.json("GET", "/v1/runs/" + name)
            self.checked["results"] += 1
            now.pop("events", None)
            if status != 200 or now != {key: value for key, value in run.items() if key != "events"}:
                different = [key for key in run if key != "events" and now.get(key) != run[key]]
                self.fail("results", "%s: %d, %s: %s" % (name, status, different, json.dumps(now)[:300]))

    def check_under_way(self, api: Plain) -> None:
        for name in self.memory.started:
            self.checked["under way"] += 1
            status, now = api.json("GET", "/v1/runs/%s?wait_ms=%d" % (name, OVER_WITHIN * 1000))
            lost = status == 200 and now["status"] == "error" and now["error"] and now["error"]["code"] == "worker_lost"
            # They were answered with this name: one that nobody knows any more is lost.
            if not lost and (status != 200 or now["status"] != "ok"):
                self.fail("under way", "%s: %d %s" % (name, status, json.dumps(now)[:400]))
        self.memory.started.clear()
        status, listed = api.json("GET", "/v1/runs?status=running&limit=100")
        if status != 200 or listed["runs"]:
            self.fail("under way", "said to be running: %s" % json.dumps(listed)[:300])

    def check_sessions(self, api: Plain) -> None:
        for name in self.memory.transient:
            status, _ = api.json("POST", "/v1/sessions/%s/runs" % name, {"code": "1"})
            if status != 410:
                self.fail("gone", "%s: a run in it is answered with %d" % (name, status))
            api.json("DELETE", "/v1/sessions/" + name)
        for name, files in self.memory.persistent.items():
            self.check_files(api, name, files, self.memory.written[name])
            status, answer = api.json("DELETE", "/v1/sessions/" + name)
            if status != 204:
                self.fail("files", "DELETE %s: %d %s" % (name, status, answer))
        for known in (self.memory.transient, self.memory.persistent, self.memory.written):
            known.clear()

    def check_files(self, api: Plain, session: str, files: dict[str, bytes], written: dict[str, bytes]) -> None:
        status, run = api.json("POST", "/v1/sessions/%s/runs" % session, {"code": "print(1)"})
        if status != 200 or run["stdout"] != "1\n":
            return self.fail("files", "a cell in %s: %d %s" % (session, status, json.dumps(run)[:400]))
        for name in sorted(written):
            self.checked["uploads"] += 1
            status, content = api.call("GET", "/v1/sessions/%s/files/%s" % (session, name))
            told = files.get(name)
            if (status == 200 and content in (told, written[name])) or (status == 404 and told is None):
                continue
            found = "absent" if status == 404 else "an older one" if len(content) in (*CELLS, *UPLOADS) else "torn"
            if found == "torn":
                self.fail("uploads", "%s/%s: %d bytes of %d" % (session, name, len(content), len(written[name])))
            how = "never acknowledged" if told is None else "acknowledged by a " + (
                "cell" if len(told) in CELLS else "PUT")
            self.fail("files", "%s/%s, %s: %s" % (session, name, how, found))
        return None


class Plain:
    """One connection to the new daemon."""

    def __init__(self, server: api_support.Server) -> None:
        self.key = server.key
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def call(self, method: str, target: str, data: object = None) -> tuple[int, bytes]:
        headers = {"Authorization": "Bearer " + self.key}
        if data is not None:
            headers["Content-Type"] = "application/json"
        self.connection.request(method, target, None if data is None else json.dumps(data), headers)
        response = self.connection.getresponse()
        return response.status, response.read()

    def json(self, method: str, target: str, data: object = None) -> tuple[int, dict]:
        status, content = self.call(method, target, data)
        return status, json.loads(content) if content else {}

    def close(self) -> None:
        self.connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--template", default="bare")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    measurement = figures.Measurement("crash", options)

    home = support.begin(options.template)
    before = support.take_census(home)
    environment = {"HUTCH_ENGINE_POOL_MAX": "4", "HUTCH_SERVE_CONCURRENT_RUNS": "1000",
                   "HUTCH_SERVE_SESSIONS_PER_KEY": "1000"}
    failed: dict[str, list[str]] = collections.defaultdict(list)
    checked: collections.Counter = collections.Counter()
    ready, gone, memory = [], [], Memory()
    try:
        server = api_support.Server(home, env=environment).start()
        for number in range(1, options.times + 1):
            one = Round(options, server, memory, number)
            one.go()
            for criterion, problems in one.failed.items():
                failed[criterion] += problems
            checked += one.checked
            ready.append(one.ready)
            gone.append(one.gone)
            print("round %d: ready after %.2f s, old one gone after %.2f s, %d results so far; failed: %s" % (
                number, one.ready, one.gone, len(memory.results), ", ".join(one.failed) or "none"),
                file=sys.stderr, flush=True)
        server.stop()
        support.settle(lambda: support.take_census(home) == before)
        left = support.differences(before, support.take_census(home))
    finally:
        for pid in sorted(support.descendants(), reverse=True):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        home.close()

    failed["answers"] += memory.problems
    results = [(not failed[name], text, failed[name]) for name, text in CRITERIA.items()]
    results.append((not left, "in the end nothing is left", [left] if left else []))
    print("%d deaths under %d clients, %d answers; %s looked at" % (
        options.times, options.clients, memory.answers, ", ".join("%d %s" % (n, what) for what, n in checked.items())))
    print("ready: median %.2f s, most %.2f s; old one gone: most %.2f s (%d cores, shared)" % (
        sorted(ready)[len(ready) // 2], max(ready), max(gone), os.cpu_count()))
    for met, text, problems in results:
        print("%s  %s%s" % ("ok  " if met else "FAIL", text, "" if met else ": %d" % len(problems)))
        for problem in problems[:4]:
            print("        " + problem[:500])
    count = sum(not met for met, _, _ in results)
    print("%d passed, %d failed" % (len(results) - count, count))
    measurement.write(options.json, {
        "ready": figures.summary(ready), "gone": figures.summary(gone), "answers": memory.answers, "checked": checked,
        "problems": {**failed, "left": [left] if left else []}})
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
