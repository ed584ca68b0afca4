"""Tables as data: columns with their types, and as many rows as somebody looks at."""
from __future__ import annotations

import builtins
import datetime
import decimal
import sys

__builtins__ = dict(vars(builtins))

MIME = "application/vnd.hutch.table+json"
MOST_ROWS, MOST_COLUMNS, MOST_TEXT = 100, 50, 256


def bundle(value: object) -> dict | None:
    return None  # the libraries' own text and HTML are what people expect


def more(value: object) -> dict:
    table = describe(value)
    return {MIME: table} if table is not None else {}


def describe(value: object, rows: int = MOST_ROWS) -> dict | None:
    """The table that a value is; None when it is none, or of a library that is not loaded."""
    for library, kinds in KINDS.items():
        module = sys.modules.get(library)
        for name, describer in kinds.items():
            kind = getattr(module, name, None)
            if isinstance(kind, type) and isinstance(value, kind):
                return describer(value, rows)
    return None


def data_frame(value, rows: int) -> dict:
    part = value.iloc[:rows, :MOST_COLUMNS]
    columns = [part.iloc[:, number] for number in range(part.shape[1])]
    names = [(label(name), str(column.dtype)) for name, column in zip(part.columns.tolist(), columns)]
    return table(names, part.index.tolist(), [column.tolist() for column in columns], value.shape)


def series(value, rows: int) -> dict:
    part = value.iloc[:rows]
    name = "0" if value.name is None else label(value.name)
    return table([(name, str(value.dtype))], part.index.tolist(), [part.tolist()], value.shape)


def index(value, rows: int) -> dict | None:
    if value.nlevels != 1:
        return None
    part = value[:rows]
    name = "0" if value.name is None else label(value.name)
    return table([(name, str(value.dtype))], list(range(len(part))), [part.tolist()], value.shape)


def array(value, rows: int) -> dict | None:
    """Of one or two dimensions; others are no tables."""
    if value.ndim not in (1, 2) or value.size == 0:
        return None
    part = value[:rows]
    if value.dtype.names is not None and value.ndim == 1:
        fields = value.dtype.names[:MOST_COLUMNS]
        names = [(label(name), str(value.dtype[name])) for name in fields]
        shape = (len(value), len(value.dtype.names))
        return table(names, list(range(len(part))), [part[name].tolist() for name in fields], shape)
    if value.ndim == 1:
        return table([("0", str(value.dtype))], list(range(len(part))), [part.tolist()], value.shape)
    names = [(str(number), str(value.dtype)) for number in range(min(value.shape[1], MOST_COLUMNS))]
    columns = [part[:, number].tolist() for number in range(len(names))]
    return table(names, list(range(len(part))), columns, value.shape)


def polars_frame(value, rows: int) -> dict:
    part = value.head(rows)
    columns = [part[name] for name in part.columns[:MOST_COLUMNS]]
    names = [(column.name, str(column.dtype)) for column in columns]
    return table(names, list(range(part.height)), [column.to_list() for column in columns], value.shape)


def polars_series(value, rows: int) -> dict:
    part = value.head(rows)
    return table([(value.name or "0", str(value.dtype))], list(range(len(part))), [part.to_list()], (len(value),))


def arrow_table(value, rows: int) -> dict:
    part = value.slice(0, rows)
    fields = list(part.schema)[:MOST_COLUMNS]
    names = [(label(field.name), str(field.type)) for field in fields]
    columns = [part.column(number).to_pylist() for number in range(len(fields))]
    return table(names, list(range(part.num_rows)), columns, (value.num_rows, value.num_columns))


KINDS = {
    "pandas": {"DataFrame": data_frame, "Series": series, "Index": index},
    "numpy": {"ndarray": array},
    "polars": {"DataFrame": polars_frame, "Series": polars_series},
    "pyarrow": {"Table": arrow_table, "RecordBatch": arrow_table},
}


def table(names: list[tuple[str, str]], labels: list, columns: list[list], shape: tuple) -> dict:
    safe = [[plain(value) for value in column] for column in columns]
    rows = [list(row) for row in zip(*safe)] if safe else [[] for _ in labels]
    cut = len(labels) < shape[0] or len(shape) > 1 and len(names) < shape[1]
    return {
        "columns": [{"name": name[:MOST_TEXT], "dtype": dtype[:MOST_TEXT]} for name, dtype in names],
        "index": [plain(value) for value in labels],
        "rows": rows,
        "shape": [int(count) for count in shape],
        "truncated": bool(cut),
    }


def label(name: object) -> str:
    if isinstance(name, tuple):
        return ", ".join(label(part) for part in name)
    return short(name)


def plain(value: object):
    """A value as JSON has it: numbers that are none are null, times are ISO, the rest is short text."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= MOST_TEXT else value[: MOST_TEXT - 1] + "…"
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 64 else short(value)
    if kind is float:
        return value if value - value == 0 else None
    if kind is bool or value is None:
        return value
    if kind is tuple and len(value) <= 10:  # of an index with levels
        return [plain(part) for part in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return None if is_missing(value) else value.isoformat()
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else short(value)
    if is_missing(value):
        return None
    item = getattr(value, "item", None) if isinstance(value, numpy_scalar()) else None
    if item is not None and type(item()) in (int, float, bool, str):
        return plain(item())
    return short(value)


def numpy_scalar() -> type | tuple:
    numpy = sys.modules.get("numpy")
    return numpy.generic if numpy is not None else ()


def is_missing(value: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NaT or value is pandas.NA)


def short(value: object) -> str:
    """str() of an object that may be anything."""
    try:
        if type(value) in (list, tuple, dict, set) and len(value) > MOST_TEXT:
            return "<%s of %d>" % (type(value).__name__, len(value))
        text = str.__str__(str(value))
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = "<%s>" % type(value).__name__
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
