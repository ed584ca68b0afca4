"""POST /v1/agent: a scripted model, real sandboxes, answers and events as documented."""
from __future__ import annotations

import json
import threading

import api_support
import support
from api_support import ApiScenario
from model_server import ModelServer, call, results_of, say

KEY = "sk-daemon-6f5e4d3c2b1a"
CODE = "print(sum(int(line) for line in open('numbers.txt')))"

SLOWLY = "Take your time."

model: ModelServer
time_is_over = threading.Event()  # for a model that was told to take it


def think(request: dict) -> dict:
    results = results_of(request)
    if not results:
        return call(CODE)
    if SLOWLY in json.dumps(request["messages"]):
        time_is_over.wait(api_support.PATIENCE)
    return say("It is " + results[-1])


def setUpModule() -> None:
    global model
    model = ModelServer([think], "anthropic", key=KEY, repeat=True)
    model.__enter__()
    api_support.begin(env={"ANTHROPIC_API_KEY": KEY, "HUTCH_AGENT_BASE_URL": model.url, "HUTCH_AGENT_MODEL": "scripted"})


def tearDownModule() -> None:
    try:
        api_support.finish()
    finally:
        model.__exit__(None, None, None)


class Agent(ApiScenario):
    QUESTION = {"question": "What is the sum?", "files": [{"path": "numbers.txt", "content": "40\n2\n"}]}

    def test_the_report_has_answer_transcript_and_notebook(self):
        answer = self.api.post("/v1/agent", self.QUESTION)
        report = answer.json
        self.assertIn("<stdout>42\n</stdout>", report["answer"])
        self.assertEqual((report["stopped_because"], report["attempts"], report["iterations"]), ("answered", 1, 2))
        self.assertEqual(report["notebook"]["cells"][0]["source"], [CODE])
        self.assertNotIn(KEY, answer.body.decode())
        self.assertEqual(self.api.get("/v1/sessions").json["sessions"], [])

    def test_what_it_does_comes_as_it_happens(self):
        for accept in ("text/event-stream", "application/x-ndjson"):
            with self.subTest(accept), self.api.stream("POST", "/v1/agent", self.QUESTION, accept=accept) as events:
                seen = list(events)
                kinds = [event["type"] for event in seen]
                self.assertLess(kinds.index("tool_call"), kinds.index("tool_result"))
                self.assertEqual(kinds[-1], "done")
                self.assertIn("42", seen[-1]["result"]["answer"])

    def test_what_is_no_question_is_refused(self):
        for body in ({}, {"question": ""}, {"question": "x", "files": [{"path": "/etc/passwd", "content": ""}]},
                     {"question": "x", "max_attempts": 0}, {"question": "x", "base_url": "http://127.0.0.1:1"}):
            with self.subTest(body=body):
                self.api.post("/v1/agent", body, 400)

    def test_a_client_that_hangs_up_cancels(self):
        with self.api.stream("POST", "/v1/agent", self.QUESTION) as events:
            next(events)
        self.assertTrue(support.settle(lambda: not self.api.get("/v1/sessions").json["sessions"], 10))

    def test_the_agent_of_a_revoked_key_stops(self):
        self.addCleanup(time_is_over.set)
        other = api_support.server.new_client("asking")
        key_id = other.get("/v1/usage").json["key"]["id"]
        asked = {**self.QUESTION, "question": SLOWLY}
        with other.stream("POST", "/v1/agent", asked, timeout=10) as events:
            self.assertIn("tool_result", (event["type"] for event in events))
            done = support.home.call("key", "--data", api_support.server.data, "revoke", key_id)
            self.assertEqual(done.code, 0)
            last = list(events)[-1]
        self.assertEqual((last["type"], last["result"]["stopped_because"]), ("done", "cancelled"))


class Unconfigured(ApiScenario):
    def test_a_daemon_without_a_key_says_so(self):
        server = api_support.Server(support.home, name="other")
        server.socket += ".other"
        server.start()
        try:
            error = server.client().post("/v1/agent", {"question": "x"}, 404).json["error"]
            self.assertEqual(error["code"], "agent_not_configured")
        finally:
            server.stop()

    def test_where_its_key_should_have_been_is_for_the_log(self):
        home = support.Home()
        self.addCleanup(home.close)
        server = api_support.Server(home, env={"HUTCH_AGENT_KEY_FILE": "/nowhere/model.key"}).start()
        self.addCleanup(server.kill)
        error = server.client().post("/v1/agent", {"question": "x"}, 404).json["error"]
        self.assertEqual((error["code"], "nowhere" in json.dumps(error)), ("agent_not_configured", False))
        with open(server.data + ".log") as log:
            self.assertIn("/nowhere/model.key", log.read())



class NotOffered(support.Scenario):
    def test_a_key_in_the_environment_is_not_for_everybody(self):
        home = support.Home()
        self.addCleanup(home.close)
        server = api_support.Server(home, env={"ANTHROPIC_API_KEY": KEY, "HUTCH_AGENT_BASE_URL": model.url}).start()
        self.addCleanup(server.kill)
        refused = server.client().post("/v1/agent", {"question": "x"}, 404).json["error"]
        self.assertEqual(refused["code"], "agent_not_configured")


if __name__ == "__main__":
    support.main()
