#!/usr/bin/env python3
"""The MCP server over HTTP, in both eras."""
from __future__ import annotations

import base64
import json
import os
import random
import threading
import time

import api_support
import support
from mcp_client import LEGACY, META, MODERN, EventReader, HttpClient
from mcp_client import mirrored, modern_meta, modern_request, mutated, request, run_python

PICTURE = """
import base64
class Shown:
    def _repr_png_(self):
        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
                                "AABJRU5ErkJggg==")
Shown()
"""
SLOW = "import time\nfor i in range(5):\n    print('step', i, flush=True); time.sleep(0.25)"
FOREVER = "import time\nprint('on my way', flush=True)\ntime.sleep(25)"


def setUpModule() -> None:
    api_support.begin("--conformance-fixtures")


def tearDownModule() -> None:
    api_support.finish()


class ModernHttp(support.Scenario):
    def setUp(self) -> None:
        self.client = HttpClient()

    def check_code(self, answer, status: int, code: int) -> dict:
        self.assertEqual((answer.status, answer.code), (status, code), answer.messages)
        return answer.response

    def test_tells_what_it_is(self) -> None:
        answer = self.client.modern("server/discover")
        result = answer.response["result"]
        self.assertEqual(answer.type, "application/json")
        self.assertEqual(result["supportedVersions"][:2], [MODERN, LEGACY])
        self.assertEqual((result["resultType"], result["cacheScope"]), ("complete", "public"))
        self.assertGreater(result["ttlMs"], 0)
        self.assertEqual(result["_meta"][META + "serverInfo"]["name"], "hutch")
        self.assertLessEqual({"tools", "resources", "prompts", "completions", "logging"}, set(result["capabilities"]))

    def test_refuses_what_is_not_a_message(self) -> None:
        for body, code in ((b"{", -32700), (b"", -32700), (b"[]", -32600), (b"1", -32600), (b"{}", -32600),
                           (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), (b"[" * 100, -32700)):
            self.check_code(self.client.send("POST", body), 400, code)

    def test_bodies_that_cannot_be_read_are_refused_as_everywhere(self) -> None:
        for body, headers, status, code in ((b"{}", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
                                            (b"[" + b"0," * 2_000_000 + b"0]", {}, 413, "too_large")):
            refused = self.client.send("POST", body, headers)
            self.assertEqual((refused.status, refused.response["error"]["code"]), (status, code))

    def test_only_calls_may_be_long(self) -> None:
        long = {"padding": "x" * (1 << 20)}
        for message in (modern_request("tools/list", long), modern_request("subscriptions/listen", long),
                        request("initialize", {"protocolVersion": LEGACY, "capabilities": long}),
                        {"jsonrpc": "2.0", "method": "notifications/initialized", "params": long}):
            refused = self.client.post(message, mirrored(message))
            self.assertEqual((refused.status, refused.response["error"]["code"]), (413, "too_large"), message["method"])
        called = self.client.modern("tools/call", run_python("print(1)"), long).response["result"]
        self.assertEqual(called["structuredContent"]["stdout"], "1\n")

    def test_headers_must_agree_with_the_message(self) -> None:
        message = modern_request("tools/call", run_python("1"))
        good = mirrored(message)
        for change in ({"MCP-Protocol-Version": None}, {"MCP-Protocol-Version": "2025-11-25"}, {"Mcp-Method": None},
                       {"Mcp-Method": "tools/list"}, {"Mcp-Method": "Tools/Call"}, {"Mcp-Name": None},
                       {"Mcp-Name": "run_bash"}, {"Mcp-Name": "=?base64?%%%?="}):
            answer = self.client.post(message, {**good, **change})
            self.assertEqual(self.check_code(answer, 400, -32020)["id"], message["id"], change)
        encoded = "=?base64?" + base64.b64encode(b"run_python").decode() + "?="
        self.check_code(self.client.post(message, {**good, "Mcp-Name": " " + encoded + " "}), 200, 0)

    def test_every_request_says_who_sends_it(self) -> None:
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
        for params in ({}, {"_meta": {}}, {"_meta": {META + "protocolVersion": MODERN}}, {"_meta": 1},
                       {"_meta": {**modern_meta(), META + "clientCapabilities": []}},
                       {"_meta": {**modern_meta(), META + "logLevel": "loud"}}):
            self.check_code(self.client.post(request("tools/list", params), headers), 400, -32602)

    def test_names_the_versions_it_speaks(self) -> None:
        message = modern_request("tools/list", meta={META + "protocolVersion": "2031-01-01"})
        error = self.check_code(self.client.post(message, {**mirrored(message), "MCP-Protocol-Version": "2031-01-01"}),
                                400, -32022)["error"]
        self.assertEqual(error["data"]["requested"], "2031-01-01")
        self.assertIn(MODERN, error["data"]["supported"])

    def test_does_not_know_what_is_gone(self) -> None:
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"):
            self.check_code(self.client.modern(method), 404, -32601)
        for verb in ("GET", "DELETE"):
            self.assertEqual(self.client.send(verb, None, {"MCP-Protocol-Version": MODERN}).status, 405)
        self.check_code(self.client.modern("tools/call", {"name": "test_missing_capability"}), 400, -32021)

    def test_asks_who_is_there(self) -> None:
        answer = self.client.post(modern_request("tools/list"), {"Authorization": None})
        self.assertEqual((answer.status, answer.headers["WWW-Authenticate"]), (401, "Bearer"))
        message = modern_request("tools/list")
        for name in ("http://evil.example", "null"):
            self.assertEqual(self.client.post(message, {**mirrored(message), "Origin": name}).status, 403)
        self.assertEqual(self.client.post(message, {**mirrored(message), "Host": "evil.example"}).status, 421)

    def test_lists_tools_that_can_be_called(self) -> None:
        result = self.client.modern("tools/list").response["result"]
        tools = {tool["name"]: tool for tool in result["tools"]}
        self.assertLessEqual({"run_python", "get_execution", "read_file", "write_file"}, set(tools))
        tool = tools["run_python"]
        self.assertEqual((tool["inputSchema"]["type"], tool["outputSchema"]["type"]), ("object", "object"))
        self.assertFalse(tool["annotations"]["readOnlyHint"])
        self.assertIn("anthropic/maxResultSizeChars", tool["_meta"])
        self.assertEqual(self.client.modern("tools/list", {"cursor": ""}).code, 0)
        self.check_code(self.client.modern("tools/list", {"cursor": "elsewhere"}), 200, -32602)
        self.check_code(self.client.modern("tools/list", {"cursor": 5}), 200, -32602)

    def test_runs_code_in_a_session(self) -> None:
        first = self.client.modern("tools/call", run_python("x = 41")).response["result"]
        session = first["structuredContent"]["session_id"]
        second = self.client.modern("tools/call", run_python("print('hi'); x + 1", session)).response["result"]
        self.assertEqual((second["structuredContent"]["result"], second["structuredContent"]["stdout"]), ("42", "hi\n"))
        self.assertIn("42", second["content"][0]["text"])
        self.assertFalse(second["isError"])

    def test_tells_errors_of_the_code_from_errors_of_the_call(self) -> None:
        result = self.client.modern("tools/call", run_python("1 / 0")).response["result"]
        self.assertFalse(result["isError"])
        self.assertEqual(result["structuredContent"]["status"], "error")
        for arguments in ({}, {"code": 5}, {"code": "1", "unknown": 1}, {"code": "1", "session_id": "ses_none"}):
            answer = self.client.modern("tools/call", {"name": "run_python", "arguments": arguments})
            self.assertTrue(answer.response["result"]["isError"], arguments)
            self.assertTrue(answer.response["result"]["content"][0]["text"])
        answer = self.client.modern("tools/call", {"name": "run_perl", "arguments": {}})
        self.assertEqual(self.check_code(answer, 200, -32602)["error"]["message"], "Unknown tool: run_perl")

    def test_shows_pictures(self) -> None:
        result = self.client.modern("tools/call", run_python(PICTURE)).response["result"]
        kinds = [block["type"] for block in result["content"]]
        self.assertEqual(kinds, ["text", "image"])
        self.assertTrue(base64.b64decode(result["content"][1]["data"]).startswith(b"\x89PNG"))

    def test_tells_of_progress_to_those_who_ask(self) -> None:
        silent = self.client.modern("tools/call", run_python("print(1)"))
        self.assertEqual((silent.type, len(silent.messages)), ("application/json", 1))
        answer = self.client.modern("tools/call", run_python(SLOW), {"progressToken": "t", META + "logLevel": "info"})
        self.assertEqual((answer.type, answer.headers["X-Accel-Buffering"]), ("text/event-stream", "no"))
        progress = [told["params"] for told in answer.notifications if told["method"] == "notifications/progress"]
        values = [told["progress"] for told in progress]
        self.assertEqual({told["progressToken"] for told in progress}, {"t"})
        self.assertGreaterEqual(len(values), 3)
        self.assertEqual(values, sorted(set(values)))
        self.assertIn("step", " ".join(told["message"] for told in progress))
        levels = [told["params"]["level"] for told in answer.notifications if told["method"] == "notifications/message"]
        self.assertEqual(levels, ["info", "info"])
        self.assertEqual(answer.response["result"]["structuredContent"]["status"], "ok")

    def test_hanging_up_cancels(self) -> None:
        first = self.client.modern("tools/call", run_python("1")).response["result"]
        session = first["structuredContent"]["session_id"]
        message = modern_request("tools/call", run_python(FOREVER, session), {"progressToken": 1})
        with EventReader(self.client, "POST", json.dumps(message).encode(), mirrored(message)) as events:
            while "on my way" not in events.next()["params"]["message"]:
                pass
        begin = time.monotonic()
        result = self.client.modern("tools/call", run_python("'free'", session)).response["result"]
        self.assertEqual(result["structuredContent"]["result"], "'free'")
        self.assertLess(time.monotonic() - begin, 8)

    def test_a_long_run_is_asked_for_later(self) -> None:
        begun = self.client.modern("tools/call", run_python(SLOW, background=True)).response["result"]
        self.assertEqual(begun["structuredContent"]["status"], "running")
        asked = {"execution_id": begun["structuredContent"]["execution_id"], "wait_seconds": 20}
        result = self.client.modern("tools/call", {"name": "get_execution", "arguments": asked}).response["result"]
        self.assertEqual(result["structuredContent"]["status"], "ok")
        self.assertIn("step 4", result["structuredContent"]["stdout"])

    def test_files_are_resources(self) -> None:
        code = "open('a b.txt', 'w').write('hällo'); open('raw.bin', 'wb').write(bytes(range(256))); print('out')"
        ran = self.client.modern("tools/call", run_python(code)).response["result"]["structuredContent"]
        session = ran["session_id"]
        uris = {file["path"].rpartition("/")[2]: file["uri"] for file in ran["files"]}
        listed = self.client.modern("resources/list").response["result"]
        self.assertEqual(listed["cacheScope"], "private")
        self.assertLessEqual(set(uris.values()), {resource["uri"] for resource in listed["resources"]})
        read = self.client.modern("resources/read", {"uri": uris["a b.txt"]}).response["result"]
        self.assertEqual((read["contents"][0]["text"], read["ttlMs"]), ("hällo", 0))
        read = self.client.modern("resources/read", {"uri": uris["raw.bin"]}).response["result"]
        self.assertEqual(base64.b64decode(read["contents"][0]["blob"]), bytes(range(256)))
        output = "sandbox://%s/executions/%s/stdout" % (session, ran["execution_id"])
        read = self.client.modern("resources/read", {"uri": output}).response["result"]
        self.assertEqual(read["contents"][0]["text"], "out\n")
        templates = self.client.modern("resources/templates/list").response["result"]["resourceTemplates"]
        reference = {"type": "ref/resource", "uri": templates[0]["uriTemplate"]}
        found = self.client.modern("completion/complete", {
            "ref": reference, "argument": {"name": "path", "value": "a"},
            "context": {"arguments": {"session_id": session}}}).response["result"]["completion"]
        self.assertEqual(found["values"], ["a b.txt"])
        found = self.client.modern("completion/complete", {
            "ref": reference, "argument": {"name": "session_id", "value": session[:12]}}).response["result"]
        self.assertIn(session, found["completion"]["values"])

    def test_resources_lead_nowhere_else(self) -> None:
        session = self.client.modern("tools/call", run_python(
            "import os; os.symlink('/etc/passwd', 'link')")).response["result"]["structuredContent"]["session_id"]
        for path in ("%s/files/missing" % session, "%s/files/../x" % session, "%s/files/link" % session,
                     "%s/files/%%2e%%2e/x" % session, "ses_other/files/a", "%s/executions/exe_0/stdout" % session):
            answer = self.client.modern("resources/read", {"uri": "sandbox://" + path})
            error = self.check_code(answer, 200, -32602)["error"]
            self.assertEqual(error["data"]["uri"], "sandbox://" + path)
        other = HttpClient(api_support.server.new_client("neighbour").key)
        uri = self.client.modern("tools/call", run_python("open('mine', 'w')", session)).response["result"][
            "structuredContent"]["files"][0]["uri"]
        self.check_code(self.client.modern("resources/read", {"uri": uri}), 200, 0)
        self.check_code(other.modern("resources/read", {"uri": uri}), 200, -32602)
        self.assertNotIn(uri, str(other.modern("resources/list").messages))

    def test_prompts_begin_conversations(self) -> None:
        prompts = self.client.modern("prompts/list").response["result"]["prompts"]
        self.assertIn("analyse_file", {prompt["name"] for prompt in prompts})
        got = self.client.modern("prompts/get", {"name": "analyse_file", "arguments": {"path": "sales.csv"}}).response
        self.assertIn("sales.csv", got["result"]["messages"][0]["content"]["text"])
        self.check_code(self.client.modern("prompts/get", {"name": "analyse_file"}), 200, -32602)
        self.check_code(self.client.modern("prompts/get", {"name": "none"}), 200, -32602)

    def test_subscribers_hear_of_their_files(self) -> None:
        ran = self.client.modern("tools/call", run_python("open('seen.txt', 'w').write('1')")).response["result"]
        session, uri = ran["structuredContent"]["session_id"], ran["structuredContent"]["files"][0]["uri"]
        message = modern_request("subscriptions/listen", {"notifications": {
            "resourceSubscriptions": [uri], "resourcesListChanged": True, "strangeChanged": True}})
        with EventReader(self.client, "POST", json.dumps(message).encode(), mirrored(message)) as events:
            first = events.next()
            self.assertEqual(first["method"], "notifications/subscriptions/acknowledged")
            self.assertEqual(first["params"]["notifications"],
                             {"resourceSubscriptions": [uri], "resourcesListChanged": True})
            self.client.modern("tools/call", run_python("open('seen.txt', 'w').write('22')", session))
            told = events.next()
            self.assertEqual((told["method"], told["params"]["uri"]), ("notifications/resources/updated", uri))
            self.assertEqual(told["params"]["_meta"][META + "subscriptionId"], message["id"])
            self.client.modern("tools/call", run_python("open('other.txt', 'w')", session))
            self.assertEqual(events.next()["method"], "notifications/resources/list_changed")


class LegacyHttp(support.Scenario):
    def setUp(self) -> None:
        self.client = HttpClient()

    def test_shakes_hands(self) -> None:
        for asked, got in ((LEGACY, LEGACY), ("2025-03-26", "2025-03-26"), ("1999-01-01", LEGACY)):
            self.assertEqual(self.client.begin(asked)["protocolVersion"], got)
        self.assertEqual(self.client.legacy("ping").response["result"], {})
        self.assertEqual(self.client.legacy("logging/setLevel", {"level": "error"}).response["result"], {})
        self.assertEqual(self.client.legacy("logging/setLevel", {"level": "loud"}).code, -32602)
        self.assertEqual(self.client.legacy("server/discover").code, -32601)
        self.assertEqual(self.client.legacy("resources/read", {"uri": "sandbox://a/files/b"}).code, -32002)

    def test_knows_its_clients(self) -> None:
        self.assertEqual(self.client.post(request("tools/list")).status, 400)
        self.assertEqual(self.client.post(request("tools/list"), {"Mcp-Session-Id": "mcp_none"}).status, 404)
        self.client.begin()
        self.assertEqual(self.client.post(request("ping"), {**self.client.as_legacy(),
                                                            "MCP-Protocol-Version": "2024-11-05"}).status, 400)
        neighbour = HttpClient(api_support.server.new_client("legacy-neighbour").key)
        neighbour.session = self.client.session
        self.assertEqual(neighbour.legacy("ping").status, 404)
        self.assertEqual(self.client.legacy("ping").status, 200)
        self.assertEqual(self.client.send("DELETE", None, self.client.as_legacy()).status, 204)
        self.assertEqual(self.client.legacy("ping").status, 404)
        self.assertEqual(self.client.send("GET", None).status, 405)

    def test_calls_tools_and_tells_of_them(self) -> None:
        self.client.begin()
        answer = self.client.legacy("tools/call", {**run_python("print(6 * 7)"), "_meta": {"progressToken": 9}})
        self.assertNotIn("resultType", answer.response["result"])
        self.assertEqual(answer.response["result"]["structuredContent"]["stdout"], "42\n")
        self.assertIn("notifications/message", {told["method"] for told in answer.notifications})
        self.client.legacy("logging/setLevel", {"level": "error"})
        answer = self.client.legacy("tools/call", run_python("print(6 * 7)"))
        self.assertEqual((answer.type, answer.notifications), ("application/json", []))

    def test_cancels_when_told_and_says_no_more(self) -> None:
        self.client.begin()
        first = self.client.legacy("tools/call", run_python("1")).response["result"]
        session = first["structuredContent"]["session_id"]
        got = []
        thread = threading.Thread(target=lambda: got.append(
            self.client.legacy("tools/call", run_python(FOREVER, session), "slow")))
        thread.start()
        time.sleep(0.5)  # until it is on its way; cancelled before that it would end just the same
        told = self.client.post({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                 "params": {"requestId": "slow"}}, self.client.as_legacy())
        self.assertEqual(told.status, 202)
        thread.join(10)
        self.assertFalse(thread.is_alive())
        self.assertEqual([message for message in got[0].messages if "id" in message], [])

    def test_tells_of_files_on_the_stream(self) -> None:
        self.client.begin()
        ran = self.client.legacy("tools/call", run_python("open('w.txt', 'w').write('1')")).response["result"]
        session, uri = ran["structuredContent"]["session_id"], ran["structuredContent"]["files"][0]["uri"]
        with EventReader(self.client, "GET", None, {**self.client.as_legacy(), "Content-Type": None}) as events:
            self.assertEqual(self.client.legacy("resources/subscribe", {"uri": uri}).response["result"], {})
            self.client.legacy("tools/call", run_python("open('w.txt', 'w').write('22')", session))
            told = events.next()
            self.assertEqual((told["method"], told["params"]["uri"]), ("notifications/resources/updated", uri))
            self.client.legacy("resources/unsubscribe", {"uri": uri})

    def test_subscribes_to_what_could_be_there(self) -> None:
        self.client.begin()
        for uri in ("sandbox://ses_1/files/a%20b", "sandbox://ses_1/executions/exe_1/stdout",
                    "test://watched-resource"):
            self.assertEqual(self.client.legacy("resources/subscribe", {"uri": uri}).code, 0, uri)
        for uri in ("anything", "file:///etc/passwd", "sandbox://ses_1/files/../x",
                    "sandbox://ses_1/files/" + "x" * 4000):
            self.assertEqual(self.client.legacy("resources/subscribe", {"uri": uri}).code, -32602, uri)
            refused = self.client.modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
            self.assertEqual((refused.status, refused.code), (200, -32602), uri)
        wanted = ["sandbox://ses_1/files/%d/%s/%s" % (number, "x" * 200, "y" * 200) for number in range(700)]
        refused = self.client.modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": wanted}})
        self.assertEqual(refused.code, -32602, "more than 256 KiB")


class HostileHttp(support.Scenario):
    def test_broken_bodies(self) -> None:
        chance = random.Random(7)
        client = HttpClient()
        connection = client.connect()
        for _ in range(int(os.environ.get("FUZZ_CALLS", "1000"))):
            body = mutated(chance)
            headers = client.headers({"MCP-Protocol-Version": chance.choice((MODERN, LEGACY, "x")),
                                      "Mcp-Method": chance.choice(("tools/list", "resources/list", "x"))})
            connection.request("POST", "/mcp", body, headers)
            answer = connection.getresponse()
            answer.read()
            self.assertLess(answer.status, 500, body)
        connection.close()
        self.assertEqual(client.modern("tools/list").status, 200)


if __name__ == "__main__":
    support.main()
