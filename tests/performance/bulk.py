#!/usr/bin/env python3
"""Two gigabytes in and out of a session, and a gigabyte printed: the daemon must pass it on, not keep it.

  python3 tests/performance/bulk.py [--size 2048] [--print 1024] [--template bare] [--json FILE]     (sizes in MiB)

Content is checked by hash on both sides; the daemon's memory is sampled all the while. Prints a table and one line per
criterion; exits with 1 when one is not met.
"""
from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import api_support  # noqa: E402
import figures  # noqa: E402
import support  # noqa: E402

MOST_GROWTH = 32 << 20
PIECE = 1 << 20
LIMITS = {"memory": 4 << 30, "scratch": 3 << 30, "timeout": 300, "cpu_time": 300}


def memory_of(pid: int) -> dict[str, int]:
    """In bytes, by name: VmRSS is now, VmHWM the most there ever was."""
    with open("/proc/%d/status" % pid) as file:
        return {line.split(":")[0]: int(line.split()[1]) << 10 for line in file if line.startswith(("VmRSS", "VmHWM"))}


class Watch(threading.Thread):
    """How much the daemon's memory grew while this was open."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.over = pid, threading.Event()

    def __enter__(self) -> Watch:
        with open("/proc/%d/clear_refs" % self.pid, "w") as file:
            file.write("5")  # VmHWM counts from here
        self.before = memory_of(self.pid)["VmRSS"]
        self.most, self.begin = self.before, time.monotonic()
        self.start()
        return self

    def run(self) -> None:
        while not self.over.wait(0.02):
            self.most = max(self.most, memory_of(self.pid)["VmRSS"])

    def __exit__(self, *error: object) -> None:
        self.seconds = time.monotonic() - self.begin
        self.over.set()
        self.join()
        self.growth = max(self.most, memory_of(self.pid)["VmHWM"]) - self.before


def pieces(size: int):
    """Bytes that no two places have in common, made quickly: a counter in front of a random block."""
    block = os.urandom(PIECE)
    for number in range(size // PIECE):
        yield number.to_bytes(8, "big") + block[8:]


class Bulk:
    def __init__(self, options: argparse.Namespace, server: api_support.Server) -> None:
        self.options, self.server = options, server
        self.rows: list[tuple[str, int, Watch]] = []
        self.results: list[tuple[bool, str]] = []

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300)

    def headers(self, **more: str) -> dict[str, str]:
        return {"Authorization": "Bearer " + self.server.key, **more}

    def ask(self, method: str, target: str, data: object = None, expect: int = 200) -> dict:
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, target, None if data is None else json.dumps(data),
                               self.headers(**{"Content-Type": "application/json"}))
            response = connection.getresponse()
            content = response.read()
        if response.status != expect:
            raise AssertionError("%s %s: %d %r" % (method, target, response.status, content[:500]))
        return json.loads(content) if content else {}

    @contextlib.contextmanager
    def measured(self, name: str, size: int):
        with Watch(self.server.process.pid) as watch:
            yield
        self.rows.append((name, size, watch))
        self.results.append((watch.growth < MOST_GROWTH, "%s: the daemon grew by %.1f MiB (goal: below 32)" % (
            name, watch.growth / (1 << 20))))

    def check(self, name: str, found: object, expected: object) -> None:
        same = found == expected
        self.results.append((same, "%s: %s" % (name, "as expected" if same else "%r, not %r" % (found, expected))))

    def files(self) -> None:
        size = self.options.size << 20
        session = self.ask("POST", "/v1/sessions", {
            "template": self.options.template, "mode": "plain", "limits": LIMITS}, 201)
        path = "/v1/sessions/" + session["id"]
        try:
            sent = self.upload(path + "/files/big.bin", size)
            code = ("import hashlib\nh = hashlib.sha256()\nwith open('big.bin', 'rb') as f:\n"
                    "  while piece := f.read(1 << 20): h.update(piece)\nprint(h.hexdigest())")
            with self.measured("hash inside", size):
                run = self.ask("POST", path + "/runs", {"code": code})
            self.check("hash inside", run["stdout"].strip() or run["error"], sent)
            with self.measured("download", size):
                got = self.download(path + "/files/big.bin")
            self.check("download", got, (size, sent))
        finally:
            self.ask("DELETE", path, expect=204)

    def upload(self, target: str, size: int) -> str:
        digest = hashlib.sha256()

        def body():
            for piece in pieces(size):
                digest.update(piece)
                yield piece

        with contextlib.closing(self.connect()) as connection, self.measured("upload", size):
            connection.request("PUT", target, body(), self.headers(**{"Content-Length": str(size)}))
            response = connection.getresponse()
            content = response.read()
        if response.status != 201 or json.loads(content)["size"] != size:
            raise AssertionError("PUT: %d %r" % (response.status, content[:500]))
        return digest.hexdigest()

    def download(self, target: str) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", target, headers=self.headers())
            response = connection.getresponse()
            if response.status != 200:
                raise AssertionError("GET %s: %d %r" % (target, response.status, response.read()[:500]))
            while piece := response.read(PIECE):
                digest.update(piece)
                size += len(piece)
        return size, digest.hexdigest()

    def printing(self) -> None:
        """Lines that count, so that the log can be told from any other."""
        lines = self.options.print << 10  # of 1 KiB
        code = "line = 'x' * 1012\nfor i in range(%d): print('%%010d %%s' %% (i, line))" % lines
        digest = hashlib.sha256()
        for number in range(lines):
            digest.update(b"%010d %s\n" % (number, b"x" * 1012))
        size = lines << 10
        with self.measured("print", size):
            run = self.ask("POST", "/v1/run", {"code": code, "template": self.options.template,
                                               "limits": {"timeout": 300, "cpu_time": 300, "output": 1 << 30}})
        ended = run["status"], run["exit_code"], run["truncated"]["stdout"], len(run["stdout"]), bool(run["full_log"])
        self.check("print: as the run says", ended, ("ok", 0, True, 256 << 10, True))
        if run["full_log"]:
            with self.measured("full log", size):
                got = self.download(run["full_log"]["stdout"])
            self.check("full log", got, (size, digest.hexdigest()))
        with self.measured("print to a stream", size):
            told = self.stream(code)
        self.check("print to a stream: it ends", told, "finished ok")

    def stream(self, code: str) -> str:
        """What the last event says."""
        last = b""
        with contextlib.closing(self.connect()) as connection:
            connection.request("POST", "/v1/run", json.dumps({
                "code": code, "template": self.options.template, "limits": {"timeout": 300, "cpu_time": 300}}),
                self.headers(**{"Content-Type": "application/json", "Accept": "application/x-ndjson"}))
            response = connection.getresponse()
            while line := response.readline():
                last = line.strip() or last
        event = json.loads(last)
        return "%s %s" % (event["type"], event.get("result", {}).get("status"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--print", type=int, default=1024)
    parser.add_argument("--template", default="bare")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()
    measurement = figures.Measurement("bulk", options)

    home = support.begin(options.template)
    before = support.take_census(home)
    try:
        server = api_support.Server(home, env={"HUTCH_SERVE_LOG_CAP": "2GiB"}).start()
        bulk = Bulk(options, server)
        try:
            bulk.ask("POST", "/v1/run", {"code": "print(1)", "template": options.template})  # what the first one costs
            for part in (bulk.files, bulk.printing):
                try:
                    part()
                except (AssertionError, OSError, http.client.HTTPException) as error:
                    bulk.results.append((False, "%s: %s: %s" % (part.__name__, type(error).__name__, error)))
        finally:
            server.stop()
        support.settle(lambda: support.take_census(home) == before)
        left = support.differences(before, support.take_census(home))
    finally:
        for pid in sorted(support.descendants(), reverse=True):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        home.close()

    bulk.results.append((not left, "census: " + (left or "clean")))
    print("%-20s %8s %8s %8s %14s" % ("", "MiB", "s", "MiB/s", "grew by MiB"))
    for name, size, watch in bulk.rows:
        print("%-20s %8d %8.1f %8.0f %14.1f" % (name, size >> 20, watch.seconds, (size >> 20) / watch.seconds,
                                                watch.growth / (1 << 20)))
    for met, text in bulk.results:
        print("%s  %s" % ("ok  " if met else "FAIL", text))
    failed = sum(not met for met, _ in bulk.results)
    print("%d passed, %d failed" % (len(bulk.results) - failed, failed))
    measurement.write(options.json, {
        "criteria": [{"met": met, "text": text} for met, text in bulk.results],
        "rows": [{"name": name, "bytes": size, "seconds": watch.seconds, "growth": watch.growth}
                 for name, size, watch in bulk.rows]})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
