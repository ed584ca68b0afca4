"""What tests of the daemon share: `hutch serve` in a home of its own, and a client that holds every answer, header and
event it ever receives against docs/openapi.json, so that an answer that is not documented fails the test."""
from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import urllib.parse

import support
from api_document import Answer, check_component, check_head, check_schema, document, documented, events_of, validate

PATIENCE = 30  # seconds that any one answer may take


# The client


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """Requests with one key, each on a connection of its own."""

    def __init__(self, server: Server, key: str | None, unix: bool = False) -> None:
        self.server, self.key, self.unix = server, key, unix

    def connect(self, timeout: float = PATIENCE) -> http.client.HTTPConnection:
        if self.unix:
            return UnixConnection(self.server.socket, timeout)
        if self.server.trust:
            return http.client.HTTPSConnection(self.server.host, self.server.port, timeout=timeout,
                                               context=self.server.trust)
        return http.client.HTTPConnection(self.server.host, self.server.port, timeout=timeout)

    def _send(self, connection: http.client.HTTPConnection, method: str, target: str, data: object, body: object,
              headers: dict | None) -> None:
        sent = {"Authorization": "Bearer " + self.key} if self.key else {}
        if data is not None:
            body = json.dumps(data).encode()
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        connection.request(method, target, body, {name: value for name, value in sent.items() if value is not None})

    def call(self, method: str, target: str, data: object = None, *, body: object = None, headers: dict | None = None,
             expect: int | tuple | None = None, timeout: float = PATIENCE) -> Answer:
        """`data` is sent as JSON, `body` as it is. Without `expect` any documented answer will do."""
        with contextlib.closing(self.connect(timeout)) as connection:
            self._send(connection, method, target, data, body, headers)
            response = connection.getresponse()
            answer = validate(Answer(method, target, response.status, response.getheaders(), response.read()))
        if expect is not None and answer.status not in (expect if isinstance(expect, tuple) else (expect,)):
            raise AssertionError("expected %s: %r" % (expect, answer))
        return answer

    def get(self, target: str, expect: int = 200, **more) -> Answer:
        return self.call("GET", target, expect=expect, **more)

    def post(self, target: str, data: object = None, expect: int = 200, **more) -> Answer:
        return self.call("POST", target, data, expect=expect, **more)

    def put(self, target: str, body: object, expect: int | tuple = (200, 201), **more) -> Answer:
        return self.call("PUT", target, body=body, expect=expect, **more)

    def delete(self, target: str, expect: int = 204, **more) -> Answer:
        return self.call("DELETE", target, expect=expect, **more)

    def run(self, code: str, **more) -> dict:
        return self.post("/v1/run", {"code": code, "template": "bare", **more}).json

    def launch(self, code: str, wait_ms: int = 0) -> str:
        """Starts a run, and does not wait for its end."""
        return self.post("/v1/run", {"code": code, "template": "bare", "wait_ms": wait_ms}, 202).json["execution_id"]

    @contextlib.contextmanager
    def stream(self, method: str, target: str, data: object = None, *, accept: str = "text/event-stream",
               headers: dict | None = None, timeout: float = PATIENCE):
        """The events, one by one as they arrive, each checked; leaving hangs up."""
        with contextlib.closing(self.connect(timeout)) as connection:
            self._send(connection, method, target, data, None, {"Accept": accept, **(headers or {})})
            response = connection.getresponse()
            with response:
                answer = Answer(method, target, response.status, response.getheaders(), b"")
                if response.status != 200 or answer.media_type != accept:
                    answer.body = response.read()
                    raise AssertionError("no stream: %r" % validate(answer))
                schema = check_head(answer)["content"][accept]["x-item-schema"]
                lines = (line.decode() for line in iter(response.readline, b""))
                yield self._checked(schema, events_of(accept, lines))

    @staticmethod
    def _checked(schema: dict, events):
        for event in events:
            check_schema(schema, event, "event " + json.dumps(event)[:300])
            yield event

    def session(self, **options) -> Session:
        return Session(self, self.post("/v1/sessions", {"template": "bare", "mode": "plain", **options}, 201).json)

    def socket_to(self, target: str) -> WebSocket:
        return WebSocket(self, target)


class Session:
    """A session and short names for what is done with it."""

    def __init__(self, client: Client, about: dict) -> None:
        self.client, self.about, self.id = client, about, about["id"]
        self.at = "/v1/sessions/" + self.id

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.call("DELETE", self.at, expect=(204, 404, 410))

    def show(self) -> dict:
        return self.client.get(self.at).json

    def run(self, code: str, expect: int = 200, **more) -> dict:
        return self.client.post(self.at + "/runs", {"code": code, **more}, expect).json

    def file(self, path: str = "") -> str:
        return self.at + "/files/" + urllib.parse.quote(path)


class WebSocket:
    """RFC 6455, as little of it as the daemon needs; every message is held against the document."""

    def __init__(self, client: Client, target: str) -> None:
        self._connection = client.connect()
        nonce = base64.b64encode(os.urandom(16)).decode()
        client._send(self._connection, "GET", target, None, None, {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": nonce})
        self._socket = self._connection.sock
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers = http.client.parse_headers(self._file)
        documented("GET", target, self.status)

    def __enter__(self) -> WebSocket:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._connection.close()

    def send(self, message: dict, check: bool = True) -> None:
        if check:
            check_component("SocketRequest", message)
        self.send_frame(1, json.dumps(message).encode())

    def send_frame(self, kind: int, data: bytes, final: bool = True) -> None:
        mask = os.urandom(4)
        size = len(data)
        head = bytes((kind | (0x80 if final else 0),))
        head += bytes((0x80 | size,)) if size < 126 else (
            struct.pack("!BH", 0x80 | 126, size) if size < 1 << 16 else struct.pack("!BQ", 0x80 | 127, size))
        key = mask * (size // 4 + 1)
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(key[:size], "big")).to_bytes(size, "big")
        self._socket.sendall(head + mask + masked)

    def receive_frame(self) -> tuple[int, bytes]:
        """A control frame or all pieces of a message; (8, b"") when it is over."""
        kind, data, final = self._receive_piece()
        while not final:
            more, piece, final = self._receive_piece()
            if more != 0:
                raise AssertionError("a frame of kind %d within a message" % more)
            data += piece
        return kind, data

    def _receive_piece(self) -> tuple[int, bytes, bool]:
        head = self._file.read(2)
        if len(head) < 2:
            return 8, b"", True
        size = head[1] & 127
        if head[1] & 128 or head[0] & 0x70:
            raise AssertionError("a server does not mask, and nothing was negotiated")
        if size >= 126:
            size = int.from_bytes(self._file.read(2 if size == 126 else 8), "big")
        return head[0] & 15, self._file.read(size), bool(head[0] & 0x80)

    def receive(self) -> dict | None:
        """The next message; nothing when the daemon has closed."""
        while True:
            kind, data = self.receive_frame()
            if kind == 8:
                return None
            if kind == 9:
                self.send_frame(10, data)
            elif kind == 1:
                message = json.loads(data)
                check_component("SocketMessage", message)
                return message

    def until(self, kind: str, **fields: object) -> list[dict]:
        """All messages up to the first of this type."""
        seen = []
        while (message := self.receive()) is not None:
            seen.append(message)
            if message["type"] == kind and all(message.get(name) == value for name, value in fields.items()):
                return seen
        raise AssertionError("no %s among %s" % (kind, seen))


def form(*parts: tuple[str, bytes], boundary: str = "xYzZy") -> tuple[bytes, dict]:
    """A body with these files, and its headers."""
    body = b"".join(b'--%s\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n'
                    b"Content-Type: application/octet-stream\r\n\r\n%s\r\n" % (boundary.encode(), name.encode(), data)
                    for name, data in parts)
    return body + b"--%s--\r\n" % boundary.encode(), {"Content-Type": "multipart/form-data; boundary=" + boundary}


# The daemon


class Server:
    """`hutch serve` with a data directory of its own, on a free port of the loopback. One that speaks TLS needs `trust`."""

    def __init__(self, home: support.Home, *options: str, env: dict | None = None, name: str = "data",
                 trust: ssl.SSLContext | None = None) -> None:
        self.home, self.options, self.env, self.trust = home, options, env or {}, trust
        self.data = os.path.join(home.directory, name)
        self.socket = os.path.join(home.runtime, "serve.sock")
        self.key = ""
        self.process: subprocess.Popen | None = None

    def start(self) -> Server:
        ready = os.path.join(self.home.directory, "ready.json")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(ready)
        said = self.data + ".said"
        with open(said, "wb") as out:
            self.process = self.home.start("serve", "--listen", "127.0.0.1:0", "--socket", self.socket, "--data",
                                           self.data,
                                           "--ready-file", ready, "--log", self.data + ".log", *self.options,
                                           env=self.env, start_new_session=True,  # as a service has one
                                           stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        if not support.settle(lambda: os.path.exists(ready) or self.process.poll() is not None, PATIENCE) or \
                self.process.poll() is not None:
            self.kill()
            with open(said) as file:
                raise AssertionError("hutch serve did not start: " + file.read())
        with open(ready) as file:
            self.host, _, port = json.load(file)["listen"].rpartition(":")
        self.port = int(port)
        with open(said) as file:
            keys = re.findall(r"^key: (hutch_[0-9a-f]{24}_[A-Za-z0-9_-]{43})$", file.read(), re.MULTILINE)
        if bool(self.key) == bool(keys):
            raise AssertionError("the key is printed on the first start and never again")
        self.key = self.key or keys[0]
        Client(self, None).get("/readyz")
        return self

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("hutch serve does not end") from None

    def kill(self) -> None:
        """With SIGKILL; returns when everything that was below it is gone, too."""
        family = set(support.descendants(self.process.pid))
        self.process.kill()
        self.process.wait()
        if not support.settle(lambda: not family & set(support.descendants())):
            raise AssertionError("processes of a killed daemon live on")

    def client(self, **more) -> Client:
        return Client(self, self.key, **more)

    def new_client(self, name: str, *options: str) -> Client:
        """Another tenant, with a key of its own."""
        done = self.home.call("key", "--data", self.data, "create", name, "--json", *options)
        if done.code != 0:
            raise AssertionError("hutch key create: " + done.errors)
        return Client(self, done.record["key"])

    def raw(self, data: bytes, timeout: float = PATIENCE) -> bytes:
        """What comes back for these bytes until the daemon hangs up."""
        with socket.create_connection((self.host, self.port), timeout=timeout) as connection:
            got = b""
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
            with contextlib.suppress(ConnectionError):
                while piece := connection.recv(65536):
                    got += piece
            return got

    def raw_answer(self, data: bytes, **more) -> Answer:
        """The first answer to these bytes, checked like any other."""
        head, _, body = self.raw(data, **more).partition(b"\r\n\r\n")
        if not head:
            raise AssertionError("no answer")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines]
        size = int(dict((name.lower(), value) for name, value in headers).get("content-length", len(body)))
        return validate(Answer("-", "-", int(first.split()[1]), headers, body[:size]))


server: Server


def begin(*options: str, env: dict | None = None) -> None:
    """For setUpModule."""
    global server
    document()
    support.begin()
    server = Server(support.home, *options, env=env).start()


def finish() -> None:
    """For tearDownModule: the daemon ends when it is told to, and leaves nothing behind."""
    try:
        code = server.stop()
        if code != 0:
            with open(server.data + ".log") as file:
                raise AssertionError("hutch serve ended with %d: %s" % (code, file.read()[-2000:]))
    finally:
        support.finish()


class ApiScenario(support.Scenario):
    @property
    def api(self) -> Client:
        return server.client()

    def check_error(self, answer: Answer, status: int, category: str, code: str, *words: str) -> dict:
        self.assertEqual((answer.status, answer.error["category"], answer.error["code"]), (status, category, code),
                         answer)
        for word in words:
            self.assertIn(word, answer.error["message"])
        return answer.error

    def refused(self, method: str, target: str, data: object, status: int, category: str, code: str, *words: str,
                **more) -> dict:
        return self.check_error(self.api.call(method, target, data, **more), status, category, code, *words)
