#!/usr/bin/env python3
"""What HTTP costs: the same print(1) as an engine call and as POST /v1/run, one more cell of a live session, and a call
of the tool run_python over the same run on /v1.

  python3 tests/performance/overhead.py [--rounds 300] [--template bare] [--json FILE]

What is beside the run is found in each answer by itself: the time that its client waited, less the time that the engine
had the run for, which is in the same answer. How long that run took, and whether another did at the same time, does not
enter. What the client and the kernel take of it is in there, and in the same of an engine call: HTTP costs what it has more
of that. As a cross-check the difference between the two series is told, too.

Both sides are asked over bare sockets by the same process, in turn, with a rest between, so that each start finds a
sandbox made in advance and the client's own cost is alike. Exits with 1 when a goal is missed.
"""
from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import api_support  # noqa: E402
import engine_protocol as protocol  # noqa: E402
import figures  # noqa: E402
import support  # noqa: E402

REST = 0.015  # seconds, in which the next sandbox is made
MOST_OVERHEAD_MS, MOST_CELL_MS, MOST_TOOL_MS = 0.3, 1.0, 0.2


class Http:
    """One kept connection; whole requests in, whole answers out."""

    def __init__(self, server: api_support.Server) -> None:
        self.socket = socket.create_connection((server.host, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = "Host: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n" % server.key

    def request(self, target: str, body: dict) -> bytes:
        data = json.dumps(body).encode()
        return ("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (target, self.head, len(data))).encode() + data

    def ask(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        answer = b""
        while True:
            answer += self.socket.recv(1 << 16)
            head, found, body = answer.partition(b"\r\n\r\n")
            if found and len(body) >= int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]):
                return body


def quantile(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


class Series:
    """Of one kind of request: how long each client waited, and how much of that the engine did not have the run."""

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.outside: list[float] = []

    def add(self, waited: float, engine: float) -> None:
        if engine > waited:
            raise AssertionError("the engine had a run for %.3f ms, its client waited %.3f ms" % (engine, waited))
        self.waited.append(waited)
        self.outside.append(waited - engine)


def timed(call) -> tuple[float, object]:
    begin = time.perf_counter()
    result = call()
    return (time.perf_counter() - begin) * 1e3, result


def measure(home: support.Home, template: str, rounds: int) -> dict:
    server = api_support.Server(home, env={"HUTCH_ENGINE_POOL_MAX": "8", "HUTCH_TEMPLATE": template})
    server.start()
    try:
        http = Http(server)
        home.run("print(1)", "--template", template)  # starts the engine
        one_shot = http.request("/v1/run", {"code": "print(1)", "template": template})
        about = json.loads(http.ask(http.request("/v1/sessions", {"template": template, "mode": "plain"})))
        cell = http.request("/v1/sessions/%s/runs" % about["id"], {"code": "x = 1"})
        same = http.request("/v1/run", {"code": "print(1)", "template": template, "mode": "cell"})
        tool = http.request("/v1/tools/call", {"type": "tool_use", "id": "toolu_1", "name": "run_python",
                                               "input": {"code": "print(1)"}})
        engine, over_http = Series(), Series()
        cell_ms, same_ms, tool_ms = [], [], []
        with protocol.Client(home.runtime + "/engine.sock") as client:
            for number in range(rounds + 20):
                a, outcome = timed(lambda: client.run(protocol.Request("print(1)", template)))
                time.sleep(REST)
                b, answer = timed(lambda: http.ask(one_shot))
                time.sleep(REST)
                http.ask(cell)
                c, done = timed(lambda: http.ask(cell))
                time.sleep(REST)
                d, _ = timed(lambda: http.ask(same))
                time.sleep(REST)
                e, called = timed(lambda: http.ask(tool))
                time.sleep(REST)
                if b'tool_result' not in called or b'"is_error":false' not in called:
                    raise AssertionError("a wrong answer: %r" % called[:300])
                if outcome.out != b"1\n" or b'"stdout":"1\\n"' not in answer or b'"status":"ok"' not in done:
                    raise AssertionError("a wrong answer: %r %r %r" % (outcome, answer[:200], done[:200]))
                if number >= 20:  # the first ones make the pool
                    engine.add(a, outcome.record["phases"]["total"] / 1e3)
                    over_http.add(b, json.loads(answer)["phases"]["total_ms"])
                    cell_ms.append(c), same_ms.append(d), tool_ms.append(e)
    finally:
        server.stop()
    p50 = statistics.median
    result = {"rounds": rounds, "cell_ms": p50(cell_ms), "cell_p95_ms": quantile(cell_ms, 0.95),
              "same_run_ms": p50(same_ms), "tool_ms": p50(tool_ms), "tool_overhead_ms": p50(tool_ms) - p50(same_ms)}
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        result["engine_%s_ms" % name] = quantile(engine.waited, share)
        result["http_%s_ms" % name] = quantile(over_http.waited, share)
        result["engine_outside_%s_ms" % name] = quantile(engine.outside, share)
        result["http_outside_%s_ms" % name] = quantile(over_http.outside, share)
        result["difference_%s_ms" % name] = result["http_%s_ms" % name] - result["engine_%s_ms" % name]
    result["overhead_ms"] = result["http_outside_p50_ms"] - result["engine_outside_p50_ms"]
    return result


def tell(result: dict) -> None:
    print("%d answers of each kind; in ms           p50     p95" % result["rounds"])
    for name, words in (("http", "POST /v1/run"), ("http_outside", "  less the engine's own time"),
                        ("engine", "engine call"), ("engine_outside", "  less the engine's own time"),
                        ("difference", "the two series' difference")):
        print("%-37s %7.3f %7.3f" % (words, result[name + "_p50_ms"], result[name + "_p95_ms"]))
    print("%-37s %7.3f %7.3f" % ("one more cell", result["cell_ms"], result["cell_p95_ms"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--template", default="bare")
    parser.add_argument("--json", help="where to write the figures")
    arguments = parser.parse_args()
    measurement = figures.Measurement("overhead", arguments)
    home = support.Home()
    try:
        result = measure(home, arguments.template, arguments.rounds)
    finally:
        home.call("engine", "stop")
        home.close()
    measurement.write(arguments.json, result)
    tell(result)
    goals = (("HTTP over an engine call, p50", result["overhead_ms"], MOST_OVERHEAD_MS),
             ("one more cell over HTTP, p50", result["cell_ms"], MOST_CELL_MS),
             ("a tool call over the same run, p50", result["tool_overhead_ms"], MOST_TOOL_MS))
    for name, value, most in goals:
        print("%-4s %-40s %.3f ms, at most %.1f" % ("ok" if value <= most else "FAIL", name, value, most))
    failed = sum(value > most for _, value, most in goals)
    print("%d passed, %d failed" % (len(goals) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
