"""What the log tells of a request, and under which id."""
from __future__ import annotations

import json

import api_support
import support
from api_support import ApiScenario, Server

setUpModule, tearDownModule = api_support.begin, api_support.finish

MOST_REFUSALS = 1000  # told in a minute
OURS = "^req_[0-9a-f]{24}$"


def lines_of(server: Server, **fields: str) -> list[dict]:
    with open(server.data + ".log") as file:
        every = [json.loads(line) for line in file]
    return [line for line in every if fields.items() <= line.items()]


class Log(ApiScenario):
    def only_line(self, **fields: str) -> dict:
        """A line is written after its answer."""
        found = support.settle(lambda: lines_of(api_support.server, **fields))
        self.assertEqual(len(found), 1, (fields, found))
        return found[0]

    def test_a_request_is_found_under_the_id_that_its_client_gave_it(self):
        key = self.api.get("/v1/usage").json["key"]["id"]
        made = self.api.post("/v1/sessions", {"template": "bare"}, 201, headers={"X-Request-Id": "make-1"})
        session = made.json["id"]
        self.assertEqual(made.headers["x-request-id"], "make-1")
        line = self.only_line(message="session created", request="make-1")
        self.assertEqual((line["key"], line["session"]), (key, session))
        run = "exe_" + "0" * 24
        missing = self.api.call("GET", "/v1/sessions/%s/runs/%s" % (session, run), expect=404,
                                headers={"X-Request-Id": "Look_2.b"})
        self.assertEqual(missing.error["request_id"], "Look_2.b")
        line = self.only_line(request="Look_2.b")
        self.assertEqual((line["message"], line["status"], line["code"], line["key"], line["session"], line["run"]),
                         ("request refused", "404", "unknown", key, session, run))
        self.api.delete("/v1/sessions/" + session)
        self.only_line(message="session ended", session=session)

    def test_what_there_is_no_id_of_is_left_out(self):
        answer = api_support.Client(api_support.server, None).call("GET", "/v1/runs/private-name", expect=401)
        line = self.only_line(request=answer.headers["x-request-id"])
        self.assertEqual(line.keys(), {"time", "level", "message", "request", "status", "code"})
        self.assertEqual((line["level"], line["code"]), ("warning", "missing_token"))

    def test_an_id_that_is_not_short_and_plain_is_replaced(self):
        self.assertEqual(self.api.get("/healthz", headers={"X-Request-Id": "a" * 64}).headers["x-request-id"], "a" * 64)
        seen = set()
        for bad in ("", "a" * 65, "a" * 10_000, "a b", 'a"b', "a\\b", "a/b", "a,b", "{}", "\xe4", "a\tb", "$(id)"):
            with self.subTest(bad[:80]):
                answer = self.api.get("/healthz", headers={"X-Request-Id": bad})
                self.assertRegex(answer.headers["x-request-id"], OURS)
                seen.add(answer.headers["x-request-id"])
        self.assertEqual(len(seen), 12)
        twice = api_support.server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                       b"X-Request-Id: one\r\nX-Request-Id: two\r\n\r\n")
        self.assertRegex(twice, rb"\r\nX-Request-Id: req_[0-9a-f]{24}\r\n")


class Flood(ApiScenario):
    def test_a_flood_of_refusals_does_not_fill_the_log(self):
        place = support.Home()  # others look for refusals in the log
        self.addCleanup(place.close)
        server = Server(place).start()
        self.addCleanup(server.stop)
        asked = 2 * MOST_REFUSALS + 200  # there are at most two minutes in it
        one = b"GET /flood HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: flood\r\n\r\n"
        last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        got = server.raw(one * (asked - 1) + last)
        self.assertEqual(got.count(b"HTTP/1.1 404 "), asked)
        told = len(lines_of(server, request="flood"))
        self.assertTrue(MOST_REFUSALS / 2 < told <= 2 * MOST_REFUSALS, told)


if __name__ == "__main__":
    support.main()
