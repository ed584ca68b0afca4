"""What must be remembered of a value to tell later whether a variable still has it, without keeping it alive.

Small values that cannot change are held. Others are known by a weak reference where there can be one, by their
address otherwise, and by marks: a shallow one that is had in no time (length, shape), and a deep one (some elements,
some bytes) for when it is worth a few microseconds. A change that shows in neither is not seen: an element in the
middle of a long list or a large array, or something deep inside. An address says little once its object is gone, so
where there can be no weak reference (a list, a dict, a long text) the elements in the deep mark must tell.
"""
from __future__ import annotations

import builtins
import datetime
import sys
from _weakref import ref
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import islice

from . import summaries
from .summaries import Table, known

__builtins__ = dict(vars(builtins))

LONGEST_HELD = 256  # characters of text, bits of a number
MOST_ELEMENTS = 64
MOST_BYTES = 32 << 10  # of an array
MOST_BLOCKS = 32  # of a table

_get_set_type = type(type.__dict__["__dict__"])
_bases_of = type.__dict__["__mro__"].__get__
_names_of_type = type.__dict__["__dict__"].__get__


def held(value: object) -> bool:
    """Can neither change nor be large: keeping it costs nothing, and then identity says all."""
    check = HOLD.get(id(type(value)))
    return check is not None and check(value)


def always(value: object) -> bool:
    return True


def small(value) -> bool:
    return len(value) <= LONGEST_HELD


def belongs_to_module(value) -> bool:
    """A method of a builtin type would keep its object alive."""
    return value.__self__ is None or type(value.__self__) is summaries.MODULE


HOLD = {id(kind): always for kind in (type(None), bool, float, complex, type(Ellipsis), summaries.MODULE)}
HOLD |= {id(str): small, id(bytes): small, id(int): lambda value: value.bit_length() <= LONGEST_HELD,
         id(type(len)): belongs_to_module}


class Fingerprint:
    """Of a value that is not held."""

    __slots__ = ("_deep", "_id", "_kind", "_look", "_measure", "_reference", "_shallow")

    def __init__(self, value: object) -> None:
        kind = type(value)
        self._id, self._kind = id(value), id(kind)
        try:
            self._reference = ref(value)
        except TypeError:
            self._reference = None
        self._measure, self._look = known(kind, MARKS, marks_by_base)
        self._shallow, self._deep = mark(self._measure, value), mark(self._look, value)

    def fits(self, value: object, deeply: bool) -> bool:
        """Whether this still is the same, as far as can be seen."""
        if self._reference is not None:
            if self._reference() is not value:
                return False
        elif id(value) != self._id or id(type(value)) != self._kind:
            return False
        if self._measure is not None:
            try:
                if self._measure(value) != self._shallow:
                    return False
            except Exception:  # as in mark()
                return self._shallow is None
        return not deeply or mark(self._look, value) == self._deep


def mark(function, value: object) -> object:
    if function is None:
        return None
    try:
        return function(value)
    except Exception:  # it changes just now, in another thread, or is not as its type says
        return None


def some(elements) -> list:
    """Values that are held, addresses of others: nothing of the user's is ever compared."""
    return [element if held(element) else id(element) for element in elements]


def of_sequence(base: type):
    start, get = base.__iter__, base.__getitem__
    return lambda value: some(islice(start(value), MOST_ELEMENTS)) + some(get(value, slice(-8, None)))


def of_iterable(value) -> list:
    return some(islice(value, MOST_ELEMENTS))


def of_dict(value) -> list:
    entries = list(islice(dict.items(value), MOST_ELEMENTS // 2))
    return some(key for key, _ in entries) + some(entry for _, entry in entries)


def of_text(value) -> tuple:
    return value[:LONGEST_HELD], value[-LONGEST_HELD:]


def of_number(value) -> int:
    return value & (1 << 512) - 1


def of_moment(value) -> tuple:
    return value.replace(tzinfo=None), id(value.tzinfo)


def of_array(value) -> int:
    return array_mark(value, MOST_BYTES)


def array_mark(value, most: int) -> int:
    """All bytes of a small array, evenly spaced elements of a large one."""
    step = value.nbytes // most + 1
    flags = value.flags
    flat = value.ravel("K") if flags.c_contiguous or flags.f_contiguous else value.flat
    return hash(flat[::step].tobytes())


def of_scalar(value) -> bytes:
    return value.tobytes()


def shape_and_kind(value) -> tuple:
    return value.shape, value.dtype


def of_table(value) -> list:
    """A pandas table is made of blocks; a column that was replaced is in a new one."""
    manager = value._mgr
    blocks = manager.blocks
    marks = [len(blocks), *map(id, manager.axes)]
    array_type = sys.modules["numpy"].ndarray
    for block in blocks[:MOST_BLOCKS]:
        values = block.values
        marks.append(id(values))
        inner = values if type(values) is array_type else getattr(values, "_ndarray", None)
        if type(inner) is array_type:
            marks.append(array_mark(inner, MOST_BYTES // min(len(blocks), MOST_BLOCKS)))
    return marks


def shape(value) -> tuple:
    return tuple(value.shape)


def version(value) -> int:
    """Torch counts changes in place."""
    return value._version


def of_instance(kind: type):
    """The attributes of an object, past whatever its class does to hide them."""
    for base in _bases_of(kind):
        getter = _names_of_type(base).get("__dict__")
        if getter is not None:
            break
    else:
        return None
    return (lambda value: of_dict(getter.__get__(value))) if type(getter) is _get_set_type else None


def marks_by_base(kind: type) -> tuple:
    if issubclass(kind, type):
        return None, lambda value: len(_names_of_type(value))
    for base, look in ((list, SEQUENCE), (tuple, TUPLE), (dict, of_dict), (set, None)):
        if issubclass(kind, base):
            return base.__len__, look
    return None, of_instance(kind)


SEQUENCE, TUPLE = of_sequence(list), of_sequence(tuple)
MARKS = Table(
    {
        list: (len, SEQUENCE), tuple: (len, TUPLE), dict: (len, of_dict), set: (len, of_iterable),
        frozenset: (None, None), deque: (len, of_iterable), OrderedDict: (len, of_dict), defaultdict: (len, of_dict),
        Counter: (len, of_dict),
        bytearray: (len, of_text), str: (len, of_text), bytes: (len, of_text), int: (int.bit_length, of_number),
        datetime.datetime: (of_moment, None), datetime.time: (of_moment, None),
        datetime.date: (hash, None), datetime.timedelta: (hash, None), summaries.FUNCTION: (None, None),
    },
    {
        "ndarray": (("numpy", (shape_and_kind, of_array)),),
        **{name: (("numpy", (of_scalar, None)),) for name in summaries.NUMPY_SCALARS},
        "Decimal": (("decimal", (hash, None)),), "Fraction": (("fractions", (hash, None)),),
        "PosixPath": (("pathlib", (str, None)),), "PurePosixPath": (("pathlib", (str, None)),),
        "DataFrame": (("pandas", (shape, of_table)), ("polars", (shape, None))),
        "Series": (("pandas", (shape, of_table)), ("polars", (len, None))),
        "Tensor": (("torch", (shape, version)),), "Parameter": (("torch.nn.parameter", (shape, version)),),
    },
)
