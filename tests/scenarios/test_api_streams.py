"""Events as they happen: SSE, NDJSON and WebSocket; coming back, watching together, output without end."""
from __future__ import annotations

import concurrent.futures
import hashlib
import time

import api_support
import support
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish

TALK = ("import sys, time\nfor i in range(4):\n  print(i, flush=True); time.sleep(.05)\n"
        "print('end', file=sys.stderr)\nopen('f.txt', 'w').write('x')")
SSE, NDJSON = "text/event-stream", "application/x-ndjson"


def text_of(events: list[dict], stream: str = "stdout") -> str:
    return "".join(event["text"] for event in events if event["type"] == stream)


class Streams(ApiScenario):
    def check_whole(self, events: list[dict]) -> None:
        """Numbered without holes, in time, from the queue to the result."""
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        times = [event["time_ms"] for event in events]
        self.assertEqual(times, sorted(times))
        kinds = [event["type"] for event in events]
        self.assertEqual((kinds[0], kinds[1], kinds[-1]), ("queued", "started", "finished"))
        self.assertEqual(len({event["run"] for event in events}), 1)

    def follow(self, method: str, target: str, data: object = None, **more) -> list[dict]:
        with self.api.stream(method, target, data, **more) as events:
            return list(events)

    def test_a_run_can_be_watched_as_it_happens(self):
        for accept in (SSE, NDJSON):
            with self.subTest(accept):
                arrived = []
                with self.api.stream("POST", "/v1/run", {"code": TALK, "template": "bare"}, accept=accept) as events:
                    seen = []
                    for event in events:
                        seen.append(event)
                        arrived.append(time.monotonic())
                self.check_whole(seen)
                self.assertEqual((text_of(seen), text_of(seen, "stderr")), ("0\n1\n2\n3\n", "end\n"))
                self.assertEqual([event["file"]["path"] for event in seen if event["type"] == "file"], ["f.txt"])
                result = seen[-1]["result"]
                self.assertEqual((result["status"], result["stdout"], result["execution_id"]),
                                 ("ok", "0\n1\n2\n3\n", seen[0]["run"]))
                first = next(i for i, event in enumerate(seen) if event["type"] == "stdout")
                self.assertGreater(arrived[-1] - arrived[first], 0.12, "all at once is no stream")

    def test_large_events_are_told_whole(self):
        code = "print('x' * 200_000)"
        for accept in (SSE, NDJSON):
            with self.subTest(accept):
                events = self.follow("POST", "/v1/run", {"code": code, "template": "bare"}, accept=accept)
                self.check_whole(events)
                self.assertEqual(text_of(events), "x" * 200_000 + "\n")
                self.assertEqual(events[-1]["result"]["stdout"], "x" * 200_000 + "\n")

    def test_who_comes_late_hears_everything(self):
        run = self.api.run(TALK)["execution_id"]
        for accept in (SSE, NDJSON):
            events = self.follow("GET", "/v1/runs/%s/events" % run, accept=accept)
            self.check_whole(events)
            self.assertEqual(text_of(events), "0\n1\n2\n3\n")

    def test_who_comes_back_hears_only_the_rest(self):
        run = self.api.run(TALK)["execution_id"]
        whole = self.follow("GET", "/v1/runs/%s/events" % run)
        for after in (0, 1, 3, len(whole) - 1):
            self.assertEqual(self.follow("GET", "/v1/runs/%s/events?after=%d" % (run, after)), whole[after:])
            self.assertEqual(self.follow("GET", "/v1/runs/%s/events" % run, headers={"Last-Event-ID": str(after)}),
                             whole[after:])
        self.assertEqual(self.follow("GET", "/v1/runs/%s/events?after=%d" % (run, len(whole))), [])
        for bad in ("after=x", "after=-1", "after="):
            self.assertEqual(self.api.call("GET", "/v1/runs/%s/events?%s" % (run, bad)).status, 400)

    def test_a_run_that_was_left_can_be_watched_again_while_it_runs(self):
        with self.api.stream("POST", "/v1/run", {"code": TALK, "template": "bare"}) as events:
            seen = []
            for event in events:
                seen.append(event)
                if event["type"] == "stdout":
                    break
        seen += self.follow("GET", "/v1/runs/%s/events?after=%d" % (seen[0]["run"], seen[-1]["seq"]))
        self.check_whole(seen)
        self.assertEqual(text_of(seen), "0\n1\n2\n3\n")

    def test_two_watchers_see_the_same(self):
        run = self.api.launch(TALK)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            seen = list(pool.map(lambda accept: self.follow("GET", "/v1/runs/%s/events" % run, accept=accept),
                                 (SSE, NDJSON, SSE, SSE)))
        self.check_whole(seen[0])
        self.assertTrue(all(one == seen[0] for one in seen))

    def test_characters_are_never_cut(self):
        code = ("import os, time\nfor byte in 'aé€😀'.encode():\n  os.write(1, bytes((byte,))); time.sleep(.01)\n"
                "os.write(1, b'\\xff\\xc3')")
        with self.api.stream("POST", "/v1/run", {"code": code, "template": "bare"}) as events:
            text = text_of(list(events))
        self.assertTrue(text.startswith("aé€😀") and text[4:].strip("\ufffd") == "", text)

    def test_text_that_looks_like_the_protocol_stays_text(self):
        code = "print('\\n\\ndata: {}\\n\\nid: 9\\r\\nevent: finished\\n\\n\\u2028\\x85')"
        with self.api.stream("POST", "/v1/run", {"code": code, "template": "bare"}) as events:
            seen = list(events)
        self.check_whole(seen)
        self.assertIn("event: finished", text_of(seen))

    def test_errors_come_as_errors_and_not_as_streams(self):
        answer = self.api.call("POST", "/v1/run", {"code": 1}, headers={"Accept": SSE})
        self.check_error(answer, 400, "invalid_request", "bad_arguments", "code")

    def test_a_session_has_one_stream_for_all_its_runs(self):
        with self.api.session() as session:
            with self.api.stream("GET", session.at + "/events") as events:
                first = session.run("print('a')")["execution_id"]
                second = session.run("print('b')")["execution_id"]
                seen = []
                for event in events:
                    seen.append(event)
                    if event["type"] == "finished" and event["run"] == second:
                        break
            numbers = [event["seq"] for event in seen]
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
            self.assertEqual([(event["run"], event["text"]) for event in seen if event["type"] == "stdout"],
                             [(first, "a\n"), (second, "b\n")])
            self.assertEqual([event["result"]["execution_count"] for event in seen if event["type"] == "finished"],
                             [1, 2])
            with self.api.stream("GET", "%s/events?after=%d" % (session.at, seen[2]["seq"]), accept=NDJSON) as events:
                self.assertEqual([next(events)["seq"] for _ in range(3)], [seen[2]["seq"] + i for i in (1, 2, 3)])
            with self.api.stream("POST", session.at + "/runs", {"code": "print('c')"}) as events:
                mine = list(events)
            self.assertEqual((text_of(mine), mine[-1]["type"], mine[-1]["result"]["session"]["state"]),
                             ("c\n", "finished", "kept"))
            self.api.post(session.at + "/restart")
            with self.api.stream("GET", "%s/events?after=%d" % (session.at, seen[-1]["seq"])) as events:
                self.assertTrue(any(event["type"] == "session" and event["state"] == "restarted" for event in events))

    def test_waiting_for_input_is_an_event(self):
        with self.api.session() as session:
            with self.api.stream("POST", session.at + "/runs",
                                 {"code": "print(input('name? '))", "stdin": True, "timeout": 4}) as events:
                seen = []
                for event in events:
                    seen.append(event)
                    if event["type"] == "input_wanted":
                        self.api.post(session.at + "/stdin", {"text": "Ada\n"}, 202)
            self.assertIn("input_wanted", [event["type"] for event in seen])
            self.assertEqual(text_of(seen), "name? Ada\n")


class Floods(ApiScenario):
    """Output beyond the cap is cut in the result and whole in the log."""

    def test_the_full_log_is_what_was_printed(self):
        code = "import sys\nfor i in range(60000): print('%%08d %s' %% i)\nsys.stderr.write('small')" % ("x" * 40)
        printed = "".join("%08d %s\n" % (i, "x" * 40) for i in range(60000)).encode()
        run = self.api.run(code)
        self.assertEqual((run["status"], run["truncated"]["stdout"], run["truncated"]["stderr"]), ("ok", True, False))
        self.assertTrue(printed.startswith(run["stdout"].encode()))
        self.assertTrue(0 < len(run["stdout"]) < len(printed))
        self.assertEqual((run["full_log"]["stdout_bytes"], run["stderr"]), (len(printed), "small"))
        whole = self.api.get(run["full_log"]["stdout"])
        self.assertEqual(hashlib.sha256(whole.body).digest(), hashlib.sha256(printed).digest())
        self.assertEqual(whole.media_type, "text/plain")
        part = self.api.get(run["full_log"]["stdout"], 206, headers={"Range": "bytes=1000000-1000099"})
        self.assertEqual((part.body, part.headers["content-range"]),
                         (printed[1000000:1000100], "bytes 1000000-1000099/%d" % len(printed)))
        self.assertEqual(self.api.get(run["full_log"]["stdout"], 206, headers={"Range": "bytes=-10"}).body,
                         printed[-10:])
        self.refused("GET", run["full_log"]["stdout"], None, 416, "invalid_request", "bad_range",
                     headers={"Range": "bytes=99999999-"})

    def test_a_short_log_can_be_fetched_too(self):
        run = self.api.run("import sys; print('out'); print('err', file=sys.stderr)")
        at = "/v1/runs/%s/log" % run["execution_id"]
        self.assertEqual((self.api.get(at + "?stream=stdout").text, self.api.get(at + "?stream=stderr").text),
                         ("out\n", "err\n"))
        self.assertEqual(self.api.call("GET", at + "?stream=stdin").status, 400)

    def test_a_stream_says_that_it_was_cut(self):
        with self.api.stream("POST", "/v1/run",
                             {"code": "for i in range(40): print('y' * 100000)", "template": "bare"}) as events:
            seen = list(events)
        cut = [event for event in seen if event["type"] == "truncated"]
        self.assertEqual([event["stream"] for event in cut], ["stdout"])
        self.assertEqual(len(text_of(seen)), cut[0]["kept_bytes"])
        self.assertEqual(seen[-1]["result"]["full_log"]["stdout_bytes"], 40 * 100001)

    def test_many_small_pieces_are_not_lost(self):
        run = self.api.run("import os\nfor i in range(30000): os.write(1, b'%d\\n' % i)")
        printed = "".join("%d\n" % i for i in range(30000))
        got = self.api.get(run["full_log"]["stdout"]).text if run["full_log"] else run["stdout"]
        self.assertEqual(got, printed)

    def test_a_flood_in_a_session_leaves_the_next_run_alone(self):
        with self.api.session() as session:
            first = session.run("for i in range(30): print('y' * 100000)")
            self.assertTrue(first["truncated"]["stdout"])
            self.assertEqual(len(self.api.get(first["full_log"]["stdout"]).body), 30 * 100001)
            second = session.run("print('quiet')")
            self.assertEqual((second["stdout"], second["truncated"]["stdout"], second["full_log"]),
                             ("quiet\n", False, None))


    def test_who_comes_too_late_is_told_what_is_missing(self):
        with self.api.session() as session:
            runs = [session.run("print('z' * 1_000_000)")["execution_id"] for _ in range(8)]
            with self.api.stream("GET", session.at + "/events") as events:
                first = next(events)
                self.assertEqual((first["type"], first["from"]), ("gap", 1))
                self.assertEqual(next(events)["seq"], first["to"] + 1)
            with self.api.stream("GET", session.at + "/events?after=3", accept=NDJSON) as events:
                self.assertEqual(next(events), {**first, "from": 4})
                self.assertEqual(next(events)["seq"], first["to"] + 1)
            with self.api.socket_to(session.at + "/stream?after=3") as socket:
                self.assertEqual(socket.receive(), {**first, "from": 4})
                self.assertEqual(socket.receive()["seq"], first["to"] + 1)
            self.assertEqual(len(self.api.get("/v1/runs/" + runs[0]).json["stdout"]), 262_144)


class Sockets(ApiScenario):
    def setUp(self):
        session = self.api.session()
        self.addCleanup(session.__exit__)
        self.session = session

    def open(self, query: str = "") -> api_support.WebSocket:
        socket = self.api.socket_to(self.session.at + "/stream" + query)
        self.assertEqual(socket.status, 101)
        return socket

    def test_code_and_commands_run_over_a_websocket(self):
        with self.open() as socket:
            socket.send({"type": "run", "id": "mine", "code": "x = 6 * 7\nprint(x)"})
            seen = socket.until("finished")
            accepted = [message for message in seen if message["type"] == "accepted"]
            self.assertEqual([message["id"] for message in accepted], ["mine"])
            self.assertEqual((text_of(seen), seen[-1]["run"], seen[-1]["result"]["status"]),
                             ("42\n", accepted[0]["run"], "ok"))
            socket.send({"type": "run", "id": "two", "command": "echo hi"})
            self.assertEqual(text_of(socket.until("finished")), "hi\n")
        self.assertEqual(self.session.run("print(x)")["stdout"], "42\n")

    def test_a_run_can_be_interrupted_over_a_websocket(self):
        with self.open() as socket:
            socket.send({"type": "run", "id": "a",
                         "code": "import time\nprint('up', flush=True)\nwhile True: time.sleep(.05)"})
            socket.until("stdout")
            socket.send({"type": "interrupt"})
            self.assertNotEqual(socket.until("finished")[-1]["result"]["status"], "ok")

    def test_input_can_be_sent_over_a_websocket(self):
        with self.open() as socket:
            socket.send({"type": "run", "id": "a", "code": "print('?', flush=True); print(input()[::-1])",
                         "stdin": True})
            socket.until("stdout")
            socket.send({"type": "stdin", "text": "olleh\n"})
            self.assertEqual(text_of(socket.until("finished")), "hello\n")

    def test_pings_are_answered(self):
        with self.open() as socket:
            socket.send({"type": "ping"})
            socket.until("pong")
            socket.send({"type": "resize", "columns": 100, "rows": 30})
            socket.send_frame(9, b"are you there")
            socket.send({"type": "ping"})
            kinds = [socket.receive_frame() for _ in range(2)]
            self.assertIn((10, b"are you there"), kinds)

    def test_two_sockets_see_the_same_and_one_can_come_back(self):
        with self.open() as one, self.open() as two:
            one.send({"type": "run", "id": "a", "code": "print('both')"})
            mine = [message for message in one.until("finished") if "seq" in message]
            theirs = [message for message in two.until("finished") if "seq" in message]
            self.assertEqual(mine[-4:], theirs[-4:])
        with self.open("?after=%d" % mine[-3]["seq"]) as again:
            self.assertEqual([message["seq"] for message in again.until("finished")],
                             [mine[-2]["seq"], mine[-1]["seq"]])

    def test_bad_messages_are_answered_and_the_socket_lives(self):
        with self.open() as socket:
            for message in ({"type": "run", "id": "x"}, {"type": "run", "id": "x", "code": 1}, {"type": "fly"},
                            {"type": "stdin"}, {},
                            {"type": "run", "id": "x", "code": "1", "more": 1},
                            {"type": "stdin", "text": "nobody reads"}):
                socket.send(message, check=False)
                error = socket.until("error")[-1]
                self.assertEqual(error["id"], message.get("id"), message)
            for text in (b"{", b"[]", b"\"x\"", b"[" * 10000):
                socket.send_frame(1, text)
                self.assertEqual(socket.until("error")[-1]["error"]["category"], "invalid_request")
            socket.send_frame(1, b'{"type": "ping", "id": [0' + b",0" * 50_000 + b"]}")
            self.assertEqual(socket.until("error")[-1]["error"]["code"], "too_large")
            socket.send({"type": "ping"})
            socket.until("pong")

    def test_a_socket_that_nobody_reads_goes_with_its_place(self):
        def connected() -> int:  # to the daemon's Unix socket, whose buffers are small
            with open("/proc/net/unix") as file:
                lines = [line.split() for line in file if line.rstrip().endswith(" " + api_support.server.socket)]
            return sum(line[5] == "03" for line in lines)

        with api_support.server.client(unix=True).socket_to(self.session.at + "/stream") as socket:
            self.assertEqual(connected(), 1)
            self.session.run("print('x' * (1 << 20))")
            socket.send_frame(2, b"ends it")
            self.assertTrue(support.settle(lambda: connected() == 0, 45))  # at the latest when a write is given up

    def test_frames_that_are_too_large_or_broken_end_the_socket_only(self):
        for kind, data in ((1, b" " * ((1 << 20) + 1)), (1, b"\xff\xfe"), (2, b"binary"), (11, b"")):
            with self.open() as socket:
                try:
                    socket.send_frame(kind, data)
                    while socket.receive() is not None:
                        pass
                except ConnectionError:
                    pass
        self.assertEqual(self.session.run("print(1)")["stdout"], "1\n")

    def test_a_message_in_pieces_is_one_message(self):
        with self.open() as socket:
            socket.send_frame(1, b'{"type": ', final=False)
            socket.send_frame(0, b'"ping"}')
            socket.until("pong")

    def test_the_end_of_the_session_ends_the_socket(self):
        with self.open() as socket:
            self.api.delete(self.session.at)
            last = socket.until("session", state="ended")
            self.assertEqual(last[-1]["state"], "ended")
            while socket.receive() is not None:
                pass

    def test_a_plain_request_is_no_websocket(self):
        self.assertEqual(self.api.call("GET", self.session.at + "/stream").status, 400)
        with api_support.Client(api_support.server, None).socket_to(self.session.at + "/stream") as refused:
            self.assertEqual(refused.status, 401)
        with self.api.socket_to("/v1/sessions/ses_" + "0" * 24 + "/stream") as refused:
            self.assertEqual(refused.status, 404)


if __name__ == "__main__":
    support.main()
