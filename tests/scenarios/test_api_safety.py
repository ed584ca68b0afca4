"""Strangers, other tenants, pages and malformed requests: what each of them gets."""
from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import socket
import stat
import time

import api_support
import support
from api_support import ApiScenario, Client, Server
from mcp_client import EventReader, HttpClient, mirrored, modern_request

DEADLINE = 1  # seconds for the headers
ORIGIN = "https://page.example"
ENVIRONMENT = {"HUTCH_SERVE_HEADER_TIME": str(DEADLINE), "HUTCH_SERVE_ORIGINS": ORIGIN,
               "HUTCH_SERVE_HOSTS": "hutch.example", "HUTCH_SERVE_CONNECTIONS_PER_PEER": "250"}


def setUpModule():
    api_support.begin(env=ENVIRONMENT)


tearDownModule = api_support.finish


class SafetyScenario(ApiScenario):
    @property
    def server(self) -> Server:
        return api_support.server

    def raw(self, text: str, *headers: str, body: bytes = b"", key: bool = True,
            host: str | None = "localhost") -> api_support.Answer:
        lines = [text] + (["Host: " + host] if host is not None else []) + ["Connection: close", *headers]
        if key:
            lines.append("X-API-Key: " + self.server.key)
        return self.server.raw_answer("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


class Priority(SafetyScenario):
    def test_a_service_of_root_goes_before_the_programs_it_runs(self):
        if os.geteuid() != 0 or not os.path.exists("/proc/self/autogroup"):
            support.missing("root, and a kernel that can share the processors out by sessions")
        pid = self.server.process.pid
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, pid), os.getpriority(os.PRIO_PROCESS, 0) - 5)
        with open("/proc/%d/autogroup" % pid) as file:
            self.assertEqual(file.read().split()[-1], "-10")


class Keys(SafetyScenario):
    def test_without_a_key_there_is_nothing(self):
        nobody = Client(self.server, None)
        for method, path in (("POST", "/v1/run"), ("GET", "/v1/runs"), ("POST", "/v1/sessions"), ("GET", "/metrics"),
                             ("GET", "/v1/status"),
                             ("GET", "/v1/usage"), ("GET", "/v1/templates"), ("GET", "/v1/runs/exe_" + "0" * 24),
                             ("DELETE", "/v1/sessions/ses_" + "0" * 24)):
            self.check_error(nobody.call(method, path, {} if method == "POST" else None), 401, "unauthorized",
                             "missing_token")
        for path in ("/healthz", "/readyz", "/v1/openapi.json"):
            nobody.get(path)

    def test_a_wrong_key_is_no_key(self):
        good = self.server.key
        for bad in ("x", good[:-1], good + "A", good[:-1] + ("A" if good[-1] != "A" else "B"), good.upper(),
                    "hutch_" + "0" * 24 + "_" + "A" * 43,
                    "hutch_" + "é" * 10, "'; drop table keys; --", "A" * 5000):
            with self.subTest(bad[:60]):
                for headers in ({"Authorization": "Bearer " + bad}, {"X-API-Key": bad}):
                    headers = {name: value.encode() for name, value in headers.items()}
                    self.check_error(Client(self.server, None).call("GET", "/v1/usage", headers=headers), 401,
                                     "unauthorized", "bad_token")
        self.check_error(Client(self.server, None).call("GET", "/v1/usage", headers={"Authorization": "Basic eDp5"}),
                         401, "unauthorized", "bad_token")

    def test_both_ways_to_give_a_key_work(self):
        nobody = Client(self.server, None)
        mine = nobody.get("/v1/usage", headers={"X-API-Key": self.server.key}).json["key"]
        self.assertEqual(nobody.get("/v1/usage", headers={"Authorization": "Bearer " + self.server.key}).json["key"],
                         mine)

    def test_the_owner_needs_no_key_on_the_unix_socket(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.server.socket).st_mode), 0o600)
        local = Client(self.server, None, unix=True)
        about = local.get("/v1/usage").json["key"]
        self.assertEqual((about["id"], sorted(about["scopes"])), ("local", ["admin", "files", "run"]))
        self.assertEqual(local.run("print(1)")["stdout"], "1\n")
        self.check_error(local.call("GET", "/v1/usage", headers={"X-API-Key": "x"}), 401, "unauthorized", "bad_token")

    def test_scopes_hold(self):
        running = self.server.new_client("runner", "--scope", "run")
        filing = self.server.new_client("filer", "--scope", "files")
        with running.session() as session:
            self.check_error(running.call("GET", session.at + "/files/"), 403, "unauthorized", "forbidden")
            self.check_error(running.call("PUT", session.at + "/files/x", body=b""), 403, "unauthorized", "forbidden")
        for path in ("/metrics", "/v1/status"):
            self.check_error(running.call("GET", path), 403, "unauthorized", "forbidden")
        for method, path in (("POST", "/v1/run"), ("POST", "/v1/sessions"), ("GET", "/v1/runs"),
                             ("GET", "/v1/sessions")):
            self.check_error(filing.call(method, path, {} if method == "POST" else None), 403, "unauthorized",
                             "forbidden")
        self.assertEqual(filing.get("/v1/usage").json["key"]["scopes"], ["files"])

    def test_a_revoked_key_is_dead_at_once(self):
        other = self.server.new_client("short-lived")
        key_id = other.get("/v1/usage").json["key"]["id"]
        self.assertEqual(support.home.call("key", "--data", self.server.data, "revoke", key_id).code, 0)
        self.check_error(other.call("GET", "/v1/usage"), 401, "unauthorized", "bad_token")

    def test_what_a_revoked_key_has_open_ends(self):
        other = self.server.new_client("watching")
        session = other.session()
        with contextlib.ExitStack() as open_ones:
            asking, idle = (open_ones.enter_context(other.socket_to(session.at + "/stream")) for _ in range(2))
            events = open_ones.enter_context(other.stream("GET", session.at + "/events"))
            changes = open_ones.enter_context(other.stream("GET", session.at + "/files?watch=true",
                                                           accept="application/x-ndjson"))
            message = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            listening = open_ones.enter_context(EventReader(HttpClient(other.key), "POST", json.dumps(message).encode(),
                                                            mirrored(message)))
            self.assertEqual(listening.next()["method"], "notifications/subscriptions/acknowledged")
            asking.send({"type": "ping"})
            asking.until("pong")
            key_id = other.get("/v1/usage").json["key"]["id"]
            self.assertEqual(support.home.call("key", "--data", self.server.data, "revoke", key_id).code, 0)
            asking.send({"type": "run", "id": "a", "code": "1"})
            for socket in (asking, idle):
                while (frame := socket.receive_frame())[0] != 8:
                    self.assertNotIn(b"accepted", frame[1])
                self.assertEqual(frame[1][:2], (1008).to_bytes(2, "big"))
            for stream in (events, changes):
                list(stream)  # to its end
            listening.until_the_end()
        # There is nobody left who could end the session.

    def test_a_notebook_of_a_revoked_key_ends_before_its_next_cell(self):
        other = self.server.new_client("reading")
        key_id = other.get("/v1/usage").json["key"]["id"]
        cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
                "source": "import time; time.sleep(.5)"}
        notebook = {"cells": [cell] * 80, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            asked = threads.submit(other.call, "POST", "/v1/notebooks/run", {"notebook": notebook, "template": "bare"},
                                   timeout=90)
            self.assertTrue(support.settle(lambda: other.get("/v1/runs").json["runs"]))
            self.assertEqual(support.home.call("key", "--data", self.server.data, "revoke", key_id).code, 0)
            self.check_error(asked.result(), 401, "unauthorized", "bad_token", "while its notebook ran")

    def test_what_waits_in_a_session_of_a_revoked_key_never_begins(self):
        other = self.server.new_client("waiting")
        key_id = other.get("/v1/usage").json["key"]["id"]
        session = other.session()
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            asked = []
            for code, stage, count in (("import time; time.sleep(4); print('whole')", "running", 1),
                                       ("print('begun')", "queued", 1), ("print('begun')", "queued", 2)):
                asked.append(threads.submit(session.run, code))
                self.assertTrue(support.settle(
                    lambda: len(other.get("/v1/runs?status=" + stage).json["runs"]) == count), stage)
            self.assertEqual(support.home.call("key", "--data", self.server.data, "revoke", key_id).code, 0)
            self.assertEqual(asked[0].result()["stdout"], "whole\n", "it had begun")
            for waiting in asked[1:]:
                run = waiting.result()
                self.assertEqual((run["status"], run["stdout"]), ("cancelled", ""))
                self.assertIn("revoked", run["error"]["message"])

    def test_a_rotated_key_keeps_what_it_has_and_only_its_old_secret_ends(self):
        old = self.server.new_client("rotating", "--runs-per-minute", "7", "--cache")
        session = old.session()
        old.put(session.file("kept.txt"), b"kept", 201)
        runs = [session.run("x = 41")["execution_id"], old.run("print(1)")["execution_id"]]
        before = old.get("/v1/usage").json
        with old.stream("GET", session.at + "/events") as events, old.socket_to(session.at + "/stream") as socket:
            done = support.home.call("key", "--data", self.server.data, "rotate", before["key"]["id"])
            self.check_error(old.call("GET", "/v1/usage"), 401, "unauthorized", "bad_token")
            while (frame := socket.receive_frame())[0] != 8:
                pass
            self.assertEqual(frame[1][:2], (1008).to_bytes(2, "big"))
            list(events)  # to its end
        new = Client(self.server, done.text.strip())
        after = new.get("/v1/usage").json
        self.assertEqual((after["key"], after["runs"]), (before["key"], 2))
        self.assertGreaterEqual(after["cpu_seconds"], before["cpu_seconds"])
        self.assertEqual([new.get("/v1/runs/" + run).json["status"] for run in runs], ["ok", "ok"])
        self.assertTrue(new.run("print(1)")["cached"])
        with api_support.Session(new, new.get(session.at).json) as same:
            self.assertEqual(same.run("print(x + 1)")["stdout"], "42\n")
            self.assertEqual(new.get(same.file("kept.txt")).body, b"kept")

    def test_neither_keys_nor_programs_are_in_the_log(self):
        self.api.run("print('very' + 'secret'); 'verysecret'")
        for directory, _, files in os.walk(self.server.data):
            for name in files:
                with open(os.path.join(directory, name), "rb") as file:
                    self.assertNotIn(self.server.key[-43:].encode(), file.read(), name)
        with open(self.server.data + ".log") as file:
            log = file.read()
        self.assertTrue(all(json.loads(line)["message"] for line in log.splitlines()))
        self.assertFalse([word for word in (self.server.key[-43:], "verysecret") if word in log])
        self.assertEqual(stat.S_IMODE(os.stat(self.server.data).st_mode) & 0o077, 0)


class Tenants(SafetyScenario):
    def test_tenants_do_not_see_each_other(self):
        mine, yours = self.server.new_client("mine"), self.server.new_client("yours")
        with mine.session(name="secret") as session:
            mine.put(session.file("f"), b"secret", 201)
            run = session.run("print('secret')")["execution_id"]
            alone = mine.run("print('x' * 3000000); open('f', 'w').write('secret')")["execution_id"]
            for other in (yours, self.api):  # admin or not
                self.assertEqual(other.get("/v1/sessions").json["sessions"], [])
                for at in ("/v1/runs/" + run, "/v1/runs/" + alone):
                    for rest in ("", "/events", "/log?stream=stdout", "/files/f"):
                        self.assertEqual(other.call("GET", at + rest).status, 404)
                    self.assertEqual(other.call("POST", at + "/cancel").status, 404)
                for method, rest, data in (("GET", "", None), ("PATCH", "", {"ttl": 60}), ("DELETE", "", None),
                                           ("POST", "/runs", {"code": "1"}),
                                           ("GET", "/runs", None), ("GET", "/runs/" + run, None),
                                           ("POST", "/interrupt", None), ("POST", "/restart", None),
                                           ("POST", "/stdin", {"text": ""}), ("GET", "/events", None),
                                           ("GET", "/files/", None), ("GET", "/files/f", None),
                                           ("DELETE", "/files/f", None), ("GET", "/files?watch=true", None)):
                    answer = other.call(method, session.at + rest, data)
                    self.assertEqual((answer.status, answer.error["code"]), (404, "unknown"), answer)
                self.check_error(other.call("PUT", session.file("f"), body=b"x"), 404, "session_not_found", "unknown")
                with other.socket_to(session.at + "/stream") as refused:
                    self.assertEqual(refused.status, 404)
                listed = other.get("/v1/runs?session=" +
                                   session.id).json["runs"] + other.get("/v1/runs?limit=100").json["runs"]
                self.assertFalse({run, alone} & {one["execution_id"] for one in listed})
            self.assertEqual(mine.get(session.file("f")).body, b"secret")

    def test_a_key_that_starts_too_much_is_slowed_down(self):
        slow = self.server.new_client("slow", "--runs-per-minute", "3")
        for _ in range(3):
            slow.run("1")
        answer = slow.call("POST", "/v1/run", {"code": "1", "template": "bare"})
        error = self.check_error(answer, 429, "rate_limited", "rate_limited")
        self.assertTrue(error["retryable"] and 0 < error["retry_after_ms"] <= 60_000, error)
        self.assertTrue(1 <= int(answer.headers["retry-after"]) <= 60)
        self.assertEqual(self.api.run("print(1)")["stdout"], "1\n")

    def test_a_key_that_runs_too_much_at_once_is_held_back(self):
        two = self.server.new_client("two at once", "--concurrent-runs", "2")
        running = [two.launch("import time; time.sleep(20)") for _ in range(2)]
        answer = two.call("POST", "/v1/run", {"code": "1", "template": "bare"})
        self.check_error(answer, 429, "rate_limited", "too_many_concurrent")
        self.assertIn("retry-after", answer.headers)
        for run in running:
            two.post("/v1/runs/%s/cancel" % run, expect=202)
            two.get("/v1/runs/%s?wait_ms=9000" % run)
        self.assertEqual(two.run("print(1)")["stdout"], "1\n")

    def test_a_key_that_has_used_up_its_month_is_told(self):
        poor = self.server.new_client("poor", "--cpu-seconds", "1")
        self.assertIsNone(poor.get("/v1/usage").json["warning"])
        poor.run("import time\nwhile time.process_time() < 1.1: pass")
        answer = poor.call("POST", "/v1/run", {"code": "1", "template": "bare"})
        self.check_error(answer, 429, "rate_limited", "budget_exhausted")
        self.assertTrue(poor.get("/v1/usage").json["warning"])

    def test_a_key_is_warned_from_four_fifths_of_its_month_on_and_still_runs(self):
        warned = self.server.new_client("warned", "--cpu-seconds", "2")
        for seconds, warning in ((1.0, None), (0.7, "More than 80% of what this key may use this month is used.")):
            warned.run("import time\nwhile time.process_time() < %g: pass" % seconds)
            self.assertEqual(warned.get("/v1/usage").json["warning"], warning)
        self.assertEqual(warned.run("print(1)")["stdout"], "1\n")

    def test_what_a_run_leaves_running_is_charged_and_stopped_when_the_month_is_used_up(self):
        poor = self.server.new_client("left running", "--cpu-seconds", "1")
        with poor.session() as session:
            spinning = "import threading\ndef spin():\n  while True: pass\nthreading.Thread(target=spin, daemon=True).start()"
            self.assertLess(session.run(spinning)["usage"]["cpu_ms"], 1000)
            self.assertIsNotNone(session.show()["memory_bytes"])
            self.assertTrue(support.settle(lambda: poor.get("/v1/usage").json["warning"], 30))
            self.assertEqual(poor.get("/v1/usage").json["runs"], 1)
            self.assertTrue(support.settle(lambda: session.show()["memory_bytes"] is None), "it still runs")
            for method, rest, data in (("GET", "/variables", None), ("GET", "/variables/x", None),
                                       ("POST", "/complete", {"code": "x"}), ("POST", "/inspect", {"code": "x"}),
                                       ("POST", "/runs", {"code": "1"})):
                self.check_error(poor.call(method, session.at + rest, data), 429, "rate_limited", "budget_exhausted")

    def test_questions_are_charged(self):
        asking = self.server.new_client("asking")
        with asking.session() as session:
            session.run("import time\nclass Slow:\n  def __repr__(self):\n    end = time.process_time() + .3\n"
                        "    while time.process_time() < end: pass\n    return 'slow'\nslow = Slow()")
            before = asking.get("/v1/usage").json["cpu_seconds"]
            self.assertEqual(asking.get(session.at + "/variables/slow").json["mime"], {"text/plain": "slow"})
        self.assertGreater(asking.get("/v1/usage").json["cpu_seconds"], before + .2)

    def test_a_key_cannot_ask_for_more_memory_than_it_has(self):
        small = self.server.new_client("small", "--memory", str(64 << 20))
        answer = small.call("POST", "/v1/run",
                            {"code": "x = b'x' * (200 << 20)", "template": "bare", "limits": {"memory": 256 << 20}})
        self.assertIn(answer.status, (200, 400))
        if answer.status == 200:
            self.assertEqual(answer.json["error"]["category"], "memory_limit")


class Pages(SafetyScenario):
    """A browser on this machine must not become a way in."""

    def test_only_loopback_and_configured_names_are_answered(self):
        for host in ("localhost", "127.0.0.1", "127.0.0.1:1", "[::1]:8484", "LOCALHOST:80", "hutch.example",
                     "app.localhost"):
            self.assertEqual(self.server.raw(b"GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" %
                                             host.encode()).split()[1], b"200", host)
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:8484", "0x7f.1",
                     "hutch.example.evil"):
            self.check_error(self.raw("GET /v1/usage HTTP/1.1", host=host), 421, "invalid_request", "wrong_host")
        self.assertEqual(self.raw("GET /v1/usage HTTP/1.1", host=None).status, 400)
        self.assertEqual(self.raw("GET /v1/usage HTTP/1.1", "Host: evil.example").status, 400)

    def test_pages_of_other_origins_are_refused(self):
        for origin in ("https://evil.example", "null", "http://localhost:3000", ORIGIN + ".evil", ORIGIN + ":444"):
            answer = self.api.call("POST", "/v1/run", {"code": "1", "template": "bare"}, headers={"Origin": origin})
            self.check_error(answer, 403, "unauthorized", "origin_not_allowed")
        got = self.server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\nConnection: close\r\n\r\n" %
                              ORIGIN.encode())
        self.assertIn(b" 200 ", got.split(b"\r\n")[0])
        self.assertIn(b"Access-Control-Allow-Origin: " + ORIGIN.encode(), got)
        with api_support.Client(self.server, None).socket_to("/v1/sessions/ses_" + "0" * 24 + "/stream") as refused:
            self.assertEqual(refused.status, 401)

    def test_a_form_of_a_page_is_not_json(self):
        for kind in ("text/plain", "application/x-www-form-urlencoded", None, "multipart/form-data; boundary=x"):
            answer = self.api.call("POST", "/v1/run", body=b'{"code": "1"}', headers={"Content-Type": kind})
            self.check_error(answer, 415, "invalid_request", "unsupported_media_type")


class Malformed(SafetyScenario):
    def tearDown(self):
        self.assertEqual(self.api.get("/healthz").json, {"status": "ok"})

    def test_what_is_not_http_is_refused(self):
        for data in (b"hello\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
                     b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n", b"\r\n" * 50 + b"\r\n\r\n\0",
                     b"GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nHo st: localhost\r\n\r\n",
                     b"\0" * 5000):
            got = self.server.raw(data + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", timeout=10)
            self.assertTrue(got == b"" or got.startswith(b"HTTP/1.1 4"), got[:200])

    def test_requests_cannot_be_smuggled(self):
        inner = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for headers in (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                        b"Content-Length: 3\r\nContent-Length: 4\r\n",
                        b"Content-Length: -1\r\n", b"Content-Length: 0x3\r\n", b"Transfer-Encoding: gzip\r\n",
                        b"Content-Length: 99999999999999999999\r\n",
                        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"):
            with self.subTest(headers):
                got = self.server.raw(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                      b"X-API-Key: %s\r\n%s\r\n0\r\n\r\n%s" % (self.server.key.encode(), headers,
                                                                               inner),
                                      timeout=10)
                self.assertTrue(got == b"" or got.startswith(b"HTTP/1.1 4"), got[:300])
                self.assertEqual(got.count(b"HTTP/1.1 200"), 0, got)

    def test_too_many_or_too_long_headers_are_refused(self):
        for headers in ([b"X-%d: x" % i for i in range(100_000)], [b"X: " + b"x" * 1_000_000]):
            answer = self.server.raw_answer(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"\r\n".join(headers) +
                                            b"\r\n\r\n")
            self.check_error(answer, 431, "invalid_request", "headers_too_large")

    def test_an_address_that_is_too_long_is_refused(self):
        for path in ("/" + "x" * 9000, "/v1/runs?before=" + "x" * 20_000):
            answer = self.raw("GET %s HTTP/1.1" % path)
            self.check_error(answer, 414, "invalid_request", "uri_too_long")
        self.assertIn(self.raw("GET /%s HTTP/1.1" % ("x" * 1_000_000)).status, (414, 431))

    def test_bad_json_is_refused(self):
        for body in (b"", b"{", b"[]", b"1", b'"x"', b"{\"code\": \"1\"} x", b"[" * 100_000,
                     b'{"a":' * 1000 + b"1" + b"}" * 1000, b"\xff\xfe", b"{'code': 1}",
                     b'{"code": "\xff"}', b'{"code": NaN}', b'{"limits": {"timeout": 1e999}, "code": "1"}',
                     b"\0" * 100):
            with self.subTest(body[:40]):
                answer = self.api.call("POST", "/v1/run", body=body, headers={"Content-Type": "application/json"})
                self.assertEqual((answer.status, answer.error["category"]), (400, "invalid_request"), answer)

    def test_a_body_that_is_too_large_is_refused_before_it_is_read(self):
        with contextlib.closing(self.api.connect()) as connection:
            connection.putrequest("POST", "/v1/run")
            for name, value in (("X-API-Key", self.server.key), ("Content-Type", "application/json"),
                                ("Content-Length", str(1 << 40))):
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            answer = api_support.validate(api_support.Answer("POST", "/v1/run", response.status, response.getheaders(),
                                                             response.read()))
        self.check_error(answer, 413, "invalid_request", "too_large")

    def test_a_body_without_a_length_is_no_body(self):
        answer = self.raw("POST /v1/run HTTP/1.1", "Content-Type: application/json", body=b'{"code": "1"}')
        self.assertIn(answer.status, (400, 411), answer)

    def test_methods_are_known_or_refused(self):
        answer = self.api.call("OPTIONS", "/v1/runs", expect=405)
        self.assertIn("GET", answer.headers["allow"])
        self.assertEqual(self.api.call("DELETE", "/v1/run", expect=405).headers["allow"].replace(" ", ""), "POST")
        for method in ("BREW", "PROPFIND", "get"):
            self.check_error(self.raw(method + " /v1/runs HTTP/1.1"), 405, "invalid_request", "method_not_allowed")
        for method in ("TRACE", "CONNECT"):
            self.assertIn(self.raw(method + " /v1/runs HTTP/1.1").status, (400, 405))
        for path in ("/", "/v1", "/v1/", "/v2/run", "/v1/run/", "//v1/run", "/v1/sessions//runs", "/v1/../metrics",
                     "/%76%31/runs", "/v1/runs/a/b/c"):
            self.assertIn(self.api.call("GET", path).status, (400, 404, 405), path)
        self.check_error(self.api.call("GET", "/nothing"), 404, "invalid_request", "unknown_path")

    def test_who_sends_slowly_is_cut_off(self):
        begin = time.monotonic()
        with socket.create_connection((self.server.host, self.server.port), timeout=20) as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-")
            got = slow.recv(4096)
        self.assertTrue(got == b"" or got.startswith(b"HTTP/1.1 408"), got[:100])
        self.assertLess(time.monotonic() - begin, DEADLINE + 3)

    def test_many_idle_connections_do_not_stop_others(self):
        with contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(socket.create_connection((self.server.host, self.server.port), timeout=10))
            self.assertEqual(self.api.run("print(1)")["stdout"], "1\n")

    def test_one_address_has_only_so_many_connections_and_the_owner_still_comes_in(self):
        with contextlib.ExitStack() as stack:
            for _ in range(251):
                one = stack.enter_context(socket.create_connection((self.server.host, self.server.port), timeout=10))
            refused = one.makefile("rb").read()  # without having asked for anything
            self.assertTrue(refused.startswith(b"HTTP/1.1 503 "), refused)
            self.assertIn(b"Retry-After: 1\r\n", refused)
            self.assertIn(b"Too many connections from this address.", refused)
            for header in (b"X-Request-Id: req_", b"X-Content-Type-Options: nosniff\r\n", b"Cache-Control: no-store\r\n"):
                self.assertIn(header, refused)
            self.server.client(unix=True).get("/v1/runs")
        self.assertTrue(support.settle(self.is_reachable))

    def is_reachable(self) -> bool:
        try:
            return self.server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(
                b"HTTP/1.1 200 ")
        except OSError:  # hung up on before it had sent all
            return False

    def test_streams_that_nobody_reads_are_given_back(self):
        with self.api.session() as session:
            before = support.count_descriptors(self.server.process.pid)
            for _ in range(30):
                self.api.call("HEAD", session.at + "/events", expect=200)
                self.api.call("HEAD", session.at + "/files?watch=true", expect=200)
            self.assertTrue(support.settle(lambda: support.count_descriptors(self.server.process.pid) < before + 25),
                            "%d descriptors before" % before)

    def test_one_connection_serves_many_requests_even_at_once(self):
        one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        got = self.server.raw(one * 20 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        self.assertEqual(got.count(b"HTTP/1.1 200"), 21)


if __name__ == "__main__":
    support.main()
