"""Every answer of the daemon, its headers and events, held against docs/openapi.json: what is not there fails."""
from __future__ import annotations

import copy
import functools
import json
import os
import re
import urllib.parse

import support

try:
    import jsonschema
except ImportError:
    jsonschema = None


@functools.lru_cache(maxsize=None)
def document() -> dict:
    with open(os.path.join(support.ROOT, "docs/openapi.json")) as file:
        return json.load(file)


@functools.lru_cache(maxsize=None)
def strict_components() -> dict:
    """As documented, but a field that is not documented is an error: clients ignore it, we do not."""
    components = copy.deepcopy(document()["components"])

    def close(schema: object) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object" and "properties" in schema:
                schema.setdefault("additionalProperties", False)
            for inner in schema.values():
                close(inner)
        elif isinstance(schema, list):
            for inner in schema:
                close(inner)

    close(components["schemas"])
    return components


def check_schema(schema: dict, value: object, where: str) -> None:
    if jsonschema is None:
        support.missing("the Python module jsonschema (Debian: python3-jsonschema)")
    whole = {**schema, "components": strict_components()}
    problem = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(whole).iter_errors(value))
    if problem:
        raise AssertionError("%s is not as documented: %s at %s\n%s" % (
            where, problem.message[:500], "/".join(map(str, problem.absolute_path)), json.dumps(value)[:2000]))


def check_component(name: str, value: object) -> None:
    check_schema({"$ref": "#/components/schemas/" + name}, value, name)


def follow(value: dict) -> dict:
    while "$ref" in value:
        place = document()
        for part in value["$ref"].lstrip("#/").split("/"):
            place = place[part]
        value = place
    return value


def operation(method: str, target: str) -> dict | None:
    """The most specific path of the document that fits; only the last part of a path may have slashes."""
    path = urllib.parse.urlsplit(target).path
    best = None
    for pattern, operations in document()["paths"].items():
        fits = re.escape(pattern).replace(r"\{path\}", "(.+)")
        fits = re.sub(r"\\{\w+\\}", "[^/]+", fits) + ("/?" if pattern.endswith("/files") else "")
        if re.fullmatch(fits, path, re.DOTALL) and (best is None or pattern.count("{") < best[0].count("{")):
            best = (pattern, operations)
    if best is None:
        return None
    return best[1].get(method) or (best[1].get("get") if method == "head" else None)


def documented(method: str, target: str, status: int) -> dict:
    known = operation(method.lower(), target)
    answers = known["responses"] if known else document()["x-answers-to-any-request"]
    if str(status) not in answers:
        raise AssertionError("%s %s answers %d, which is not documented" % (method, target[:200], status))
    return follow(answers[str(status)])


class Answer:
    """One answer, already checked."""

    def __init__(self, method: str, target: str, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.method, self.target, self.status, self.body = method, target, status, body
        self.headers = {name.lower(): value for name, value in headers}
        self.names = [name.lower() for name, _ in headers]

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def error(self) -> dict:
        return self.json["error"]

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def __repr__(self) -> str:
        return "%s %s: %d %s" % (self.method, self.target[:200], self.status,
                                 self.body[:1000].decode("utf-8", "replace"))


def check_head(answer: Answer) -> dict:
    """What the document says about such an answer. Every header that it promises is there, once, and right."""
    known = documented(answer.method, answer.target, answer.status)
    for name, about in known.get("headers", {}).items():
        about = follow(about)
        if answer.headers.get(name.lower()) is None:
            if about.get("required"):
                raise AssertionError("%s lacks the header %s" % (answer, name))
            continue
        if answer.names.count(name.lower()) != 1:
            raise AssertionError("%s has the header %s more than once" % (answer, name))
        check_schema(about["schema"], answer.headers[name.lower()], "%s, header %s" % (answer, name))
    for name in ("set-cookie", "access-control-allow-origin"):
        if name in answer.headers:
            raise AssertionError("%s has the header %s" % (answer, name))
    return known


def validate(answer: Answer) -> Answer:
    known = check_head(answer)
    content = known.get("content", {})
    if answer.method == "HEAD" or not content:
        if answer.body:
            raise AssertionError("a body where there is none: %r" % answer)
        return answer
    if answer.media_type not in content and "*/*" not in content:
        raise AssertionError("%r has the undocumented type %r" % (answer, answer.media_type))
    described = content.get(answer.media_type) or content["*/*"]
    if "x-item-schema" in described:
        for event in events_of(answer.media_type, answer.body.decode().split("\n")):
            check_schema(described["x-item-schema"], event, repr(event)[:200])
    elif answer.media_type == "application/json" and described["schema"]:
        check_schema(described["schema"], answer.json, "%s %s: %d" % (answer.method, answer.target, answer.status))
        if "error" in answer.json and answer.status >= 400:
            if answer.error["request_id"] != answer.headers["x-request-id"]:
                raise AssertionError("the request has two ids: %r" % answer)
            for secret in (support.home.directory, support.ROOT, "/tmp/hutch", "/var/", "/root"):
                if secret in answer.text:
                    raise AssertionError("the answer tells of the host: %r" % answer)
    return answer


def events_of(media_type: str, lines):
    """Events of an SSE or NDJSON stream, while its lines arrive."""
    if media_type == "application/x-ndjson":
        for line in lines:
            if line.strip():
                yield json.loads(line)
        return
    fields: dict[str, str] = {}
    for line in lines:
        line = line.rstrip("\r\n")
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            if name in fields or name not in ("id", "event", "data", "retry"):
                raise AssertionError("not an event: %r" % line)
            fields[name] = value
        elif "data" in fields:
            event = json.loads(fields["data"])
            if (fields.get("id"), fields.get("event")) != (str(event["seq"]), event["type"]):
                raise AssertionError("id or event differs from the data: %r" % fields)
            yield event
            fields = {}
