"""Ten thousand malformed requests: each is refused, and nothing of them stays in the daemon's memory."""
from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Iterator

import api_support
import support
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish

FIRST, REQUESTS = 1_000, 10_000
MOST_GROWTH = 1 << 20  # bytes: a hundred for each request
HEAD = b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nX-API-Key: %s\r\n"

# Everything about these is wrong before a handler is asked.
NOT_HTTP = (b"\0" * 3000 + b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"G\x01T / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nHo st: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100 + b"\r\n\r\n",
            b"GET /\xff\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
MANY_HEADERS = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: x\r\n" % i for i in range(100_000)) + \
               b"\r\n"
BODIES = (b"[" * 100_000, b'{"a":' * 1000 + b"1" + b"}" * 1000, b'{"code": "\xff"}', b'{"code": NaN}', b"{" * 10,
          b'{"code": "' + b"x" * 200_000, b'{"code": "1", "unknown": [' + b"[]," * 5_000 + b"[]]}")

ESTABLISHED, CLOSE_WAIT = "01", "08"


def count_connections(port: int) -> int:
    """That a server at this port has not closed yet."""
    with open("/proc/net/tcp") as file:
        lines = [line.split() for line in file][1:]
    return sum(local.endswith(":%04X" % port) and state in (ESTABLISHED, CLOSE_WAIT) for _, local, _, state, *_ in lines)


class Malformed(ApiScenario):
    def requests(self) -> Iterator[tuple[bytes, bool]]:
        """For ever, in the same order; and whether the request is whole, so that there is something to wait for."""
        head = HEAD % api_support.server.key.encode()
        whole = [(data, True) for data in NOT_HTTP * 4 + (MANY_HEADERS,)]
        whole += [(b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body), True) for body in BODIES]
        halves = [(head, False), (head[:60], False)]
        halves += [(b"%sContent-Length: %d\r\n\r\n%s" % (head, 1 << 20, b'{"code": "' + b"x" * size), False)
                   for size in (0, 10_000, 300_000)]
        halves += [(b"%sTransfer-Encoding: chunked\r\n\r\n5\r\n{\"cod" % head, False)]
        return itertools.cycle(whole + halves)

    def send(self, data: bytes, is_whole: bool) -> None:
        if is_whole:
            got = api_support.server.raw(data)
            # Nothing: it hung up while we were still sending.
            self.assertTrue(got == b"" or got.startswith(b"HTTP/1.1 4"), (data[:100], got[:200]))
            return
        with socket.create_connection((api_support.server.host, api_support.server.port), timeout=10) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)

    def memory_after(self, requests: Iterator[tuple[bytes, bool]]) -> int:
        """Once the daemon has noticed that everybody is gone."""
        for data, is_whole in requests:
            self.send(data, is_whole)
        self.assertTrue(support.settle(lambda: count_connections(api_support.server.port) == 0), "connections are left")
        return support.resident_bytes(api_support.server.process.pid)

    def test_malformed_requests_leave_nothing_in_memory(self):
        self.api.run("1")
        requests = self.requests()
        before = self.memory_after(itertools.islice(requests, FIRST))
        after = self.memory_after(itertools.islice(requests, REQUESTS - FIRST))
        if not {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ):  # what a sanitizer remembers of memory is larger
            self.assertLess(after - before, MOST_GROWTH, "%d bytes before" % before)
        self.assertEqual(self.api.run("print(1)")["stdout"], "1\n")


if __name__ == "__main__":
    support.main()
