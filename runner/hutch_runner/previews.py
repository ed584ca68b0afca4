"""A look at a value: its beginning as text, and as a table where it is one; and how many bytes it takes."""
from __future__ import annotations

import builtins
import sys
from itertools import islice

from . import reprs, summaries, tables

__builtins__ = dict(vars(builtins))

USUAL_ROWS, MOST_ROWS = 20, 1000
MOST_COLUMNS = 20
MOST_DEPTH = 4
MOST_ELEMENT = 2000  # characters of a text or of the repr of an object
MOST_TEXT, MOST_HTML = 64 << 10, 192 << 10


def mime(value: object, rows: int) -> dict:
    rows = min(rows or USUAL_ROWS, MOST_ROWS)
    look = summaries.known(type(value), LOOKS, lambda kind: None)
    try:
        found = look(value, rows) if look is not None else look_at_object(value, rows)
    except Exception:  # a table of the user's own objects, or one that was never initialised
        found = {"text/plain": text_of(value, rows)}
    try:
        table = tables.describe(value, min(rows, tables.MOST_ROWS))
        if table is not None:
            found[tables.MIME] = table
    except Exception:
        pass
    found["text/plain"] = cut(found["text/plain"], MOST_TEXT)
    return found


def look_at_object(value: object, rows: int) -> dict:
    found = {"text/plain": text_of(value, rows)}
    html, _ = reprs.call(value, "_repr_html_")
    if isinstance(html, str) and len(html) <= MOST_HTML:
        found["text/html"] = str.__str__(html)
    return found


def look_at_frame(value, rows: int) -> dict:
    part = value.head(rows)
    options = {"max_rows": rows, "max_cols": MOST_COLUMNS, "show_dimensions": False}
    text = part.to_string(**options)
    left = len(value) - len(part)
    html = part.to_html(**options, notebook=True)
    found = {"text/plain": text + more(left, "row")}
    return found if len(html) > MOST_HTML else {**found, "text/html": html}


def look_at_series(value, rows: int) -> dict:
    text = value.head(rows).to_string(max_rows=rows, dtype=True, name=True)
    return {"text/plain": text + more(len(value) - rows, "value")}


def more(count: int, noun: str) -> str:
    return "\n… %s more" % summaries.counted(count, noun) if count > 0 else ""


LOOKS = summaries.Table({}, {"DataFrame": (("pandas", look_at_frame),), "Series": (("pandas", look_at_series),)})


def text_of(value: object, most: int, depth: int = MOST_DEPTH) -> str:
    """repr(), of which containers give no more than their first elements."""
    kind = type(value)
    if kind is str or kind is bytes or kind is bytearray:
        size = most * 80 if depth == MOST_DEPTH else MOST_ELEMENT
        return repr(value[:size]) + ("… (%d in all)" % len(value) if len(value) > size else "")
    if kind is int and value.bit_length() > 10000:
        return "<int of %d bits>" % value.bit_length()
    brackets = BRACKETS.get(id(kind))
    if brackets is None:
        return cut(reprs.plain(value), MOST_ELEMENT if depth < MOST_DEPTH else MOST_TEXT)
    if not value and kind is not list and kind is not tuple and kind is not dict:
        return repr(value)
    if depth == 0:
        return "%s…%s" % brackets
    inner = depth - 1
    if kind is dict:
        parts = [text_of(key, most, inner) + ": " + text_of(entry, most, inner)
                 for key, entry in islice(value.items(), most)]
    else:
        parts = [text_of(element, most, inner) for element in islice(value, most)]
    if len(value) > most:
        parts.append("… (%d in all)" % len(value))
    elif kind is tuple and len(parts) == 1:
        parts.append("")
    return brackets[0] + ", ".join(parts).rstrip(" ") + brackets[1]


BRACKETS = {id(list): ("[", "]"), id(tuple): ("(", ")"), id(dict): ("{", "}"), id(set): ("{", "}"),
            id(frozenset): ("frozenset({", "})")}


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "… (%d characters in all)" % len(text)


def size(value: object) -> int | None:
    """Bytes, without what a container's elements take. None where only the user's code would know."""
    measure = summaries.known(type(value), SIZES, lambda kind: None)
    try:
        return None if measure is None else int(measure(value))
    except Exception:
        return None


SIZES = summaries.Table(
    {kind: sys.getsizeof for kind in (int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set,
                                      frozenset)},
    {
        "ndarray": (("numpy", lambda value: value.nbytes),),
        "DataFrame": (("pandas", lambda value: value.memory_usage().sum()),
                      ("polars", lambda value: value.estimated_size())),
        "Series": (("pandas", lambda value: value.memory_usage()), ("polars", lambda value: value.estimated_size())),
        "Tensor": (("torch", lambda value: value.element_size() * value.nelement()),),
        "Table": (("pyarrow", lambda value: value.nbytes), ("pyarrow.lib", lambda value: value.nbytes)),
    },
)
