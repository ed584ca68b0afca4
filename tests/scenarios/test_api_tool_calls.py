"""Code that calls tools of its client: over every way to watch a run, in time and too late, and when it is hostile."""
from __future__ import annotations

import time

import api_support
import support
from api_support import ApiScenario, Session

setUpModule, tearDownModule = api_support.begin, api_support.finish

SEARCH = {"name": "search", "description": "Finds rows.", "input_schema": {
    "type": "object", "required": ["query"], "properties": {"query": {"type": "string"}}}}
ANY = {"name": "any"}
TOOLS = [SEARCH, ANY]
# A frame as the runner makes them, for code that goes around it.
FORGE = ("import os, struct\ndef forge(number, name, given=b'{}', kind=75):\n"
         "    payload = struct.pack('<I', number) + struct.pack('<I', len(name)) + name"
         " + struct.pack('<I', len(given)) + given\n"
         "    data = struct.pack('<IB', len(payload) + 1, kind) + payload\n"
         "    while data: data = data[os.write(3, data):]\n")


class ToolCalls(ApiScenario):
    def begin(self, session: Session, code: str, wait_ms: int = 20000, **more) -> dict:
        """The run as it is at its first call, or at its end."""
        asked = {"code": code, "tools": TOOLS, "return_on_tool_call": True, "wait_ms": wait_ms, **more}
        return self.api.call("POST", session.at + "/runs", asked, expect=(200, 202)).json

    def result(self, run: str, call: str, content: object = "", expect: int = 200, **more) -> dict:
        body = {"results": [{"call_id": call, "content": content, **more}]}
        return self.api.post("/v1/runs/%s/tool_results" % run, body, expect).json

    def wait(self, run: str, called: bool = True) -> dict:
        return self.api.get("/v1/runs/%s?wait_ms=20000&return_on_tool_call=%s" % (run, str(called).lower())).json

    def serve(self, run: dict, answer) -> dict:
        """Answers calls until the run is over."""
        deadline = time.monotonic() + 60
        while run["status"] in ("queued", "running") and time.monotonic() < deadline:
            results = [{"call_id": call["call_id"], "content": answer(call)} for call in run["pending_tool_calls"]]
            self.api.post("/v1/runs/%s/tool_results" % run["execution_id"], {"results": results})
            run = self.wait(run["execution_id"])
        return run

    def check_alive(self, session: Session) -> None:
        self.assertEqual(session.run("print(6 * 7)")["stdout"], "42\n")

    # The way it is meant

    def test_a_call_stops_the_run_until_it_is_answered(self):
        with self.api.session() as session:
            run = self.begin(session, "import json\nprint('asks')\nrows = json.loads(await tools.search(query='x'))\n"
                                      "print(rows[0]['name'])")
            call, = run["pending_tool_calls"]
            self.assertEqual((run["status"], run["stdout"]), ("running", "asks\n"))
            self.assertEqual((call["call_id"], call["name"], call["input"]), ("call_1", "search", {"query": "x"}))
            self.assertTrue(200_000 < call["deadline_ms"] <= 240_000, call)
            shown = self.api.get("/v1/runs/" + run["execution_id"]).json
            self.assertEqual([one["call_id"] for one in shown["pending_tool_calls"]], ["call_1"])
            self.assertEqual(self.result(run["execution_id"], "call_1", [{"name": "Ada"}]), {"accepted": 1})
            done = self.wait(run["execution_id"])
            self.assertEqual((done["status"], done["stdout"]), ("ok", "asks\nAda\n"))
            self.assertNotIn("pending_tool_calls", done)

    def test_many_at_once_and_one_after_another(self):
        code = ("import asyncio\na = await asyncio.gather(*(tools.any(i=i) for i in range(20)))\n"
                "b = [tools.any.sync(i=i) for i in range(5)]\nprint(*a, *b)")
        for mode in ("plain", "ipython"):
            with self.subTest(mode), self.api.session(mode=mode, template=self.template_of(mode)) as session:
                run = self.serve(self.begin(session, code), lambda call: str(call["input"]["i"]))
                self.assertEqual(run["stdout"].split(), [str(i) for i in (*range(20), *range(5))], run["error"])
                self.check_alive(session)

    def template_of(self, mode: str) -> str:
        names = [one["name"] for one in self.api.get("/v1/templates").json["templates"]]
        if mode == "ipython" and "default" not in names:
            self.skipTest("no template with IPython is built")
        return "default" if mode == "ipython" else "bare"

    def test_a_run_of_its_own_can_call_too(self):
        asked = {"code": "x = await tools.any(a=1)\nx.upper()", "mode": "cell", "tools": TOOLS, "template": "bare",
                 "return_on_tool_call": True, "cache": True}
        run = self.api.post("/v1/run", asked, 202).json
        done = self.serve(run, lambda call: "abc")
        self.assertEqual((done["status"], done["result"]["mime"]["text/plain"]), ("ok", "'ABC'"), done)
        self.assertEqual(self.api.post("/v1/run", asked, 202).json["status"], "running", "nothing of it is cached")
        self.refused("POST", "/v1/run", {**asked, "mode": "script"}, 400, "invalid_request", "bad_arguments", "cell")

    def test_every_stream_tells_of_calls(self):
        for accept in ("text/event-stream", "application/x-ndjson"):
            with self.subTest(accept), self.api.session() as session:
                asked = {"code": "print(await tools.search(query='q'))\nawait tools.any()", "tools": TOOLS}
                seen = []
                with self.api.stream("POST", session.at + "/runs", asked, accept=accept) as events:
                    for event in events:
                        seen.append(event)
                        if event["type"] == "tool_call":
                            self.result(event["run"], event["call_id"], "found", is_error=event["name"] == "any")
                kinds = [event["type"] for event in seen if event["type"] not in ("stdout", "stderr")]
                self.assertEqual(kinds, ["queued", "started", "tool_call", "tool_call_done", "tool_call",
                                         "tool_call_done", "finished"])
                calls = [event for event in seen if event["type"] == "tool_call"]
                self.assertEqual([(one["call_id"], one["name"], one["input"]) for one in calls],
                                 [("call_1", "search", {"query": "q"}), ("call_2", "any", {})])
                self.assertEqual([event["status"] for event in seen if event["type"] == "tool_call_done"],
                                 ["ok", "error"])
                with self.api.stream("GET", session.at + "/events") as events:
                    for event in events:
                        if event["type"] == "finished":
                            break
                        self.assertIn(event["type"], ("session", "queued", "started", "stdout", "stderr", "tool_call",
                                                      "tool_call_done"))

    def test_a_websocket_carries_calls_and_results(self):
        with self.api.session() as session, self.api.socket_to(session.at + "/stream") as socket:
            socket.send({"type": "run", "id": "a", "code": "print(await tools.any(a=[1]))", "tools": [ANY]})
            call = socket.until("tool_call")[-1]
            self.assertEqual(call["input"], {"a": [1]})
            answer = {"type": "tool_result", "id": "b", "run": call["run"], "call_id": "call_9", "content": "no"}
            socket.send(answer)
            self.assertEqual(socket.until("error")[-1]["error"]["code"], "call_not_pending")
            socket.send({**answer, "run": "exe_" + "0" * 24})
            self.assertEqual(socket.until("error")[-1]["error"]["category"], "run_not_found")
            socket.send({"type": "tool_result", "run": call["run"], "call_id": call["call_id"]}, check=False)
            self.assertEqual(socket.until("error")[-1]["error"]["code"], "bad_arguments")
            socket.send({**answer, "call_id": call["call_id"], "content": {"x": 1}})
            seen = socket.until("finished")
            self.assertEqual([one["text"] for one in seen if one["type"] == "stdout"], ['{"x":1}\n'])

    def test_output_and_displays_go_on_while_calls_are_pending(self):
        code = ("import asyncio\ntask = asyncio.create_task(tools.any())\nx = await asyncio.sleep(0)\n"
                "for i in range(3):\n    print(i)\n    display(i)\nprint(await task)")
        with self.api.session() as session:
            run = self.begin(session, code)
            self.assertTrue(support.settle(
                lambda: len(self.api.get("/v1/runs/" + run["execution_id"]).json["displays"]) == 3))
            done = self.serve(run, lambda call: "end")
            self.assertEqual((done["stdout"], len(done["displays"])), ("0\n1\n2\nend\n", 3))

    # Errors

    def failed(self, code: str, answer, **more) -> dict:
        with self.api.session() as session:
            run = self.begin(session, code, **more)
            if answer is not None:
                self.result(run["execution_id"], run["pending_tool_calls"][0]["call_id"], **answer)
            done = self.wait(run["execution_id"], called=False)
            self.assertEqual((done["status"], done["session"]["state"]), ("error", "kept"), done)
            self.check_alive(session)
            return done["error"]

    def test_a_failure_that_nobody_caught_names_the_tool(self):
        error = self.failed("await tools.any()", {"content": "no such table", "is_error": True})
        self.assertEqual((error["category"], error["code"], error["message"]),
                         ("host_call_failed", "tool_error", "ToolError: no such table"))
        error = self.failed("tools.any.sync()", None, tool_timeout=1)
        self.assertEqual((error["category"], error["code"], error["retryable"], error["python"]["ename"]),
                         ("host_call_failed", "tool_timeout", True, "TimeoutError"))
        self.assertIn("not answered within 1 s", error["message"])

    def test_what_looks_like_a_failed_call_is_an_exception(self):
        error = self.failed("class ToolError(Exception): pass\nawait tools.any()\nraise ToolError('no such table')",
                            {"content": "fine"})
        self.assertEqual(error["category"], "python_exception")
        error = self.failed("import asyncio\nawait asyncio.wait_for(tools.any(), 0.2)", None, tool_timeout=5)
        self.assertEqual(error["category"], "python_exception")

    def test_a_call_that_the_code_gives_up_is_cancelled(self):
        code = ("import asyncio\ntry:\n    await asyncio.wait_for(tools.any(), 0.3)\nexcept TimeoutError:\n"
                "    print('gave up')\nprint(await tools.any(n=2))")
        with self.api.session() as session:
            with self.api.stream("POST", session.at + "/runs", {"code": code, "tools": TOOLS}) as events:
                for event in events:
                    if event["type"] == "tool_call_done":
                        self.assertEqual((event["call_id"], event["status"]), ("call_1", "cancelled"))
                        self.result(event["run"], "call_1", "late", expect=409)
                        break
                for event in events:
                    if event["type"] == "tool_call":
                        self.result(event["run"], event["call_id"], "second")
            self.assertEqual(event["result"]["stdout"], "gave up\nsecond\n")

    def test_failures_can_be_caught(self):
        code = ("for i in range(2):\n    try:\n        await tools.any(i=i)\n"
                "    except (tools.ToolError, TimeoutError) as error:\n"
                "        print(type(error).__name__, error.code)")
        with self.api.session() as session:
            run = self.begin(session, code, tool_timeout=1)
            self.result(run["execution_id"], "call_1", "bad", is_error=True)
            done = self.wait(run["execution_id"], called=False)
            self.assertEqual((done["status"], done["stdout"]),
                             ("ok", "ToolError tool_error\nTimeoutError tool_timeout\n"))

    def test_late_and_unknown_results_are_refused(self):
        with self.api.session() as session:
            run = self.begin(session, "await tools.any()\nawait tools.any()")
            at = "/v1/runs/%s/tool_results" % run["execution_id"]
            body = {"results": [{"call_id": "call_1", "content": "x"}, {"call_id": "call_7", "content": "x"}]}
            self.refused("POST", at, body, 409, "invalid_request", "call_not_pending", "call_7", "1")
            self.refused("POST", at, {"results": [{"call_id": "call_1", "content": "x"}]}, 409, "invalid_request",
                         "call_not_pending", "call_1")
            other = api_support.server.new_client("other")
            answer = other.call("POST", at, {"results": [{"call_id": "call_2", "content": "x"}]})
            self.check_error(answer, 404, "run_not_found", "unknown")
            self.serve(self.wait(run["execution_id"]), lambda call: "y")
            self.refused("POST", at, {"results": [{"call_id": "call_2", "content": "x"}]}, 409, "invalid_request",
                         "call_not_pending", "call_2")
            for bad in ({}, {"results": {}}, {"results": [1]}, {"results": [{"call_id": "call_1"}]},
                        {"results": [{"content": "x"}]}, {"results": [], "x": 1},
                        {"results": [{"call_id": "call_1", "content": "x", "more": 1}]},
                        {"results": [{"call_id": "call_1", "content": "x" * (4 << 20) + "x"}]}):
                self.assertEqual(self.api.call("POST", at, bad).status, 400, str(bad)[:100])
            self.assertEqual(self.api.post(at, {"results": []}).json, {"accepted": 0})

    def test_what_is_offered_is_checked(self):
        with self.api.session() as session:
            for bad, word in (([{"name": "a-b"}], "name"), ([{"name": "1a"}], "name"), ([{"name": "a" * 65}], "name"),
                              ([{}], "name"), ([ANY, ANY], "twice"), ([1], "object"), ({}, "tools"),
                              ([{"name": "a", "input_schema": []}], "input_schema"),
                              ([{"name": "a", "more": 1}], "more"), ([{"name": "a%d" % i} for i in range(65)], "tools"),
                              ([{"name": "a", "description": "x" * (256 << 10)}], "256 KiB")):
                self.refused("POST", session.at + "/runs", {"code": "1", "tools": bad}, 400, "invalid_request",
                             "unknown_field" if word == "more" else "bad_arguments", word)
            for seconds in (0, 601, "x"):
                self.assertEqual(self.api.call("POST", session.at + "/runs", {"code": "1", "tools": TOOLS,
                                                                              "tool_timeout": seconds}).status, 400)
            self.refused("POST", session.at + "/runs", {"command": "ls", "tools": TOOLS}, 400, "invalid_request",
                         "bad_arguments", "command")
            self.assertEqual(session.run("tools")["error"]["python"]["ename"], "NameError")

    # Time

    def test_the_clock_of_the_run_stands_still_while_its_client_thinks(self):
        with self.api.session() as session:
            run = self.begin(session, "a = await tools.any()\nb = await tools.any()\nprint(a + b)", timeout=0.7)
            for text in "xy":
                time.sleep(1)
                run = self.wait(run["execution_id"])
                self.result(run["execution_id"], run["pending_tool_calls"][0]["call_id"], text)
            done = self.wait(run["execution_id"], called=False)
            self.assertEqual((done["status"], done["stdout"]), ("ok", "xy\n"), done["error"])
            run = self.begin(session, "import time\nawait tools.any()\ntime.sleep(20)", timeout=0.7)
            time.sleep(1)
            begin = time.monotonic()
            self.result(run["execution_id"], run["pending_tool_calls"][0]["call_id"])
            done = self.wait(run["execution_id"], called=False)
            self.assertEqual((done["status"], done["error"]["code"]), ("timeout", "wall_timeout"))
            self.assertLess(time.monotonic() - begin, 5)
            self.check_alive(session)

    def test_a_pending_call_is_no_licence_to_compute(self):
        with self.api.session(limits={"timeout": 1, "cpu_time": 1}) as session:
            code = "import asyncio\nasyncio.ensure_future(tools.any())\nx = await asyncio.sleep(0)\nwhile True: pass"
            run = self.begin(session, code)
            done = self.wait(run["execution_id"], called=False)
            self.assertEqual((done["status"], done["error"]["code"]), ("timeout", "cpu_timeout"))
            self.check_alive(session)

    def test_interrupts_and_ends_cancel_what_is_pending(self):
        for how in ("interrupt", "cancel", "restart", "end of the cell", "kill"):
            with self.subTest(how), self.api.session() as session:
                code = ("import asyncio, os\ntasks = [asyncio.ensure_future(tools.any(i=i)) for i in range(3)]\n"
                        "x = await asyncio.sleep(.1)\n")
                last = {"end of the cell": "", "kill": "os.kill(os.getpid(), 9)"}
                code += last.get(how, "await asyncio.gather(*tasks)")
                run = self.begin(session, code)
                at = "/v1/runs/" + run["execution_id"]
                if how in ("interrupt", "restart"):
                    self.assertTrue(support.settle(lambda: len(self.api.get(at).json["pending_tool_calls"]) == 3))
                    self.api.call("POST", "%s/%s" % (session.at, how), expect=(200, 202))
                elif how == "cancel":
                    self.api.post(at + "/cancel", expect=202)
                done = self.wait(run["execution_id"], called=False)
                if how in ("interrupt", "cancel"):
                    self.assertEqual((done["error"]["python"]["ename"], done["session"]["state"]),
                                     ("KeyboardInterrupt", "kept"))
                with self.api.stream("GET", at + "/events") as events:
                    ends = [event["status"] for event in events if event["type"] == "tool_call_done"]
                self.assertEqual(ends, ["cancelled"] * len(ends))
                self.assertGreaterEqual(len(ends), 1)
                self.result(run["execution_id"], "call_1", expect=409)
                self.check_alive(session)
                again = self.serve(self.begin(session, "print(await tools.any())"), lambda call: "again")
                self.assertEqual(again["stdout"], "again\n")

    # Hostile code

    def test_a_flood_of_calls_is_answered_with_errors(self):
        code = ("import asyncio\nasync def call(i):\n    try:\n        return await tools.any(i=i)\n"
                "    except tools.ToolError as error:\n        return error.code + str(error)[:14]\n"
                "got = await asyncio.gather(*(call(i) for i in range(3000)))\n"
                "print(got.count('ok'), got.count('tool_deniedtoo many calls'))")
        with self.api.session() as session:
            done = self.serve(self.begin(session, code), lambda call: "ok")
            self.assertEqual(done["status"], "ok", done["error"])
            accepted, denied = map(int, done["stdout"].split())
            self.assertEqual(accepted + denied, 3000)
            self.assertTrue(64 <= accepted <= 500, accepted)
            self.check_alive(session)

    def test_forged_calls_get_nothing_that_was_not_offered(self):
        with self.api.session() as session:
            done = session.run("old = tools.any", tools=TOOLS)
            self.assertEqual(done["status"], "ok")
            self.assertEqual(session.run(FORGE + "forge(1, b'any')")["status"], "ok")
            done = session.run("await old()")
            self.assertEqual((done["error"]["category"], done["error"]["code"]), ("host_call_failed", "tool_denied"))
            run = self.begin(session, FORGE + "forge(77, b'delete_everything')\nforge(78, b'any', b'not json')\n"
                                              "forge(79, b'any', b'[1]')\nforge(80, b'any', b'[' * 100000)\n"
                                              "forge(81, b'any', b'{\"a\":' * 500 + b'1' + b'}' * 500)\n"
                                              "forge(82, b'any', b'{\"a\": \"' + b'x' * (2 << 20) + b'\"}')\n"
                                              "print(await tools.any())")
            self.assertEqual([call["input"] for call in run["pending_tool_calls"]], [{}])
            self.assertEqual(self.serve(run, lambda call: "mine")["stdout"], "mine\n")
            self.check_alive(session)

    def test_malformed_frames_end_the_conversation_and_not_the_daemon(self):
        frames = ("forge(0, b'any')", "forge(5, b'a b')", "forge(5, b'')", "forge(5, b'x' * 65)",
                  "forge(5, b'any'); forge(5, b'any')", "os.write(3, struct.pack('<IB', 3, 75) + b'ab')",
                  "os.write(3, struct.pack('<IBIII', 20, 75, 1, 999, 9) + b'1234567')",
                  "forge(5, b'any', b'x' * (8 << 20))")
        for forged in frames:
            with self.subTest(forged), self.api.session() as session:
                run = self.begin(session, FORGE + "try:\n    %s\nexcept OSError: pass\n"
                                                  "import time\ntime.sleep(30)" % forged, timeout=1)
                done = self.wait(run["execution_id"], called=False)
                self.assertIn(done["status"], ("timeout", "error"), done)
                self.check_alive(session)

    def test_results_that_are_never_read_cost_little(self):
        code = FORGE + ("import time\nfor i in range(1, 61): forge(1000 + i, b'any')\ntime.sleep(4)")
        with self.api.session() as session:
            run = self.begin(session, code)
            at = "/v1/runs/%s" % run["execution_id"]
            self.assertTrue(support.settle(lambda: len(self.api.get(at).json["pending_tool_calls"]) == 60))
            codes = []
            for i in range(1, 61):
                body = {"results": [{"call_id": "call_%d" % i, "content": "x" * (2 << 20)}]}
                answer = self.api.call("POST", at + "/tool_results", body)
                codes.append(answer.status)
                if answer.status == 409:
                    self.check_error(answer, 409, "session_busy", "not_reading")
                    break
            self.assertEqual((codes[0], codes[-1]), (200, 409))
            self.assertLess(len(codes), 24)
            self.wait(run["execution_id"], called=False)
            self.check_alive(session)

    def test_calls_whose_answers_are_never_read_end_at_some_time(self):
        code = FORGE + "for i in range(200_000): forge(1 + i, b'nothing')\n"
        with self.api.session() as session:
            run = self.begin(session, code, timeout=10)
            done = self.wait(run["execution_id"], called=False)
            self.assertIn(done["status"], ("ok", "error", "timeout"))
            self.check_alive(session)

    def test_a_call_between_cells_is_denied(self):
        code = ("import threading, time\nold, seen = tools.any, []\ndef later():\n    time.sleep(.3)\n    try:\n"
                "        old.sync()\n    except RuntimeError as error:\n        seen.append(error.code)\n"
                "thread = threading.Thread(target=later)\nthread.start()")
        with self.api.session() as session:
            self.assertEqual(session.run(code, tools=TOOLS)["status"], "ok")
            time.sleep(.6)
            self.assertEqual(session.run("thread.join(5)\nprint(seen)")["stdout"], "['tool_denied']\n")

    def test_two_sessions_do_not_hear_each_other(self):
        with self.api.session() as one, self.api.session() as two:
            first, second = (self.begin(session, "print(await tools.any(n=%d))" % n)
                             for n, session in ((1, one), (2, two)))
            self.assertEqual(first["pending_tool_calls"][0]["call_id"], second["pending_tool_calls"][0]["call_id"])
            self.assertEqual(self.serve(second, lambda call: "two")["stdout"], "two\n")
            self.assertEqual(self.wait(first["execution_id"])["status"], "running")
            self.assertEqual(self.serve(first, lambda call: "one")["stdout"], "one\n")

    def test_a_session_that_ends_does_not_wait_for_its_client(self):
        with self.api.session() as session:
            run = self.begin(session, "await tools.any()")
            self.api.delete(session.at)
            self.assertEqual(self.wait(run["execution_id"], called=False)["status"], "cancelled")


if __name__ == "__main__":
    support.main()
