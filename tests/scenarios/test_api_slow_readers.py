"""Clients that ask for much and read little: what they leave unread, or have in the daemon, takes nothing from others."""
from __future__ import annotations

import base64
import contextlib
import os

import api_support
import support
from api_support import ApiScenario

tearDownModule = api_support.finish

PLACES = 2
SHOWN = 4 << 20
SHOW = "display({'image/png': b'\\x89PNG\\r\\n\\x1a\\n'.ljust(%d)}, raw=True)" % SHOWN
READERS = 80


def setUpModule() -> None:
    api_support.begin(env={"HUTCH_ENGINE_MAX_RUNNING": str(PLACES)})


def memory() -> int:
    return support.resident_bytes(api_support.server.process.pid)


class SlowReaders(ApiScenario):
    def setUp(self):
        session = self.api.session()
        self.addCleanup(session.__exit__)
        self.session = session
        self.before = memory()

    def check_growth(self, most: int) -> None:
        if not {"ASAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ):  # what a sanitizer remembers of memory is larger
            self.assertLess(memory() - self.before, most)

    @staticmethod
    def shown(event: dict) -> int:
        return len(base64.b64decode(event["mime"]["image/png"]))

    def sockets(self, stack: contextlib.ExitStack) -> list[api_support.WebSocket]:
        """Over the Unix socket, whose buffers are small."""
        client = api_support.server.client(unix=True)
        return [stack.enter_context(client.socket_to(self.session.at + "/stream")) for _ in range(READERS)]

    def test_sockets_that_are_told_of_the_same_share_it(self):
        with contextlib.ExitStack() as stack:
            sockets = self.sockets(stack)
            self.session.run(SHOW)
            self.check_growth(SHOWN * READERS // 2)
            for socket in sockets[:2]:
                self.assertEqual(self.shown(socket.until("display")[-1]), SHOWN)

    def test_streams_that_are_told_of_the_same_share_it(self):
        with contextlib.ExitStack() as stack:
            client = api_support.server.client(unix=True)
            streams = [stack.enter_context(client.stream("GET", self.session.at + "/events?after=0"))
                       for _ in range(READERS)]
            self.session.run(SHOW)
            shown = next(event for event in streams[-1] if event["type"] == "display")
            self.assertEqual(self.shown(shown), SHOWN)
            self.check_growth(SHOWN * READERS // 2)

    def test_answers_that_nobody_reads_have_a_bound(self):
        run = self.session.run(SHOW)["execution_id"]
        other = api_support.server.new_client("other")
        own = other.run("print(1)")["execution_id"]
        target = "/v1/runs/" + run
        with contextlib.ExitStack() as stack:
            client = api_support.server.client(unix=True)
            refused = 0
            for _ in range(READERS):
                connection = stack.enter_context(contextlib.closing(client.connect()))
                client._send(connection, "GET", target, None, None, None)
                connection.sock.settimeout(5)
                refused += b" 503 " in connection.sock.recv(100)
            self.assertGreater(refused, 0)
            self.assertLess(refused, READERS)
            self.check_growth(320 << 20)
            answer = self.api.call("GET", target)
            self.check_error(answer, 503, "capacity", "no_slots", "answers")
            self.assertEqual(answer.headers["retry-after"], "1")
            self.assertEqual(other.get("/v1/runs/" + own).json["stdout"], "1\n")
        self.assertTrue(support.settle(lambda: self.api.call("GET", target).status == 200), "it is given back")

    def test_files_of_runs_that_wait_count_until_they_are_in_the_sandbox(self):
        data = base64.b64encode(bytes(24 << 20)).decode()
        ask = {"code": "import os; print(os.path.getsize('f'))", "template": "bare", "wait_ms": 0,
               "files": [{"path": "f", "content_base64": data}]}
        busy = [self.api.launch("import time; time.sleep(60)") for _ in range(PLACES)]
        waiting, refusal = [], None
        for _ in range(8):
            answer = self.api.call("POST", "/v1/run", ask)
            if answer.status != 202:
                refusal = answer
                break
            waiting.append(answer.json["execution_id"])
        for run in busy:
            self.api.post("/v1/runs/%s/cancel" % run, expect=202)
        self.assertIsNotNone(refusal, "eight times 32 MiB were kept")
        self.check_error(refusal, 503, "capacity", "no_slots", "bodies")
        for run in waiting:
            self.assertEqual(self.api.get("/v1/runs/%s?wait_ms=20000" % run).json["stdout"], "%d\n" % (24 << 20))
        del ask["wait_ms"]
        self.assertEqual(self.api.post("/v1/run", ask).json["stdout"], "%d\n" % (24 << 20))


if __name__ == "__main__":
    support.main()
