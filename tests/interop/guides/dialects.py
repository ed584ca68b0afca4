"""The three APIs that the examples speak, as strict as the real ones where an agent's loop can go wrong: every call is
answered, once and in its place, results have no field that the API does not know, pictures are pictures."""
from __future__ import annotations

import base64
import dataclasses
import json
import re

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PICTURES = {"image/png": b"\x89PNG\r\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
USAGE = 7  # tokens; somebody adds them up


class Refused(Exception):
    """What the API would answer with 400."""


@dataclasses.dataclass
class ToolResult:
    text: str
    is_error: bool | None = None  # where the API has a word for it
    pictures: int = 0


@dataclasses.dataclass
class Request:
    """What the model is told: its tools, with their schemas, and the results of the calls that it has made so far."""

    tools: dict[str, dict]
    results: list[ToolResult]


@dataclasses.dataclass
class Call:
    name: str
    arguments: dict


def need(condition: object, message: str) -> None:
    if not condition:
        raise Refused(message)


def only(value: dict, known: str, where: str) -> None:
    need(isinstance(value, dict), where + ": not an object")
    unknown = sorted(set(value) - set(known.split()))
    need(not unknown, "%s: unknown %s" % (where, ", ".join(unknown)))


def check_tool(name: object, description: object, schema: object) -> dict:
    need(isinstance(name, str) and TOOL_NAME.fullmatch(name), "tools: bad name %r" % (name,))
    need(isinstance(description, str) and description, "tools: %s has no description" % name)
    need(isinstance(schema, dict) and schema.get("type") == "object", "tools: the schema of %s is no object" % name)
    return schema


def check_picture(media_type: object, data: object) -> None:
    need(media_type in PICTURES, "image: media type %r" % (media_type,))
    try:
        raw = base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise Refused("image: not base64") from None
    need(raw.startswith(PICTURES[media_type]), "image: not a " + media_type)


class AnthropicMessages:
    path = "/v1/messages"
    needed_headers = (("x-api-key", "authorization"), ("anthropic-version",))  # of each group one

    def read(self, body: dict) -> Request:
        only(body, "model max_tokens messages system tools tool_choice stream metadata stop_sequences thinking "
                   "container output_config cache_control service_tier", "request")
        need(isinstance(body.get("model"), str) and isinstance(body.get("max_tokens"), int), "model and max_tokens")
        tools = {}
        for tool in body.get("tools", []):
            only(tool, "type name description input_schema cache_control strict defer_loading allowed_callers "
                       "eager_input_streaming input_examples", "tools")
            tools[tool["name"]] = check_tool(tool["name"], tool.get("description"), tool.get("input_schema"))
        results, waiting = [], []
        for message in body["messages"]:
            only(message, "role content", "messages")
            blocks = message["content"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            if message["role"] == "user":
                first = blocks[:len(waiting)]
                need([block.get("tool_use_id") for block in first if block["type"] == "tool_result"] == waiting,
                     "messages: every tool_use needs its tool_result at the start of the next message")
                results += [self._read_result(block) for block in first]
                rest = blocks[len(waiting):]
                need(all(block["type"] in ("text", "image") for block in rest), "messages: unexpected block")
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        need(not waiting, "messages: the last tool_use has no tool_result")
        return Request(tools, results)

    @staticmethod
    def _read_result(block: dict) -> ToolResult:
        only(block, "type tool_use_id content is_error cache_control", "tool_result")
        content = block.get("content", "")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        result = ToolResult("", bool(block.get("is_error", False)))
        for part in content:
            if part["type"] == "text":
                only(part, "type text cache_control citations", "tool_result.content")
                need(isinstance(part["text"], str) and part["text"], "tool_result.content: text must be non-empty")
                result.text += part["text"]
            else:
                only(part, "type source cache_control", "tool_result.content")
                only(part["source"], "type media_type data", "tool_result.content.source")
                need(part["type"] == "image" and part["source"]["type"] == "base64", "tool_result.content: bad block")
                check_picture(part["source"]["media_type"], part["source"]["data"])
                result.pictures += 1
        return result

    def write(self, turn: int, answer: Call | str, model: str) -> dict:
        calls = isinstance(answer, Call)
        content = [{"type": "text", "text": "Let me compute that." if calls else answer}]
        if calls:
            content.append({"type": "tool_use", "id": "toolu_%024d" % turn, "name": answer.name,
                            "input": answer.arguments, "caller": {"type": "direct"}})
        return {"id": "msg_%024d" % turn, "type": "message", "role": "assistant", "model": model, "content": content,
                "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None, "stop_details": None,
                "container": None, "usage": {"input_tokens": USAGE, "output_tokens": USAGE,
                                             "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}

    @staticmethod
    def stream(message: dict) -> list[dict]:
        """The same message as events: text in two pieces, arguments in pieces that are no JSON by themselves."""
        events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for index, block in enumerate(message["content"]):
            if block["type"] == "text":
                empty, kind, field, text = {**block, "text": ""}, "text_delta", "text", block["text"]
            else:
                empty, kind, field = {**block, "input": {}}, "input_json_delta", "partial_json"
                text = json.dumps(block["input"])
            events.append({"type": "content_block_start", "index": index, "content_block": empty})
            events += [{"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}
                       for piece in (text[:5], text[5:])]
            events.append({"type": "content_block_stop", "index": index})
        ending = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details", "container")}
        events.append({"type": "message_delta", "delta": ending, "usage": message["usage"]})
        return [*events, {"type": "message_stop"}]

    @staticmethod
    def refuse(message: str) -> dict:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}


class OpenAiChat:
    path = "/v1/chat/completions"
    needed_headers = (("authorization",),)

    def read(self, body: dict) -> Request:
        tools = {}
        for tool in body.get("tools", []):
            only(tool, "type function", "tools")
            only(tool["function"], "name description parameters strict", "tools.function")
            about = tool["function"]
            tools[about["name"]] = check_tool(about["name"], about.get("description"), about.get("parameters"))
        results, waiting = [], []
        for message in body["messages"]:
            if message["role"] == "tool":
                only(message, "role tool_call_id content", "messages")
                need(message["tool_call_id"] in waiting, "messages: a tool message answers no call")
                waiting.remove(message["tool_call_id"])
                results.append(ToolResult(self._text(message["content"])))
                continue
            need(not waiting, "messages: tool_calls must be followed by a tool message for each")
            only(message, "role content name tool_calls refusal annotations audio function_call", "messages")
            waiting = [call["id"] for call in message.get("tool_calls") or []]
        need(not waiting, "messages: tool_calls must be followed by a tool message for each")
        return Request(tools, results)

    @staticmethod
    def _text(content: object) -> str:
        if isinstance(content, str):
            return content
        need(isinstance(content, list) and all(part.get("type") == "text" for part in content),
             "messages: tools answer with text only")
        return "".join(part["text"] for part in content)

    def write(self, turn: int, answer: Call | str, model: str) -> dict:
        calls = isinstance(answer, Call)
        message = {"role": "assistant", "content": None if calls else answer, "refusal": None, "annotations": []}
        if calls:
            message["tool_calls"] = [{"id": "call_%d" % turn, "type": "function", "function": {
                "name": answer.name, "arguments": json.dumps(answer.arguments)}}]
        return {"id": "chatcmpl-%d" % turn, "object": "chat.completion", "created": 1, "model": model, "choices": [{
            "index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": USAGE, "completion_tokens": USAGE, "total_tokens": 2 * USAGE}}

    @staticmethod
    def refuse(message: str) -> dict:
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


class OpenAiResponses:
    path = "/v1/responses"
    needed_headers = (("authorization",),)
    refuse = staticmethod(OpenAiChat.refuse)

    def read(self, body: dict) -> Request:
        tools = {}
        for tool in body.get("tools", []):
            only(tool, "type name description parameters strict", "tools")
            need(tool["type"] == "function", "tools: bad type")
            tools[tool["name"]] = check_tool(tool["name"], tool.get("description"), tool.get("parameters"))
        results, waiting, thoughts = [], [], 0
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind == "function_call":
                need(thoughts, "input: a function_call was given without the reasoning that belongs to it")
                waiting.append(item["call_id"])
            elif kind == "function_call_output":
                only(item, "type call_id output id status", "input")
                need(item["call_id"] in waiting, "input: no tool call found for " + str(item["call_id"]))
                waiting.remove(item["call_id"])
                results.append(self._read_output(item["output"]))
            else:
                need(kind in ("message", "reasoning"), "input: unknown type " + kind)
                thoughts += kind == "reasoning"
        need(not waiting, "input: no tool output found for a call")
        return Request(tools, results)

    @staticmethod
    def _read_output(output: object) -> ToolResult:
        if isinstance(output, str):
            return ToolResult(output)
        result = ToolResult("")
        for part in output:
            if part["type"] == "input_text":
                result.text += part["text"]
            else:
                need(part["type"] == "input_image", "input: output of unknown type")
                head, _, data = part["image_url"].partition(";base64,")
                check_picture(head.removeprefix("data:"), data)
                result.pictures += 1
        return result

    def write(self, turn: int, answer: Call | str, model: str) -> dict:
        output = [{"type": "reasoning", "id": "rs_%d" % turn, "summary": []}]
        if isinstance(answer, Call):
            output.append({"type": "function_call", "id": "fc_%d" % turn, "call_id": "call_%d" % turn,
                           "name": answer.name, "arguments": json.dumps(answer.arguments), "status": "completed"})
        else:
            output.append({"type": "message", "id": "msg_%d" % turn, "role": "assistant", "status": "completed",
                           "content": [{"type": "output_text", "text": answer, "annotations": []}]})
        return {"id": "resp_%d" % turn, "object": "response", "created_at": 1, "status": "completed", "model": model,
                "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "output": output,
                "parallel_tool_calls": True, "temperature": 1, "tool_choice": "auto", "tools": [], "top_p": 1,
                "usage": {"input_tokens": USAGE, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": USAGE,
                          "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2 * USAGE}}
