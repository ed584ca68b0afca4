"""Answers about the namespace between cells: completions, documentation, variables, a look at a value.

The user's code may run for it (a property, __dir__, __repr__). It may raise, print and loop: the engine then interrupts
it, and the answer says so. Execution counts, `_` and `Out` stay as they are.
"""
from __future__ import annotations

import _signal
import builtins
import inspect
import json
import keyword
import re
from itertools import islice

from . import previews, reprs, summaries
from .changes import is_told
from .wire import COMPLETE, INSPECT, PREVIEW, VARIABLES, Ask

__builtins__ = dict(vars(builtins))

MOST_ANSWER = 512 << 10
MOST_MATCHES, MOST_VARIABLES = 200, 500
MOST_NAME, MOST_SIGNATURE, MOST_TEXT = 256, 4096, 96 << 10  # characters
WORD = re.compile(r"(?:[^\W\d]\w*\.)*(?:[^\W\d]\w*)?\Z")
DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

_signal_set = _signal.signal
_missing = object()


class Inspector:
    """Looks at `names`, with the help of IPython's shell where there is one."""

    def __init__(self, names: dict, shell: object) -> None:
        self._names = names
        self._shell = shell
        self._listens = self._interrupted = False

    def answer(self, ask: Ask) -> bytes:
        """JSON. SIGINT, which does nothing between cells, ends it early."""
        before = _signal_set(_signal.SIGINT, self._interrupt)
        try:
            try:
                self._listens = True
                found = fitting(self._look(ask))
            finally:
                self._listens = False
        except BaseException as error:
            self._listens = False  # again: the interrupt may have come during the first
            found = fitting({"error": "it could not be looked at: " + reprs.error_text(error)})
        _signal_set(_signal.SIGINT, before)
        return fitting({"error": "interrupted"}) if self._interrupted else found

    def _interrupt(self, number: int, frame: object) -> None:
        """Remembered too: libraries catch what is raised here."""
        if self._listens:
            self._interrupted = True
            raise KeyboardInterrupt

    def _look(self, ask: Ask) -> dict:
        if ask.what == COMPLETE:
            return self._complete(ask.code, min(ask.cursor, len(ask.code)))
        if ask.what == INSPECT:
            return self._inspect(ask.name or self._name_at(ask.code, min(ask.cursor, len(ask.code))), ask.detail)
        if ask.what == VARIABLES:
            return self._variables()
        if ask.what == PREVIEW:
            return self._preview(ask.name, ask.detail)
        return {"error": "there is no such question"}

    def _complete(self, code: str, cursor: int) -> dict:
        find = complete_plainly if self._shell is None else complete_with_ipython
        matches, seen = [], set()
        for text, kind, start, end in find(self._names, self._shell, code, cursor):
            if text not in seen and len(text) <= MOST_NAME:
                seen.add(text)
                matches.append({"text": text, "type": kind, "start": start, "end": end})
            if len(matches) == MOST_MATCHES:
                break
        first = matches[0] if matches else {"start": cursor, "end": cursor}
        return {"matches": matches, "cursor_start": first["start"], "cursor_end": first["end"]}

    def _name_at(self, code: str, cursor: int) -> str:
        if self._shell is None:
            return name_at(code, cursor)
        from IPython.utils.tokenutil import token_at_cursor

        magic = re.match(r"\s*(%{1,2}\w+)", code[code.rfind("\n", 0, cursor) + 1 :])
        return magic.group(1) if magic else token_at_cursor(code, cursor)

    def _inspect(self, name: str, detail: int) -> dict:
        value = self._find(name)
        found = value is not _missing
        about = {"found": found, "name": name[:MOST_NAME], "type": None, "signature": None, "documentation": None,
                 "source": None, "file": None, "value": None}
        if found:
            about["type"], about["value"] = summaries.type_name(value), summaries.summary(value) or None
            about["signature"] = attempt(lambda: signature(name, value))
            about["documentation"] = attempt(lambda: text_or_none(inspect.getdoc(value)))
            if detail:
                about["source"] = attempt(lambda: text_or_none(inspect.getsource(source_of(value))))
        return about

    def _find(self, name: str) -> object:
        """The value of a dotted name, or a magic."""
        if self._shell is not None and name.startswith("%"):
            info = self._shell._ofind(name)
            return info.obj if info.found else _missing
        if not DOTTED.fullmatch(name):
            return _missing
        first, *rest = name.split(".")
        value = self._names.get(first, _missing)
        if value is _missing:
            value = vars(builtins).get(first, _missing)
        for attribute in rest if value is not _missing else ():
            try:
                value = getattr(value, attribute)
            except Exception:  # an AttributeError, or whatever a property makes of it
                return _missing
        return value

    def _variables(self) -> dict:
        told = [(name, value) for name, value in self._names.copy().items() if is_told(name)]
        listed = []
        for name, value in told[:MOST_VARIABLES]:
            kind, summary = summaries.describe(value)
            listed.append({"name": name[:MOST_NAME], "type": kind, "summary": summary, "size": previews.size(value)})
        return {"variables": listed, "more": len(told) > MOST_VARIABLES}

    def _preview(self, name: str, count: int) -> dict:
        value = self._find(name)
        if value is _missing:
            return {"found": False, "name": name[:MOST_NAME], "type": None, "summary": None, "mime": {}}
        kind, summary = summaries.describe(value)
        return {"found": True, "name": name[:MOST_NAME], "type": kind, "summary": summary,
                "mime": previews.mime(value, count)}


def fitting(answer: dict) -> bytes:
    """As JSON, and no larger than an answer may be."""
    while True:
        encoded = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if len(encoded) <= MOST_ANSWER:
            return encoded
        if len(answer.get("mime", ())) > 1:
            answer["mime"].popitem()  # text/plain is the first, and says most for its size
        elif answer.get("variables"):
            answer["variables"], answer["more"] = answer["variables"][: len(answer["variables"]) // 2], True
        elif answer.get("matches"):
            answer["matches"] = answer["matches"][: len(answer["matches"]) // 2]
        else:
            answer = {"error": "the answer is too large"}


def attempt(look):
    """None where the object, or Python, has nothing to say."""
    try:
        return look()
    except Exception:
        return None


def text_or_none(text: object) -> str | None:
    return str.__getitem__(text, slice(0, MOST_TEXT)) if isinstance(text, str) else None


def signature(name: str, value: object) -> str | None:
    if not callable(value):
        return None
    return (name.rpartition(".")[2].lstrip("%") + str(inspect.signature(value)))[:MOST_SIGNATURE]


def source_of(value: object) -> object:
    """What has source: a function below its decorators, the class of an instance."""
    value = inspect.unwrap(value)
    has_source = isinstance(value, type) or inspect.isroutine(value) or inspect.ismodule(value)
    return value if has_source else type(value)


def name_at(code: str, cursor: int) -> str:
    """The dotted name that the cursor touches, up to the part it is in; else that of the call it is in."""
    for found in DOTTED.finditer(code):
        if found.start() <= cursor <= found.end() and not keyword.iskeyword(found.group()):
            end = code.find(".", cursor, found.end())
            return code[found.start() : end if end >= 0 else found.end()]
    depth = 0
    for at in range(cursor - 1, -1, -1):
        if code[at] in ")]}":
            depth += 1
        elif code[at] in "([{":
            depth -= 1
            if depth < 0:
                before = WORD.search(code[:at].rstrip()).group()
                if code[at] == "(" and before and not keyword.iskeyword(before):
                    return before
                depth = 0
    return ""


def complete_plainly(names: dict, shell: object, code: str, cursor: int):
    """Names, builtins and keywords; attributes of a dotted name. Properties are not called for it."""
    word = WORD.search(code[:cursor]).group()
    path, dot, prefix = word.rpartition(".")
    start = cursor - len(prefix)
    before = code[:start]
    if dot:
        owner = Inspector(names, None)._find(path)
        found = [] if owner is _missing else attempt(lambda: dir(owner)) or []
        look = lambda name: inspect.getattr_static(owner, name)  # noqa: E731
    elif before.endswith((".", "'", '"')) or not code[:cursor].strip():
        return
    else:
        values = {**vars(builtins), **names.copy()}
        found, look = [*values, *keyword.kwlist], values.get
    usual = [name for name in found if type(name) is str and name.startswith(prefix)]
    for name in sorted(usual, key=lambda name: (name.startswith("_"), name)):
        if prefix.startswith("_") or not name.startswith("_"):
            is_keyword = not dot and keyword.iskeyword(name)
            yield name, "keyword" if is_keyword else kind_of(attempt(lambda: look(name))), start, cursor


def kind_of(value: object) -> str:
    """In the words that IPython and jedi use."""
    if isinstance(value, (staticmethod, classmethod)):
        return "function"
    name = summaries.type_name(value)
    if name in ("module", "property"):
        return name
    return "class" if name == "type" else "function" if inspect.isroutine(value) else "instance"


def complete_with_ipython(names: dict, shell: object, code: str, cursor: int):
    from IPython.core.completer import provisionalcompleter, rectify_completions

    shell.set_completer_frame()  # the namespace may be another than the one it began with
    with provisionalcompleter():
        found = shell.Completer.completions(code, cursor)
        for match in rectify_completions(code, islice(found, 5 * MOST_MATCHES)):
            kind = match.type if match.type and match.type[0].isalpha() else None
            yield match.text, kind, match.start, match.end
