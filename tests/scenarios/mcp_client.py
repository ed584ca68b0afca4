"""A client of the Model Context Protocol, as little of it as the tests need: both eras, over HTTP and over pipes."""
from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import queue
import random
import subprocess
import threading

import api_support
import support

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
PATIENCE = 30.0

_ids = itertools.count(1)


def request(method: str, params: dict | None = None, request_id: object = None) -> dict:
    message = {"jsonrpc": "2.0", "id": next(_ids) if request_id is None else request_id, "method": method}
    return message if params is None else {**message, "params": params}


def modern_meta(**more: object) -> dict:
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": {},
            META + "clientInfo": {"name": "scenario", "version": "0"}, **more}


def modern_request(method: str, params: dict | None = None, meta: dict | None = None) -> dict:
    return request(method, {**(params or {}), "_meta": {**modern_meta(), **(meta or {})}})


def run_python(code: str, session: str | None = None, **more: object) -> dict:
    arguments = {"code": code, **more}
    if session is not None:
        arguments["session_id"] = session
    return {"name": "run_python", "arguments": arguments}


def mirrored(message: dict) -> dict:
    """The headers that a modern client sends with a message."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    if message["method"] in NAMED:
        name = message["params"].get(NAMED[message["method"]], "")
        if not name.isascii():
            name = "=?base64?" + base64.b64encode(name.encode()).decode() + "?="
        headers["Mcp-Name"] = name
    return headers


class Posted:
    """The answer to a POST: its messages, the last of which is the response."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.type = answer.headers.get("Content-Type", "")
        body = answer.read()
        self.body = body
        if self.type == "text/event-stream":
            self.messages = [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")]
        else:
            self.messages = [json.loads(body)] if body else []

    @property
    def response(self) -> dict:
        return self.messages[-1]

    @property
    def notifications(self) -> list[dict]:
        return [message for message in self.messages if "method" in message]

    @property
    def code(self) -> int:
        """Of the error; 0 when there is none."""
        return self.response.get("error", {}).get("code", 0)


class HttpClient:
    def __init__(self, key: str | None = None) -> None:
        self.key = api_support.server.key if key is None else key
        self.session = ""

    def connect(self) -> http.client.HTTPConnection:
        server = api_support.server
        return http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)

    def headers(self, more: dict | None = None) -> dict:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                   "Authorization": "Bearer " + self.key, **(more or {})}
        return {name: value for name, value in headers.items() if value is not None}

    def send(self, method: str, body: bytes | None, headers: dict | None = None) -> Posted:
        connection = self.connect()
        try:
            connection.request(method, "/mcp", body, self.headers(headers))
            return Posted(connection.getresponse())
        finally:
            connection.close()

    def post(self, message: object, headers: dict | None = None) -> Posted:
        return self.send("POST", json.dumps(message).encode(), headers)

    def modern(self, method: str, params: dict | None = None, meta: dict | None = None) -> Posted:
        message = modern_request(method, params, meta)
        return self.post(message, mirrored(message))

    def begin(self, version: str = LEGACY) -> dict:
        """Shakes hands in the old way."""
        answer = self.post(request("initialize", {"protocolVersion": version, "capabilities": {},
                                                  "clientInfo": {"name": "scenario", "version": "0"}}))
        self.session = answer.headers["Mcp-Session-Id"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, self.as_legacy())
        return answer.response["result"]

    def as_legacy(self) -> dict:
        return {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": LEGACY}

    def legacy(self, method: str, params: dict | None = None, request_id: object = None) -> Posted:
        return self.post(request(method, params, request_id), self.as_legacy())


class EventReader:
    """A stream of events that stays open."""

    def __init__(self, client: HttpClient, method: str, body: bytes | None, headers: dict) -> None:
        self._connection = client.connect()
        self._connection.request(method, "/mcp", body, client.headers(headers))
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def next(self) -> dict:
        while True:
            line = self._answer.readline()
            if not line:
                raise AssertionError("the stream has ended")
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def until_the_end(self, within: float = 10) -> None:
        """Fails when it does not end: there is a comment only every 15 seconds."""
        self._connection.sock.settimeout(within)
        self._answer.read()

    def __enter__(self) -> EventReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._answer.close()
        self._connection.close()


class StdioClient:
    """`hutch mcp`, with everything it writes kept in order."""

    def __init__(self, *options: str) -> None:
        self.process = support.home.start("mcp", *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL)
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.notifications: list[dict] = []
        self.answers: dict[str, dict] = {}

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def __enter__(self) -> StdioClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def receive(self, within: float = PATIENCE) -> dict:
        """The next message, whatever it is."""
        line = self._lines.get(timeout=within)
        if not line:
            raise AssertionError("hutch mcp has ended")
        return json.loads(line)

    def answer_to(self, message: dict) -> dict:
        name = json.dumps(message["id"])
        while name not in self.answers:
            got = self.receive()
            if "method" in got:
                self.notifications.append(got)
            else:
                self.answers[json.dumps(got.get("id"))] = got
        return self.answers.pop(name)

    def call(self, method: str, params: dict | None = None) -> dict:
        message = request(method, params)
        self.send(message)
        return self.answer_to(message)

    def modern(self, method: str, params: dict | None = None, meta: dict | None = None) -> dict:
        message = modern_request(method, params, meta)
        self.send(message)
        return self.answer_to(message)

    def begin(self, version: str = LEGACY) -> dict:
        result = self.call("initialize", {"protocolVersion": version, "capabilities": {},
                                          "clientInfo": {"name": "scenario", "version": "0"}})["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def close(self) -> int:
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("hutch mcp does not end with its input") from None
        finally:
            self.process.stdout.close()


# What a hostile client sends


MESSAGES = [json.dumps(message).encode() for message in (
    modern_request("tools/list", {"cursor": "1"}),
    modern_request("tools/call", {"name": "list_sessions", "arguments": {}}, {"progressToken": 1}),
    modern_request("resources/read", {"uri": "sandbox://ses_1/files/a"}),
    modern_request("resources/list"),
    modern_request("prompts/get", {"name": "analyse_file", "arguments": {"path": "x"}}),
    modern_request("completion/complete", {"ref": {"type": "ref/prompt", "name": "a"},
                                           "argument": {"name": "session_id", "value": "s"}}),
    request("initialize", {"protocolVersion": LEGACY, "capabilities": {}}),
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})]


def mutated(chance: random.Random) -> bytes:
    """One of these messages, broken in a few places and still one line."""
    data = bytearray(chance.choice(MESSAGES))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            data[at:at + chance.randint(0, 8)] = b""
        elif kind == 1:
            data[at:at] = chance.choice((b"{", b"]", b'"', b"null", b"-1e999", b"\\u0000", b"\xff", b'"_meta":1,'))
        elif kind == 2 and data:
            data[min(at, len(data) - 1)] = chance.randrange(256)
        else:
            begin = chance.randrange(len(data) + 1)
            data[at:at] = data[begin:begin + chance.randint(0, 20)]
    return bytes(data).replace(b"\n", b" ").replace(b"\r", b" ")
