"""A few words about a value: what its type is called, how large it is. No line of the user's code runs for it: only
types that are known to be Python's own or a well-known library's are asked anything."""
from __future__ import annotations

import builtins
import datetime
import sys
from collections import Counter, OrderedDict, defaultdict, deque

__builtins__ = dict(vars(builtins))

MOST = 120  # characters of a summary, and of a type's name
LONGEST_SHOWN = 80  # characters of a text or bytes shown as they are
MOST_BITS = 390  # of a number shown as it is: some 117 digits
MOST_LABELS = 12  # columns named

_name_of = type.__dict__["__name__"].__get__  # a metaclass may say something else
_slice_text = str.__getitem__
MODULE = type(sys)
FUNCTION = type(lambda: None)
_builtin_type = type(len)


def describe(value: object) -> tuple[str, str]:
    """The type's name and the summary, which may be empty."""
    return type_name(value), summary(value)


def type_name(value: object) -> str:
    kind = type(value)
    if kind is FUNCTION or kind is _builtin_type:
        return "function"
    if issubclass(kind, type):
        return "type"
    return "module" if issubclass(kind, MODULE) else name_of(kind)


def name_of(kind: type) -> str:
    return _slice_text(_name_of(kind), slice(0, MOST))


def summary(value: object) -> str:
    """At most MOST characters. Empty where the type says it all, or is nobody's we know."""
    try:
        return shortened(known(type(value), SUMMARIES, by_base)(value))
    except Exception:  # a library's object that was never initialised, or no memory
        return ""


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST else line[: MOST - 1] + "…"


def known(kind: type, table: Table, otherwise):
    """What `table` has for exactly this type. Types are told by identity: a name can be anybody's, and a metaclass can
    lie about equality."""
    found = table.types.get(id(kind))
    if found is not None:
        return found[1]
    for module_name, function in table.libraries.get(name_of(kind), ()):
        module = sys.modules.get(module_name)
        if type(module) is MODULE and module.__dict__.get(name_of(kind)) is kind:
            table.types[id(kind)] = (kind, function)  # which keeps the id from being anyone else's
            return function
    return otherwise(kind)


class Table:
    """Functions by type. Libraries are found when one of their objects is met: none is imported for it."""

    __slots__ = ("libraries", "types")

    def __init__(self, types: dict, libraries: dict) -> None:
        self.types = {id(kind): (kind, function) for kind, function in types.items()}
        self.libraries = libraries


def counted(number: int, noun: str) -> str:
    return "%d %s" % (number, noun if number == 1 else noun + "s")


def by_base(kind: type):
    """Subclasses of containers have a length that can be had without asking the subclass."""
    if issubclass(kind, type):
        return of_class
    if issubclass(kind, MODULE):
        return of_module
    for base in (list, tuple, dict, set, frozenset):
        if issubclass(kind, base):
            return lambda value: counted(base.__len__(value), "item")
    return of_unknown


def of_unknown(value) -> str:
    return ""


def of_class(value) -> str:
    return name_of(value)


def of_module(value) -> str:
    name = MODULE.__getattribute__(value, "__dict__").get("__name__")
    return name if type(name) is str else ""


def of_function(value) -> str:
    """The names of the parameters."""
    code = value.__code__
    positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:positional])
    rest = code.co_varnames[named:]
    if code.co_flags & 4:  # *args
        names.append("*" + rest[0])
        rest = rest[1:]
    elif named > positional:
        names.append("*")
    names += code.co_varnames[positional:named]
    if code.co_flags & 8:  # **kwargs
        names.append("**" + rest[0])
    return "(%s)" % ", ".join(names)


def of_number(value) -> str:
    bits = value.bit_length()
    return repr(value) if bits <= MOST_BITS else counted(bits, "bit")  # decimal digits would take long


def of_text(value) -> str:
    return repr(value) if len(value) <= LONGEST_SHOWN else counted(len(value), "character")


def of_bytes(value) -> str:
    return repr(value) if len(value) <= LONGEST_SHOWN // 4 else counted(len(value), "byte")


def of_items(value) -> str:
    return counted(len(value), "item")


def of_range(value) -> str:
    parts = (value.start, value.stop, value.step)
    return repr(value) if all(part.bit_length() < 100 for part in parts) else ""


def of_moment(value) -> str:
    """A time zone may be a class of the user's."""
    zone = value.tzinfo
    return str(value) if zone is None or type(zone) is datetime.timezone else str(value.replace(tzinfo=None))


def of_array(value) -> str:
    return "shape %s, %s" % (tuple(value.shape), value.dtype)


def of_tensor(value) -> str:
    return "%s, %s" % (of_array(value).replace("torch.", ""), value.device)


def of_frame(value) -> str:
    rows, columns = value.shape
    text = "%s x %s" % (counted(rows, "row"), counted(columns, "column"))
    if not columns:
        return text
    names = ", ".join(map(label, value.columns[:MOST_LABELS]))
    return text + ": " + names + (", …" if columns > MOST_LABELS else "")


def of_arrow_table(value) -> str:
    text = "%s x %s" % (counted(value.num_rows, "row"), counted(value.num_columns, "column"))
    return text + ": " + ", ".join(value.column_names[:MOST_LABELS])


def of_series(value) -> str:
    text = "%s, %s" % (counted(len(value), "value"), value.dtype)
    name = value.name
    return text if name is None or type(name) is str and not name else text + ", named " + label(name)


def of_index(value) -> str:
    return "%s, %s" % (counted(len(value), "value"), value.dtype)


def of_image(value) -> str:
    return "%d x %d, %s" % (*value.size, value.mode)


def label(value: object) -> str:
    """Of a column: usually text, but it may be anything."""
    kind = type(value)
    if kind is str:
        return value[:MOST]
    if kind is tuple:
        return "(%s)" % ", ".join(map(label, value[:4]))
    return summary(value) or name_of(kind)


NUMPY_SCALARS = ("bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                 "float32", "float64", "longdouble", "complex64", "complex128", "datetime64", "timedelta64")
INDEXES = ("Index", "RangeIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "CategoricalIndex", "IntervalIndex",
           "MultiIndex", "Categorical")
IMAGE_MODULES = {"Image": "Image", "PngImageFile": "PngImagePlugin", "JpegImageFile": "JpegImagePlugin",
                 "GifImageFile": "GifImagePlugin", "WebPImageFile": "WebPImagePlugin"}
SUMMARIES = Table(
    {
        type(None): repr, bool: repr, float: repr, complex: repr, type(Ellipsis): repr, type(NotImplemented): repr,
        int: of_number, str: of_text, bytes: of_bytes, bytearray: lambda value: counted(len(value), "byte"),
        list: of_items, tuple: of_items, dict: of_items, set: of_items, frozenset: of_items, deque: of_items,
        OrderedDict: of_items, defaultdict: of_items, Counter: of_items, range: of_range,
        datetime.date: str, datetime.timedelta: str, datetime.timezone: str,
        datetime.datetime: of_moment, datetime.time: of_moment,
        type: of_class, MODULE: of_module, FUNCTION: of_function, _builtin_type: of_unknown,
    },
    {
        "ndarray": (("numpy", of_array),),
        **{name: (("numpy", str),) for name in NUMPY_SCALARS},
        "DataFrame": (("pandas", of_frame), ("polars", of_frame)),
        "Series": (("pandas", of_series), ("polars", of_series)),
        **{name: (("pandas", of_index),) for name in INDEXES},
        "Timestamp": (("pandas", str),), "Timedelta": (("pandas", str),),
        "Tensor": (("torch", of_tensor),), "Parameter": (("torch.nn.parameter", of_tensor),),
        "Table": (("pyarrow", of_arrow_table), ("pyarrow.lib", of_arrow_table)),
        **{name: (("PIL." + module, of_image),) for name, module in IMAGE_MODULES.items()},
        "Decimal": (("decimal", str),), "Fraction": (("fractions", str),), "UUID": (("uuid", str),),
        "PosixPath": (("pathlib", str),), "PurePosixPath": (("pathlib", str),),
    },
)
