#!/usr/bin/env python3
"""The MCP server on standard input and output, in both eras."""
from __future__ import annotations

import json
import os
import random
import signal
import time

import support
from mcp_client import StdioClient, mutated, request, run_python

FOREVER = "import time\ntime.sleep(25)"


def setUpModule() -> None:
    support.begin()


def tearDownModule() -> None:
    support.finish()


class Stdio(support.Scenario):
    def test_speaks_the_old_way_and_the_new_one(self) -> None:
        with StdioClient() as client:
            self.assertEqual(client.begin()["serverInfo"]["name"], "hutch")
            self.assertEqual(client.call("ping")["result"], {})
            ran = client.call("tools/call", run_python("print('hi')"))["result"]
            self.assertEqual(ran["structuredContent"]["stdout"], "hi\n")
            found = client.modern("server/discover")["result"]
            self.assertEqual(found["resultType"], "complete")
            session = ran["structuredContent"]["session_id"]
            again = client.modern("tools/call", run_python("'same'", session))["result"]
            self.assertEqual(again["structuredContent"]["result"], "'same'")
            self.assertEqual(client.call("server/discover")["error"]["code"], -32602)
            self.assertEqual(client.modern("ping")["error"]["code"], -32601)

    def test_answers_soon_after_it_starts(self) -> None:
        best = 10.0
        for _ in range(3):
            begin = time.monotonic()
            with StdioClient() as client:
                client.modern("server/discover")
                best = min(best, time.monotonic() - begin)
        self.assertLess(best, 0.5)  # a tenth of a second where nothing else is going on

    def test_serves_requests_side_by_side(self) -> None:
        with StdioClient() as client:
            client.begin()
            slow = request("tools/call", run_python("import time; time.sleep(1.5); 'slow'"))
            client.send(slow)
            begin = time.monotonic()
            self.assertEqual(client.call("ping")["result"], {})
            self.assertLess(time.monotonic() - begin, 1)
            self.assertEqual(client.answer_to(slow)["result"]["structuredContent"]["result"], "'slow'")

    def test_cancels_and_says_no_more(self) -> None:
        with StdioClient() as client:
            client.begin()
            session = client.call("tools/call", run_python("1"))["result"]["structuredContent"]["session_id"]
            slow = request("tools/call", run_python(FOREVER, session))
            client.send(slow)
            client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow["id"]}})
            result = client.call("tools/call", run_python("'free'", session))["result"]
            self.assertEqual(result["structuredContent"]["result"], "'free'")
            self.assertEqual(client.answers, {})

    def test_ends_with_its_input_whatever_runs(self) -> None:
        client = StdioClient()
        client.begin()
        client.send(request("tools/call", run_python(FOREVER)))
        time.sleep(0.3)
        begin = time.monotonic()
        self.assertEqual(client.close(), 0)
        self.assertLess(time.monotonic() - begin, 4)

    def test_ends_when_it_is_told_to(self) -> None:
        client = StdioClient()
        client.begin()
        client.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.process.wait(5), 0)
        client.close()

    def test_survives_bad_lines(self) -> None:
        with StdioClient() as client:
            client.write(b"\n  \n{\n[1]\n\xff\xfe\n" + b"x" * (9 << 20) + b"\n")
            self.assertEqual([client.receive()["error"]["code"] for _ in range(4)], [-32700, -32600, -32700, -32600])
            client.begin()

    def test_offers_the_tools_that_were_asked_for(self) -> None:
        with StdioClient("--tools", "run_python,read_file") as client:
            client.begin()
            names = {tool["name"] for tool in client.call("tools/list")["result"]["tools"]}
            self.assertEqual(names, {"run_python", "read_file"})
            self.assertEqual(client.call("tools/call", {"name": "write_file"})["error"]["code"], -32602)
        done = self.home.call("mcp", "--tools", "no_such_tool")
        self.assertEqual(done.code, support.OWN_FAILURE)

    def test_writes_the_configuration_of_clients(self) -> None:
        done = self.home.call("mcp", "--print-config", "claude-desktop")
        self.assertEqual(json.loads(done.out)["mcpServers"]["hutch"]["args"], ["mcp"])
        done = self.home.call("mcp", "--print-config", "vscode", "--http", "https://example.org/mcp")
        self.assertEqual(json.loads(done.out)["servers"]["hutch"]["url"], "https://example.org/mcp")
        self.assertEqual(self.home.call("mcp", "--print-config", "abacus").code, support.OWN_FAILURE)

    def test_thousands_of_broken_lines(self) -> None:
        chance = random.Random(6)
        with StdioClient() as client:
            client.write(b"".join(mutated(chance) + b"\n" for _ in range(int(os.environ.get("FUZZ_CALLS", "3000")))))
            self.assertEqual(client.call("ping")["result"], {})


if __name__ == "__main__":
    support.main()
