"""A model that is a script: it makes the same calls every time, and its answer holds what only a real run can know.

Each example talks to an address of its own, /NAME/v1/..., and what it said there is kept under that name."""
from __future__ import annotations

import dataclasses
import http.server
import json
import re
import threading

from dialects import AnthropicMessages, Call, OpenAiChat, OpenAiResponses, Refused, Request, ToolResult, need

LONGEST_REQUEST = 16 << 20
TOKEN = re.compile(r"token: ([0-9a-f]{16})")
SESSION = re.compile(r"ses_[0-9a-f]{24}")
DOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

# What the model does, call by call. The second needs what the first left; both of the first two print, so that output,
# state and an exception are seen; the third shows a picture; the last is not what the schema allows.
MAKE_TOKEN = "import secrets\ntoken = secrets.token_hex(8)\nprint('token:', token)"
FAIL = "print('again:', token)\nraise ValueError('on purpose')"
SHOW = "import base64\ndisplay({'image/png': base64.b64decode('%s')}, raw=True)" % DOT
CALLS = ({"code": MAKE_TOKEN}, {"code": FAIL}, {"code": SHOW}, {"kode": "1"})

# The same for a model that answers with code instead of calls; its last step is to say what it found.
STEPS = (MAKE_TOKEN, FAIL, "final_answer('The token is ' + token + '.' + ' ' * 5000)")

DIALECTS = (AnthropicMessages(), OpenAiChat(), OpenAiResponses())


@dataclasses.dataclass
class Conversation:
    """What one example sent."""

    results: list[ToolResult] = dataclasses.field(default_factory=list)
    complaints: list[str] = dataclasses.field(default_factory=list)
    tools: list[str] = dataclasses.field(default_factory=list)


def next_call(request: Request) -> Call | str:
    """The script is at the place that the number of results says."""
    step = len(request.results)
    if step < len(CALLS):
        arguments = dict(CALLS[step])
        schema = request.tools["run_python"]
        told = SESSION.search(request.results[0].text) if step else None
        if told and "session_id" in schema["properties"]:
            arguments["session_id"] = told[0]  # a model that was told an id uses it
        return Call("run_python", arguments)
    found = TOKEN.search(request.results[0].text)
    return "The token is %s." % (found[1] if found else "unknown")


def next_code(body: dict) -> tuple[str, list[ToolResult]]:
    """For an agent that writes code: what was observed after each step is in the messages of the user."""
    answers = [index for index, message in enumerate(body["messages"]) if message["role"] == "assistant"]
    observed = [json.dumps(body["messages"][index + 1]["content"]) for index in answers]
    need(len(answers) < len(STEPS), "the agent did not stop at its final answer")
    text = "Thought: I compute it.\n<code>\n%s\n</code>" % STEPS[len(answers)]
    return text, [ToolResult(text) for text in observed]


class ScriptedModel:
    def __init__(self) -> None:
        self.conversations: dict[str, Conversation] = {}
        self._lock = threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                model.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def url(self, name: str) -> str:
        return "http://127.0.0.1:%d/%s" % (self._server.server_address[1], name)

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(min(length, LONGEST_REQUEST))
        name, _, rest = handler.path.lstrip("/").partition("/")
        path = "/" + rest.partition("?")[0]
        with self._lock:
            conversation = self.conversations.setdefault(name, Conversation())
        dialect = next((one for one in DIALECTS if one.path == path), None)
        if dialect is None:
            conversation.complaints.append("nothing at " + handler.path)
            self._send(handler, 404, {"error": {"message": "not found"}})
            return
        try:
            for group in dialect.needed_headers:
                need(any(handler.headers.get(header) for header in group), "missing header " + group[0])
            body = json.loads(raw)
            need(not body.get("stream") or hasattr(dialect, "stream"), "this model does not stream here")
            answer = self._think(dialect, conversation, body)
        except Refused as refusal:
            conversation.complaints.append(str(refusal))
            self._send(handler, 400, dialect.refuse(str(refusal)))
        except (KeyError, TypeError, ValueError) as error:
            conversation.complaints.append("malformed: %r" % error)
            self._send(handler, 400, dialect.refuse("malformed: %r" % error))
        else:
            if body.get("stream"):
                self._send_events(handler, dialect.stream(answer))
            else:
                self._send(handler, 200, answer)

    @staticmethod
    def _think(dialect, conversation: Conversation, body: dict) -> dict:
        request = dialect.read(body)
        conversation.tools = sorted(request.tools)
        if request.tools:
            conversation.results = request.results
            answer = next_call(request)
        else:
            answer, conversation.results = next_code(body)
        return dialect.write(len(conversation.results) + 1, answer, body["model"])

    @staticmethod
    def _send(handler: http.server.BaseHTTPRequestHandler, status: int, body: dict) -> None:
        ScriptedModel._send_data(handler, status, "application/json", json.dumps(body).encode())

    @staticmethod
    def _send_events(handler: http.server.BaseHTTPRequestHandler, events: list[dict]) -> None:
        data = "".join("event: %s\ndata: %s\n\n" % (event["type"], json.dumps(event)) for event in events)
        ScriptedModel._send_data(handler, 200, "text/event-stream", data.encode())

    @staticmethod
    def _send_data(handler: http.server.BaseHTTPRequestHandler, status: int, kind: str, data: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
