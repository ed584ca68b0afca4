#!/usr/bin/env python3
"""What HTTP costs: the same print(1) as an engine call and as POST /v1/run, one more cell of a live session, and a call
of the tool run_python over the same run on /v1.

  python3 tests/performance/overhead.py [--rounds 300] [--template bare] [--json FILE]

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
        engine_ms, http_ms, cell_ms, same_ms, tool_ms = [], [], [], [], []
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
                    engine_ms.append(a), http_ms.append(b), cell_ms.append(c), same_ms.append(d), tool_ms.append(e)
    finally:
        server.stop()
    p50 = statistics.median
    return {"rounds": rounds, "engine_ms": p50(engine_ms), "http_ms": p50(http_ms),
            "overhead_ms": p50(http_ms) - p50(engine_ms), "cell_ms": p50(cell_ms),
            "same_run_ms": p50(same_ms), "tool_ms": p50(tool_ms), "tool_overhead_ms": p50(tool_ms) - p50(same_ms),
            "cell_p95_ms": sorted(cell_ms)[int(rounds * 0.95)]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--template", default="bare")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    home = support.Home()
    try:
        result = measure(home, arguments.template, arguments.rounds)
    finally:
        home.call("engine", "stop")
        home.close()
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)
    goals = (("HTTP over an engine call, p50", result["overhead_ms"], MOST_OVERHEAD_MS),
             ("one more cell over HTTP, p50", result["cell_ms"], MOST_CELL_MS),
             ("a tool call over the same run, p50", result["tool_overhead_ms"], MOST_TOOL_MS))
    print("engine call %.3f ms, POST /v1/run %.3f ms, cell %.3f ms (p95 %.3f)" % (
        result["engine_ms"], result["http_ms"], result["cell_ms"], result["cell_p95_ms"]))
    for name, value, most in goals:
        print("%-4s %-32s %.3f ms, at most %.1f" % ("ok" if value <= most else "FAIL", name, value, most))
    failed = sum(value > most for _, value, most in goals)
    print("%d passed, %d failed" % (len(goals) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
