"""Tools that the client offers to a cell, as functions of the object `tools`: `await tools.search(query="x")`, or
`tools.search.sync(query="x")` where nothing can be awaited. The client runs them; the engine decides what it hears."""
from __future__ import annotations

import _thread
import builtins
import inspect
import json
import select  # noqa: F401  for wire.py, before a program's own module of that name can be in the way
import time

from . import finish
from .wire import Channel, ToolResult, Undisturbed, encode_tool_call

__builtins__ = dict(vars(builtins))

MOST_INPUT = 1 << 20  # bytes of JSON
A_WHILE = 0.25  # seconds that an interrupt may take longer than the news that calls are cancelled
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict",
         "null": "None"}

_allocate_lock, _start_thread = _thread.allocate_lock, _thread.start_new_thread
_monotonic, _sleep = time.monotonic, time.sleep
_calls: list[Calls] = []  # the one of this process


class ToolError(RuntimeError):
    """A call that gave no result; `code` is tool_error, tool_denied or cancelled."""

    def __init__(self, message: str = "the tool failed", code: str = "tool_error") -> None:
        super().__init__(message)
        self.code = code


ToolError.__module__ = "builtins"  # as tracebacks show it


def offer(channel: Channel, definitions: bytes) -> None:
    """Before a cell. A name `tools` that the program gave to something of its own stays its own."""
    if not _calls:
        _calls.append(Calls(channel))
    _calls[0].in_cell = True
    if isinstance(getattr(builtins, "tools", None), Tools) or not hasattr(builtins, "tools"):
        builtins.tools = Tools([make_tool(_calls[0], about) for about in json.loads(definitions)])


def withdraw(channel: Channel) -> None:
    """After it."""
    if not channel.is_ours():  # a process that the program forked: locks may be taken for ever
        return
    _calls[0].in_cell = False
    _calls[0].give_up("the run is over")
    if isinstance(getattr(builtins, "tools", None), Tools):
        del builtins.tools


def hide_own_frames(error: BaseException) -> None:
    """What happens in here is no part of the program: a traceback ends at the call."""
    ours = hide_own_frames.__code__.co_filename
    trace, last = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != ours:
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


class Calls:
    """Those that wait for their results. While there are any, a thread reads what the engine says."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = _allocate_lock()
        self._waiting: dict = {}  # by number: what is called with the result
        self._number = 0
        self._reads = False
        self._cancelled_at = 0.0
        self.in_cell = False
        channel.on_tool_result = self._take

    async def call(self, name: str, given: bytes) -> str:
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def done(result: ToolResult) -> None:
            try:
                loop.call_soon_threadsafe(settle, future, result)
            except RuntimeError:  # the loop is closed: nobody waits
                pass

        number = self._start(name, given, done)
        try:
            result = await future
        finally:
            self._drop(number)
        return text_of(result)

    def call_and_wait(self, name: str, given: bytes) -> str:
        results: list[ToolResult] = []
        arrived = _allocate_lock()
        arrived.acquire()

        def done(result: ToolResult) -> None:
            results.append(result)
            arrived.release()

        number = self._start(name, given, done)
        try:
            arrived.acquire()
        finally:
            self._drop(number)
        return text_of(results[0])

    def _drop(self, number: int) -> None:
        """After every call; one that has no result yet was cancelled, and the client need not go on with it."""
        if self._waiting.pop(number, None) is not None:
            self._channel.drop_call(number)

    def give_up(self, why: str) -> None:
        """Threads and tasks that still wait do so for nothing."""
        for number in list(self._waiting):
            done = self._waiting.pop(number, None)
            if done is not None:
                done(failure(number, why, "cancelled"))

    def _start(self, name: str, given: bytes, done) -> int:
        if not self._channel.is_ours():
            raise ToolError("only the process of the cell itself can call tools", "tool_denied")
        finish.flush_streams()  # what was printed before the call is told before it
        with Undisturbed():
            with self._lock:
                self._number += 1
                number = self._number
                self._waiting[number] = done
                starts, self._reads = not self._reads, True
            if starts:
                try:
                    _start_thread(self._read, ())
                except BaseException:
                    self._reads = False
                    del self._waiting[number]
                    raise
            self._channel.call(encode_tool_call(number, name, given))
        return number

    def _read(self) -> None:
        reads = True
        while reads:
            try:
                there = self._channel.read_while(lambda: self._waiting)
            except Exception:  # not a frame, or no descriptor any more
                there = False
            with self._lock:
                reads = self._reads = there and bool(self._waiting)
        if not there:
            self.give_up("the connection to the engine is gone")

    def _take(self, payload: bytes) -> None:
        result = ToolResult(payload)
        done = self._waiting.pop(result.number, None)
        if done is None:
            return
        if result.code == "cancelled" and self.in_cell:  # an interrupt is on its way, and is what the program is to see
            if self._cancelled_at + 1 < _monotonic():
                _sleep(A_WHILE)
            self._cancelled_at = _monotonic()
        done(result)


def settle(future, result: ToolResult) -> None:
    if not future.done():
        future.set_result(result)


def failure(number: int, why: str, code: str) -> ToolResult:
    result = ToolResult.__new__(ToolResult)
    result.number, result.ok, result.text, result.code = number, False, why, code
    return result


def text_of(result: ToolResult) -> str:
    if result.ok:
        return result.text
    if result.code == "tool_timeout":
        late = TimeoutError(result.text)
        late.code = result.code
        raise late
    raise ToolError(result.text, result.code)


class Tools:
    """The tools of this run. Each takes keyword arguments or one dict, and gives a str."""

    ToolError = ToolError

    def __init__(self, tools: list) -> None:
        self.__dict__["_offered"] = {tool.__name__: tool for tool in tools}

    def __getattr__(self, name: str):
        try:
            return self.__dict__["_offered"][name]
        except KeyError:
            raise AttributeError(self._missing(name)) from None

    def __getitem__(self, name: str):
        """For names that are also something else in Python."""
        try:
            return self._offered[name]
        except KeyError:
            raise KeyError(self._missing(name)) from None

    def __setattr__(self, name: str, value) -> None:
        raise AttributeError("tools are offered by the client; they cannot be set")

    def __iter__(self):
        return iter(self._offered)

    def __len__(self) -> int:
        return len(self._offered)

    def __contains__(self, name: object) -> bool:
        return name in self._offered

    def __dir__(self) -> list[str]:
        return sorted({*self._offered, "ToolError"})

    def __repr__(self) -> str:
        lines = ["tools of this run:"]
        for name, tool in self._offered.items():
            about = tool.description.strip().partition("\n")[0]
            lines.append("  await tools.%s%s%s" % (name, inspect.signature(tool), about and "  # " + about[:200]))
        return "\n".join(lines)

    def _missing(self, name: object) -> str:
        return "no tool %r was offered for this run; there are: %s" % (name, ", ".join(self._offered))


def make_tool(calls: Calls, about: dict):
    """A function, so that help(), signatures and asyncio know what it is."""
    name, description, schema = about["name"], about.get("description") or "", about.get("input_schema") or {}

    async def tool(*arguments, **named) -> str:
        return await calls.call(name, encode_input(name, schema, arguments, named))

    def sync(*arguments, **named) -> str:
        return calls.call_and_wait(name, encode_input(name, schema, arguments, named))

    words = describe(description, schema)
    for function, own_name in ((tool, name), (sync, name + ".sync")):
        function.__name__, function.__qualname__, function.__module__ = own_name, "tools." + own_name, "tools"
        function.__doc__, function.__signature__ = words, signature_of(schema)
    tool.description, tool.input_schema, tool.sync = description, schema, sync
    return tool


def encode_input(name: str, schema: dict, arguments: tuple, named: dict) -> bytes:
    if len(arguments) > 1 or arguments and (named or not isinstance(arguments[0], dict)):
        raise TypeError("%s() takes keyword arguments, or one dict" % name)
    given = arguments[0] if arguments else named
    known = properties_of(schema)
    required = schema.get("required")
    missing = [one for one in required if one not in given] if isinstance(required, list) else []
    if missing:
        raise TypeError("%s() needs %s" % (name, ", ".join(map(repr, missing))))
    more = schema.get("additionalProperties", not known)
    unknown = [one for one in given if one not in known] if more is False else []
    if unknown:
        raise TypeError("%s() has no parameter %s; there are: %s" % (
            name, ", ".join(map(repr, unknown)), ", ".join(known) or "none"))
    encoded = json.dumps(given, default=plain, allow_nan=False, separators=(",", ":")).encode()
    if len(encoded) > MOST_INPUT:
        raise ValueError("the input of a tool must have at most %d bytes as JSON, not %d" % (MOST_INPUT, len(encoded)))
    return encoded


def plain(value: object):
    """Numbers and arrays of numpy and pandas, which JSON does not know."""
    convert = getattr(value, "tolist", None)
    if callable(convert):
        return convert()
    raise TypeError("a tool cannot be given a %s: it is no JSON" % type(value).__name__)


def properties_of(schema: dict) -> dict:
    known = schema.get("properties")
    return known if isinstance(known, dict) else {}


def type_of(about: object) -> str:
    kind = about.get("type") if isinstance(about, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return " | ".join([TYPES[one] for one in kinds if isinstance(one, str) and one in TYPES]) or "object"


class Said:
    """A name in a signature, without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def signature_of(schema: dict) -> inspect.Signature:
    known, required = properties_of(schema), schema.get("required") or ()
    parameters = []
    for name, about in known.items():
        if name.isidentifier():
            default = inspect.Parameter.empty if name in required else Said("...")
            if isinstance(about, dict) and "default" in about:
                default = about["default"]
            try:
                parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default,
                                                    annotation=Said(type_of(about))))
            except ValueError:  # a keyword of the language
                continue
    if len(parameters) < len(known) or not known:  # the rest can be given as a dict
        parameters.append(inspect.Parameter("more", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters, return_annotation=str)


def describe(description: str, schema: dict) -> str:
    lines = [description.strip(), ""] if description.strip() else []
    known, required = properties_of(schema), schema.get("required") or ()
    if known:
        lines.append("Parameters:")
    for name, about in known.items():
        words = about.get("description", "") if isinstance(about, dict) else ""
        lines.append("    %s (%s%s)%s" % (name, type_of(about), ", required" if name in required else "",
                                          ": %s" % words if words else ""))
    lines += [""] * bool(known)
    lines.append("Takes keyword arguments or one dict; gives a str, often JSON for json.loads(). To be awaited, or")
    lines.append("called as .sync(). Raises tools.ToolError, and TimeoutError when nobody answers.")
    return "\n".join(lines)
