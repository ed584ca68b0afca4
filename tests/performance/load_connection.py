"""A client's connection to a daemon under load."""
from __future__ import annotations

import dataclasses
import http.client
import json
import time

import machine

LOST = 60.0  # seconds after which an answer counts as lost


class Lost(Exception):
    """No answer, or half of one."""


@dataclasses.dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> dict:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return "%d %r" % (self.status, self.body[:300])


class Connection:
    """Kept from request to request."""

    def __init__(self, port: int, key: str) -> None:
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=LOST)
        self.key = key

    def begin(self, method: str, target: str, data: object = None, body: bytes | None = None,
              accept: str = "*/*") -> http.client.HTTPResponse:
        headers = {"Authorization": "Bearer " + self.key, "Accept": accept}
        if data is not None:
            body, headers["Content-Type"] = json.dumps(data).encode(), "application/json"
        try:
            self.http.request(method, target, body, headers)
            return self.http.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.http.close()
            raise Lost("%s %s: %r" % (method, target, error)) from None

    def request(self, *arguments, **more) -> Answer:
        response = self.begin(*arguments, **more)
        try:
            return Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as error:
            self.http.close()
            raise Lost("half an answer: %r" % error) from None

    def timed(self, *arguments) -> tuple[Answer, machine.Took]:
        begin = time.monotonic()
        answer = self.request(*arguments)
        return answer, machine.Took.since(begin)
