"""The representations of a value: every call into it is guarded, so that the worst of them ends in a line of text."""
from __future__ import annotations

import builtins
import sys

__builtins__ = dict(vars(builtins))

MOST_TEXT = 256 << 10  # bytes of text/plain
MOST_ELEMENTS = 1000  # of a container, as IPython has it
MOST_JSON, MOST_JSON_NODES = 64 << 10, 8192

METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_pdf_": "application/pdf",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
# The module that must be loaded for a value to be one of its, and the module of ours that knows them.
EXPERTS = (
    ("matplotlib.figure", "figures"),
    ("PIL.Image", "images"),
    ("bokeh.model", "plots"),
    ("plotly.basedatatypes", "plots"),
    ("IPython.core.display", "images"),
    ("pandas", "tables"),
    ("numpy", "tables"),
    ("polars", "tables"),
    ("pyarrow", "tables"),
)
PLAIN_TYPES = frozenset((int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range, type,
                         type(None)))

Bundle = tuple[dict, dict]  # representations by MIME type, and what there is to say about them


def bundle(value: object, include=None, exclude=None) -> Bundle:
    """As IPython would make it. Empty when the value has shown itself."""
    data, metadata = expert_bundle(value)
    if data is None:
        if show_itself(value):
            return {}, {}
        data, metadata = own_bundle(value, include, exclude)
        for method, mime in METHODS.items():
            if mime not in data:
                found, about = call(value, method)
                if found is not None:
                    data[mime] = found
                if about is not None:
                    metadata[mime] = about
        if "text/plain" not in data:
            data = {"text/plain": plain(value), **data}
        add_expert(value, data)
    return select(data, metadata, include, exclude)


def select(data: dict, metadata: dict, include, exclude) -> Bundle:
    if include:
        data = {mime: item for mime, item in data.items() if mime in include}
    if exclude:
        data = {mime: item for mime, item in data.items() if mime not in exclude}
    return data, metadata


def experts(value: object):
    """Those of our modules that may know what this is. Values of the language itself ask for none."""
    if type(value) in PLAIN_TYPES:
        return
    asked = set()
    for library, name in EXPERTS:
        if name not in asked and sys.modules.get(library) is not None:
            asked.add(name)
            yield __import__("hutch_runner." + name, fromlist=("bundle",))


def expert_bundle(value: object) -> tuple[dict | None, dict]:
    """Everything about a value of a library that we know better than its own methods. None: not of that kind."""
    for expert in experts(value):
        try:
            data = expert.bundle(value)
        except Exception as error:
            complain("%s cannot be shown: %s" % (type_name(value), error_text(error)))
            continue
        if data is not None:
            return data, {}
    return None, {}


def add_expert(value: object, data: dict) -> None:
    """What we can add to what a value says of itself."""
    for expert in experts(value):
        try:
            data.update(expert.more(value))
        except Exception:
            pass


def own_bundle(value: object, include=None, exclude=None) -> Bundle:
    """What _repr_mimebundle_ gives, if it gives what it should."""
    found, metadata = call(value, "_repr_mimebundle_", include=include, exclude=exclude)
    if not isinstance(found, dict):
        return {}, {}
    return dict(found), dict(metadata) if isinstance(metadata, dict) else {}


def show_itself(value: object) -> bool:
    method = method_of(value, "_ipython_display_")
    if method is None:
        return False
    try:
        method()
        return True
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        complain_about(value, "_ipython_display_", error)
        return False


def method_of(value: object, name: str):
    """A method that a class has, and not something that answers to every name."""
    try:
        if isinstance(value, type) or getattr(type(value), name, None) is None:
            return None
        method = getattr(value, name, None)
        return method if callable(method) else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def call(value: object, name: str, **options) -> tuple[object, object]:
    """The result of a repr method, and what it says about it. None for one that is not there or fails."""
    method = method_of(value, name)
    if method is None:
        return None, None
    try:
        found = method(**options)
    except (KeyboardInterrupt, NotImplementedError) as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None, None
    except BaseException as error:
        complain_about(value, name, error)
        return None, None
    if type(found) is tuple and len(found) == 2:
        return found
    return found, None


def plain(value: object) -> str:
    """text/plain where there is no IPython: repr(), bounded."""
    try:
        return cut(bounded_repr(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failed(value, error)


def bounded_repr(value: object) -> str:
    """Builtin containers and texts may be huge: only their beginning is looked at."""
    kind = type(value)
    if kind in (str, bytes, bytearray) and len(value) > MOST_TEXT:
        return repr(value[:MOST_TEXT])
    if kind in (list, tuple) and len(value) > MOST_ELEMENTS:
        shown = repr(value[:MOST_ELEMENTS])
        return "%s, ...%s" % (shown[:-1], shown[-1])
    if kind in (dict, set, frozenset) and len(value) > MOST_ELEMENTS:
        import itertools

        shown = repr(kind(itertools.islice(value.items() if kind is dict else value, MOST_ELEMENTS)))
        end = len(shown) - (2 if kind is frozenset else 1)
        return "%s, ...%s" % (shown[:end], shown[end:])
    return repr(value)


def cut(text: str) -> str:
    if len(text) * 4 <= MOST_TEXT:
        return text
    encoded = text[:MOST_TEXT].encode("utf-8", "backslashreplace")
    if len(text) <= MOST_TEXT and len(encoded) <= MOST_TEXT:
        return text
    return encoded[: MOST_TEXT - 128].decode("utf-8", "ignore") + "\n[cut here: a display may have %d KiB of text]" % (
        MOST_TEXT >> 10)


def failed(value: object, error: BaseException) -> str:
    return "<%s: repr raised %s>" % (type_name(value), error_text(error))


def error_text(error: BaseException) -> str:
    try:
        text = str.__str__(str(error))[:500]
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "<exception str() failed>"
    return "%s: %s" % (type_name(error), text) if text else type_name(error)


def type_name(value: object) -> str:
    return type.__dict__["__name__"].__get__(type(value))[:200]


def complain_about(value: object, method: str, error: BaseException) -> None:
    complain("%s of %s raised %s" % (method, type_name(value), error_text(error)))


def complain(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
    except Exception:
        pass


def add_json(value: object, data: dict) -> None:
    """Lists and dicts that are JSON are given as such too, when they are small."""
    if type(value) in (list, dict) and "application/json" not in data and is_small_json(value):
        data["application/json"] = value


def is_small_json(value: object) -> bool:
    """Looks at no more than it must, and never at an object of the user's own."""
    room, nodes = MOST_JSON, MOST_JSON_NODES
    waiting = [iter((value,))]
    while waiting:
        for item in waiting[-1]:
            kind = type(item)
            nodes -= 1
            if kind is str:
                room -= len(item) + 2
            elif kind is int:
                room -= 20 if item.bit_length() <= 1024 else room + 1
            elif kind is list:
                waiting.append(iter(item))
            elif kind is dict:
                if len(item) > nodes or not all(type(key) is str for key in item):
                    return False
                room -= sum(map(len, item))
                waiting.append(iter(item.values()))
            elif kind is float or kind is bool or item is None:
                room -= 4
            else:
                return False
            if room < 0 or nodes < 0 or len(waiting) > 50:
                return False
            if kind is list or kind is dict:
                break
        else:
            waiting.pop()
    return True
