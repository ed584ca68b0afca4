"""What the two model APIs accept: each function returns the rules that a request breaks, in words."""
from __future__ import annotations

import json
import re

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def check_anthropic(path: str, headers: dict, request: dict, turns: list[list]) -> list[str]:
    problems = _common(path, "/v1/messages", headers, request)
    if "x-api-key" not in headers and "authorization" not in headers:
        problems.append("no key")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", headers.get("anthropic-version", "")):
        problems.append("no anthropic-version")
    if not isinstance(request.get("max_tokens"), int) or request["max_tokens"] < 1:
        problems.append("max_tokens is missing")
    problems += ["%s is not for newer models" % name for name in ("temperature", "top_p", "top_k") if name in request]
    for tool in request.get("tools", ()):
        if not TOOL_NAME.match(tool.get("name", "")) or tool.get("input_schema", {}).get("type") != "object":
            problems.append("not a tool: %s" % json.dumps(tool)[:200])
    messages = request.get("messages") or [{"role": "none", "content": ""}]
    if messages[0]["role"] != "user":
        problems.append("the first message is not the user's")
    answered = 0
    for before, message, after in zip([None, *messages], messages, [*messages[1:], None]):
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not content:
            problems.append("a message is empty")
        if message["role"] == "assistant":
            problems += _check_said(content, turns)
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            answered += len(calls)
            if calls and _result_ids(after) != calls:
                problems.append("the calls %s were answered by %s" % (calls, _result_ids(after)))
        elif message["role"] == "user":
            problems += _check_user(content, before)
        else:
            problems.append("a message of %s" % message["role"])
    if answered and not request.get("tools"):
        problems.append("the conversation mentions tools, and none is declared")
    return problems


def _common(path: str, expected: str, headers: dict, request: dict) -> list[str]:
    problems = []
    if not path.endswith(expected):
        problems.append("posted to %s" % path)
    if headers.get("content-type", "").split(";")[0] != "application/json":
        problems.append("the content-type is %s" % headers.get("content-type"))
    if not isinstance(request.get("model"), str) or not request["model"]:
        problems.append("no model")
    if not request.get("messages"):
        problems.append("no messages")
    return problems


def _check_said(content: list, turns: list[list]) -> list[str]:
    """What the model said comes back as it was. Only of a turn that was cut off may calls be missing."""
    for turn in turns:
        if content == turn:
            return []
        kept = [block for block in turn if block["type"] != "tool_use"]
        if kept != turn and content == kept:
            return []
    if not turns:  # a conversation that somebody else began
        return []
    return ["the assistant never said %s" % json.dumps(content)[:400]]


def _result_ids(message: dict | None) -> list[str]:
    """Of the results that stand first in a message."""
    ids = []
    if message and message["role"] == "user" and isinstance(message["content"], list):
        for block in message["content"]:
            if block["type"] != "tool_result":
                break
            ids.append(block["tool_use_id"])
    return ids


def _check_user(content: list, before: dict | None) -> list[str]:
    problems = []
    types = [block["type"] for block in content]
    if "tool_result" in types:
        if "tool_result" in types[types.count("tool_result"):]:
            problems.append("results are not first: %s" % types)
        if before is None or before["role"] != "assistant":
            problems.append("results without a call")
    for block in content:
        if block["type"] == "text" and not block["text"]:
            problems.append("text is empty")
        parts = block.get("content", ())
        for part in parts if isinstance(parts, list) else ():
            if part["type"] == "image" and part["source"]["media_type"] not in IMAGES:
                problems.append("an image of type %s" % part["source"]["media_type"])
            elif part["type"] not in ("text", "image"):
                problems.append("a result with %s" % part["type"])
    return problems


def check_openai(path: str, headers: dict, request: dict, turns: list[list]) -> list[str]:
    problems = _common(path, "/v1/chat/completions", headers, request)
    if not headers.get("authorization", "").startswith("Bearer "):
        problems.append("no key")
    for tool in request.get("tools", ()):
        if tool.get("type") != "function" or not TOOL_NAME.match(tool.get("function", {}).get("name", "")):
            problems.append("not a tool: %s" % json.dumps(tool)[:200])
    waiting: list[str] = []
    for message in request.get("messages", ()):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting or not isinstance(message["content"], (str, list)):
                problems.append("a result without a call: %s" % message.get("tool_call_id"))
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            problems.append("no result for %s" % waiting)
            waiting = []
        if message["role"] == "assistant":
            waiting = [one["id"] for one in message.get("tool_calls", ())]
            problems += _check_chat_said(message, turns)
        elif message["role"] == "user" and isinstance(message["content"], list):
            problems += ["a part of type %s" % part["type"] for part in message["content"]
                         if part["type"] not in ("text", "image_url")]
    if waiting:
        problems.append("no result for %s" % waiting)
    return problems


def _check_chat_said(message: dict, turns: list[list]) -> list[str]:
    said = message.get("content") or ""
    calls = [(one["function"]["name"], json.loads(one["function"]["arguments"]))
             for one in message.get("tool_calls", ())]
    for turn in turns:
        text = "".join(block["text"] for block in turn if block["type"] == "text")
        made = [(block["name"], block["input"]) for block in turn if block["type"] == "tool_use"]
        if said == text and calls in (made, []):
            return []
    return [] if not turns else ["the assistant never said %s" % json.dumps(message)[:400]]
