#!/usr/bin/env python3
"""A model that says what a test wrote down, behind the real wire formats of two APIs: Anthropic's Messages and OpenAI's
chat completions, streamed in awkward pieces or whole. It judges what it receives as strictly as the real ones do.

    with ModelServer([call("print(6 * 7)"), say("42")]) as server:
        ... server.url ...
        server.check()

A script is a list of steps. A step is a dictionary, or a function that is given the request and returns one:

    {"content": [blocks], "stop_reason": "end_turn", "usage": {...}, "stop_details": {...}}   a turn
    {..., "break": "close" | "error", "error": {"type", "message"}}                          that ends in the middle
    {"status": 429, "headers": {"retry-after": "1"}, "error": {"type", "message"}}           no turn

Blocks are those of the Messages API. A tool_use with "partial_json" is one that was cut off.

    model_server.py --dialect anthropic --port 9000 --script script.json [--key KEY] [--repeat]
"""
from __future__ import annotations

import argparse
import copy
import http.server
import itertools
import json
import ssl
import sys
import threading

from model_rules import check_anthropic, check_openai

FINISH = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
          "refusal": "content_filter"}
PIECES = (1, 7, 3, 50, 2, 13, 400)  # bytes that travel together


def say(text: str, **more) -> dict:
    return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", **more}


def call(*codes: str, tool: str = "run_python", words: str = "", **more) -> dict:
    content = [{"type": "text", "text": words}] if words else []
    content += [{"type": "tool_use", "name": tool, "input": {"code": code}} for code in codes]
    return {"content": content, "stop_reason": "tool_use", **more}


def fail(status: int, kind: str, message: str = "as the script says", **headers: str) -> dict:
    return {"status": status, "error": {"type": kind, "message": message},
            "headers": {name.replace("_", "-"): value for name, value in headers.items()}}


def results_of(request: dict) -> list[str]:
    """The text of every tool result in the newest message or messages, for scripts that are functions."""
    texts = []
    for message in request["messages"]:
        if message["role"] == "assistant":
            texts = []
        elif message["role"] == "tool":
            texts.append(message["content"])
        elif isinstance(message["content"], list):
            texts += ["".join(part.get("text", "") for part in block["content"]) for block in message["content"]
                      if block["type"] == "tool_result"]
    return texts


class ModelServer:
    """Serves one script on a loopback port until it is closed. `requests` are the bodies that came."""

    def __init__(self, script: list, dialect: str = "anthropic", key: str = "", port: int = 0, repeat: bool = False,
                 certificate: tuple[str, str] | None = None, line_end: str = "\n") -> None:
        self.script, self.dialect, self.key, self.repeat, self.line_end = script, dialect, key, repeat, line_end
        self.requests: list[dict] = []
        self.turns: list[list] = []  # contents that were sent whole, which must come back as they were
        self.problems: list[str] = []
        self._steps = iter(script)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._server = _QuietServer(("127.0.0.1", port), _handler_for(self))
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True,
                                                      do_handshake_on_connect=False)
        self.url = "%s://127.0.0.1:%d" % ("https" if certificate else "http", self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def check(self) -> None:
        """What the client did wrong, if anything, and whether the script was played to its end."""
        if self.problems:
            raise AssertionError("; ".join(self.problems))
        if next(self._steps, None) is not None:
            raise AssertionError("the script was not played to its end: %d requests" % len(self.requests))

    def answer(self, path: str, headers: dict, body: bytes) -> tuple[dict, dict]:
        """The request and the step that answers it."""
        with self._lock:
            try:
                request = json.loads(body)
            except ValueError:
                request = {}
                self.problems.append("the body is no JSON")
            if self.key and self._key_of(headers) != self.key:
                return request, fail(401, "authentication_error", "invalid key")
            judge = check_anthropic if self.dialect == "anthropic" else check_openai
            problems = judge(path, headers, request, self.turns)
            self.problems += problems
            self.requests.append(request)
            if problems:
                return request, fail(400, "invalid_request_error", "; ".join(problems))
            return request, self._next_step(request)

    def _key_of(self, headers: dict) -> str:
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def _next_step(self, request: dict) -> dict:
        step = next(self._steps, None)
        if step is None and self.repeat:
            self._steps = iter(self.script)
            step = next(self._steps, None)
        if step is None:
            return fail(500, "api_error", "the script has ended", x_should_retry="false")
        step = copy.deepcopy(step(request) if callable(step) else step)
        for block in step.get("content", ()):
            if block["type"] == "tool_use":
                number = next(self._numbers)
                block.setdefault("id", "%s_%04d" % ("toolu" if self.dialect == "anthropic" else "call", number))
        if "content" in step and "break" not in step:
            self.turns.append([{key: value for key, value in block.items() if key != "partial_json"}
                               for block in step["content"]])
        return step


class _QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_) -> None:
        """A client that leaves, or that does not like the certificate, is none of our business."""


def _handler_for(model: ModelServer):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": "scripted", "object": "model", "type": "model"}]})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request, step = model.answer(self.path, headers, body)
            if "status" in step:
                error = {"error": step["error"]}
                if model.dialect == "anthropic":
                    error = {"type": "error", **error, "request_id": "req_scripted"}
                self._send(step["status"], error, step.get("headers"))
            elif request.get("stream"):
                self._stream(request, step)
            elif model.dialect == "anthropic":
                self._send(200, whole_message(request, step))
            else:
                self._send(200, whole_completion(request, step))

        def _send(self, status: int, value: dict, headers: dict | None = None) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"content-type": "application/json", "content-length": str(len(body)),
                               **(headers or {})}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, request: dict, step: dict) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            events = message_events(request, step) if model.dialect == "anthropic" else chunk_events(request, step)
            text = "".join(events).replace("\n", model.line_end).encode()
            sizes = itertools.cycle(PIECES)
            try:
                at = 0
                while at < len(text):
                    piece = text[at:at + next(sizes)]
                    at += len(piece)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                if step.get("break") == "close":
                    self.close_connection = True
                else:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True  # the client has heard enough

        def log_message(self, *_) -> None:
            pass

    return Handler


def _usage(step: dict) -> dict:
    return {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
            **step.get("usage", {})}


def _pieces(text: str, size: int = 9):
    return [text[at:at + size] for at in range(0, len(text), size)]


# The Messages API


def whole_message(request: dict, step: dict) -> dict:
    return {"id": "msg_scripted", "type": "message", "role": "assistant", "model": request.get("model", ""),
            "content": step["content"], "stop_reason": step["stop_reason"], "stop_sequence": None,
            "stop_details": step.get("stop_details"), "usage": _usage(step)}


def message_events(request: dict, step: dict):
    def event(kind: str, **data) -> str:
        return "event: %s\ndata: %s\n\n" % (kind, json.dumps({"type": kind, **data}, ensure_ascii=False))

    usage = _usage(step)
    start = {**whole_message(request, step), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield event("message_start", message=start)
    yield event("ping")
    for index, block in enumerate(step["content"]):
        opened, deltas = _opened(block)
        yield event("content_block_start", index=index, content_block=opened)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_delta", index=index, delta={"type": "unheard_of_delta"})
        if "break" in step and index == len(step["content"]) - 1:
            if step["break"] == "error":
                yield event("error", error=step["error"])
            return
        yield event("content_block_stop", index=index)
        yield "event: unheard_of\ndata: {\n\n"
    yield event("message_delta", delta={"stop_reason": step["stop_reason"], "stop_sequence": None,
                                        "stop_details": step.get("stop_details")}, usage=usage)
    yield event("message_stop")


def _opened(block: dict) -> tuple[dict, list[dict]]:
    """A block as it starts, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        return ({**block, "thinking": "", "signature": ""},
                [*deltas, {"type": "signature_delta", "signature": block["signature"]}])
    if block["type"] == "tool_use":
        opened = {key: value for key, value in block.items() if key != "partial_json"}
        arguments = block.get("partial_json") or (json.dumps(block["input"]) if block["input"] else "")
        return {**opened, "input": {}}, [{"type": "input_json_delta", "partial_json": piece}
                                         for piece in ["", *_pieces(arguments)]]
    return block, []


# Chat completions


def _chat_parts(step: dict) -> tuple[str, list[dict]]:
    text = "".join(block["text"] for block in step["content"] if block["type"] == "text")
    calls = [{"id": block["id"], "type": "function",
              "function": {"name": block["name"],
                           "arguments": block.get("partial_json") or json.dumps(block["input"])}}
             for block in step["content"] if block["type"] == "tool_use"]
    return text, calls


def _chat_usage(step: dict) -> dict:
    usage = _usage(step)
    prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
    return {"prompt_tokens": prompt, "completion_tokens": usage["output_tokens"],
            "total_tokens": prompt + usage["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": usage["cache_read_input_tokens"]}}


def whole_completion(request: dict, step: dict) -> dict:
    text, calls = _chat_parts(step)
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    return {"id": "chatcmpl-scripted", "object": "chat.completion", "created": 1, "model": request.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": FINISH.get(step["stop_reason"], "stop")}],
            "usage": _chat_usage(step)}


def chunk_events(request: dict, step: dict):
    def chunk(choices: list, **more) -> str:
        return "data: %s\n\n" % json.dumps({"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 1,
                                            "model": request.get("model", ""), "choices": choices, **more},
                                           ensure_ascii=False)

    def delta(finish: str | None = None, **fields) -> str:
        return chunk([{"index": 0, "delta": fields, "finish_reason": finish}])

    text, calls = _chat_parts(step)
    yield delta(role="assistant", content="")
    yield ": keep-alive\n\n"
    for block in step["content"]:
        if block["type"] == "thinking":
            yield delta(reasoning_content=block["thinking"])
    for piece in _pieces(text):
        yield delta(content=piece)
    for index, one in enumerate(calls):
        yield delta(tool_calls=[{"index": index, **one, "function": {**one["function"], "arguments": ""}}])
        for piece in _pieces(one["function"]["arguments"]):
            yield delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    if "break" in step:
        if step["break"] == "error":
            yield "data: %s\n\n" % json.dumps({"error": step["error"]})
        return
    yield delta(finish=FINISH.get(step["stop_reason"], step["stop_reason"]))
    if request.get("stream_options", {}).get("include_usage"):
        yield chunk([], usage=_chat_usage(step))
    yield "data: [DONE]\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="A model server that plays a script.")
    parser.add_argument("--dialect", choices=("anthropic", "openai"), default="anthropic")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", required=True, help="a JSON file: a list of steps")
    parser.add_argument("--key", default="", help="the key to insist on")
    parser.add_argument("--repeat", action="store_true", help="begin again when the script has ended")
    arguments = parser.parse_args()
    with open(arguments.script) as file:
        script = json.load(file)
    server = ModelServer(script, arguments.dialect, arguments.key, arguments.port, arguments.repeat)
    print(server.url, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.close()
        sys.exit("; ".join(server.problems) or 0)


if __name__ == "__main__":
    main()
