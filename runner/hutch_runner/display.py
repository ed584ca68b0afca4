"""Displays: what cells show beside text. Each is a bundle of representations by MIME type, checked and capped here.

Values and their reprs are the user's: anything may raise, lie, or be enormous. The engine has caps of its own and does
not trust these, which are there to say in words what was left out.
"""
from __future__ import annotations

import binascii
import builtins
import json
import os
import select  # noqa: F401  for wire.py, before a program's own module of that name can be in the way

from . import finish, hooks, reprs

__builtins__ = dict(vars(builtins))

DISPLAY, RESULT, UPDATE, CLEAR = 0, 1, 2, 3

TEXT_TYPES = frozenset(("text/plain", "text/html", "text/markdown", "text/latex", "image/svg+xml",
                        "application/javascript", "application/mathml+xml"))
BINARY_TYPES = {  # and how they begin
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "application/pdf": (b"%PDF-",),
}
JSON_TYPES = frozenset(("application/json", "application/geo+json", "application/vnd.plotly.v1+json",
                        "application/vnd.vega.v5+json", "application/vnd.vegalite.v4+json",
                        "application/vnd.vegalite.v5+json", "application/vnd.vegalite.v6+json",
                        "application/vnd.bokehjs_load.v0+json", "application/vnd.bokehjs_exec.v0+json",
                        "application/vnd.jupyter.widget-view+json", "application/vnd.hutch.table+json",
                        "application/vnd.hutch.chart+json"))
MOST_ITEM, MOST_BUNDLE, MOST_METADATA, MOST_ID = 4 << 20, 6 << 20, 64 << 10, 256
MOST_TYPES = 32
REMEDY = "make it smaller (for a figure: figsize or dpi), or save it to a file"


class Json(str):
    """Text that is JSON already, written by a library that we trust with it."""

    __slots__ = ()


class Unfit(Exception):
    """A representation that cannot be shown, and why."""


def publish(kind: int, data: dict, metadata: dict | None = None, name: str = "", wait: bool = False) -> None:
    """Shows one bundle. The text that was printed before it comes before it."""
    items = clean(data) if kind != CLEAR else []
    if not items and kind in (DISPLAY, RESULT) and data:
        return
    channel = hooks.channel()
    finish.flush_streams()
    if channel is None or not channel.show(encode(kind, items, clean_metadata(metadata), name, wait)):
        print_plainly(items)


def print_plainly(items: list[tuple[str, bytes]]) -> None:
    """In a process that the program forked: it has streams, and no engine."""
    for mime, value in items:
        if mime == "text/plain":
            print(value.decode("utf-8", "replace"))


def encode(kind: int, items: list[tuple[str, bytes]], metadata: bytes, name: str, wait: bool) -> bytes:
    """All of the frame but the display's number."""
    parts = [bytes((kind,)), sized(as_bytes(name[:MOST_ID])), bytes((wait,)), len(items).to_bytes(4, "little")]
    for mime, value in items:
        parts += (sized(mime.encode()), sized(value))
    parts.append(sized(metadata))
    return b"".join(parts)


def sized(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def as_bytes(text: str) -> bytes:
    return str.encode(text, "utf-8", "backslashreplace")


def clean(data: dict) -> list[tuple[str, bytes]]:
    """What may be sent of a bundle. Its text tells what was too large, and what was dropped when nothing is left."""
    items: dict[str, bytes] = {}
    unknown, notes = [], []
    for mime, value in list(data.items())[:MOST_TYPES]:
        if not isinstance(mime, str) or value is None:
            continue
        mime = usual(str.__str__(mime))
        try:
            item = clean_item(mime, value)
        except Unfit as problem:
            notes.append("%s was left out: %s" % (mime[:80], problem))
            continue
        if item is None:
            unknown.append(mime[:80])
        else:
            items[mime] = item
    while sum(map(len, items.values())) > MOST_BUNDLE:
        largest = max(items, key=lambda mime: len(items[mime]))
        notes.append("%s was left out: it has %s, and with all the rest a display may have %s; %s" % (
            largest, size(len(items.pop(largest))), size(MOST_BUNDLE), REMEDY))
    if unknown and not items and not notes:
        notes.append("nothing to show: %s is not supported" % ", ".join(unknown))
    if notes:
        text = items.pop("text/plain", b"")
        lines = [text] if text else []
        items = {"text/plain": b"\n".join(lines + [as_bytes("[%s]" % note) for note in notes]), **items}
    return list(items.items())


def clean_item(mime: str, value: object) -> bytes | None:
    """None: of a type that is not on the list."""
    if mime == "text/plain":
        return as_bytes(reprs.cut(text_of(value)))
    if mime in TEXT_TYPES:
        return small(as_bytes(small(text_of(value))))
    if mime in BINARY_TYPES:
        item = bytes_of(value)
        if not item.startswith(BINARY_TYPES[mime]):
            raise Unfit("its content is of another type")
        return item
    if mime in JSON_TYPES:
        return small(as_bytes(json_text(value)))
    return None


def usual(mime: str) -> str:
    """Altair has an own way of writing its types."""
    if mime.startswith("application/vnd.vega") and mime.endswith(".json"):
        return mime[:-5] + "+json"
    return mime


def small(value):
    if len(value) > MOST_ITEM:
        raise too_large(len(value))
    return value


def too_large(count: int) -> Unfit:
    return Unfit("it has %s, and a display may have %s of one type; %s" % (size(count), size(MOST_ITEM), REMEDY))


def size(count: int) -> str:
    return "%.1f MiB" % (count / (1 << 20)) if count >= 1 << 20 else "%d bytes" % count


def text_of(value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)  # a plain one: a class of the user's may lie about its length
    if isinstance(value, (bytes, bytearray)):
        return str(bytes_of(value), "utf-8", "replace")
    raise Unfit("it is %s and not text" % type(value).__name__)


def bytes_of(value: object) -> bytes:
    """Bytes as they are; text is base64 and nothing else."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return small(memoryview(value).cast("B")).tobytes()
    if not isinstance(value, str):
        raise Unfit("it is %s and not bytes" % type(value).__name__)
    value = str.__str__(value)
    if len(value) > MOST_ITEM * 3 // 2:
        raise too_large(len(value) * 3 // 4)
    try:
        compact = "".join(value.split()).encode("ascii")
        decoded = binascii.a2b_base64(compact)
        if binascii.b2a_base64(decoded, newline=False) != compact:
            raise ValueError
    except ValueError:
        raise Unfit("it is not valid base64") from None
    return small(decoded)


def json_text(value: object) -> str:
    """Strict JSON: what is not a number there is null."""
    if type(value) is Json:
        return str(value)
    try:
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            return json.dumps(without_nan(value, 100), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except Exception as error:
        raise Unfit("it cannot be written as JSON (%s)" % reprs.error_text(error)) from None


def without_nan(value: object, depth: int) -> object:
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {without_nan(key, depth - 1): without_nan(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item, depth - 1) for item in value]
    return value


def clean_metadata(metadata: object) -> bytes:
    if not isinstance(metadata, dict) or not metadata:
        return b""
    try:
        encoded = as_bytes(json_text(metadata))
    except Unfit:
        return b""
    return encoded if len(encoded) <= MOST_METADATA else b""


def new_id() -> str:
    return os.urandom(16).hex()


class DisplayHandle:
    """A display that can be changed later."""

    def __init__(self, display_id: str | None = None) -> None:
        self.display_id = display_id or new_id()

    def __repr__(self) -> str:
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, obj: object, **options) -> None:
        display(obj, display_id=self.display_id, **options)

    def update(self, obj: object, **options) -> None:
        update_display(obj, display_id=self.display_id, **options)


def display(*objs: object, include=None, exclude=None, metadata=None, transient=None, display_id=None,
            raw: bool = False, clear: bool = False, update: bool = False, **_) -> DisplayHandle | None:
    """Shows each value in every way it knows. With display_id (True for a new one) the result can change it later."""
    name = new_id() if display_id is True else display_id or (transient or {}).get("display_id", "")
    if update and not name:
        raise TypeError("display_id required for update_display")
    if clear:
        clear_output(wait=True)
    if not objs and name:
        publish(DISPLAY, {}, metadata, name)
    for obj in objs:
        if raw:
            if not isinstance(obj, dict):
                raise TypeError("data must be a dict, got: %s" % type(obj).__name__)
            data, about = obj, metadata
        else:
            data, about = reprs.bundle(obj, include, exclude)
            if not data:
                continue  # it has shown itself
            about = {**about, **(metadata or {})}
        publish(UPDATE if update else DISPLAY, data, about, str(name))
    return DisplayHandle(str(name)) if display_id else None


def update_display(obj: object, *, display_id: str, **options) -> None:
    display(obj, display_id=display_id, update=True, **options)


def clear_output(wait: bool = False) -> None:
    publish(CLEAR, {}, wait=bool(wait))


def show_result(value: object) -> None:
    """sys.displayhook of plain cells."""
    if value is None:
        return
    builtins._ = None  # as CPython does: a repr may look
    data, metadata = reprs.bundle(value)
    reprs.add_json(value, data)
    if data:
        publish(RESULT, data, metadata)
    builtins._ = value
