"""A figure of matplotlib as the chart that it is: titles, labels, units, scales, and the numbers behind the pixels.

The shape is the one that E2B's clients know. What cannot be told apart by looking at the artists is "unknown".
"""
from __future__ import annotations

import builtins
import re
import sys

__builtins__ = dict(vars(builtins))

MIME = "application/vnd.hutch.chart+json"
MOST_POINTS, MOST_ELEMENTS, MOST_TEXT = 10_000, 100, 500
MOST_AXES = 50
SCALES = frozenset(("linear", "log", "symlog", "logit", "function", "functionlog", "asinh"))
NAMING_FORMATTERS = frozenset(("FixedFormatter", "FuncFormatter", "StrCategoryFormatter"))
NO_LINE = ("None", "none", "", " ", None)
UNIT = re.compile(r"(?<=\s)\(([^()]+)\)|\[([^\[\]]+)\]")


def bundle(figure) -> dict:
    """Called after the figure was drawn, so that its ticks are where they will be."""
    chart = describe(figure)
    return {MIME: chart} if chart else {}


def describe(figure) -> dict | None:
    axes = [each for each in figure.axes if is_chart(each)]
    if not axes:
        return None
    if len(axes) == 1:
        return Chart(axes[0]).describe()
    title = text(figure.get_suptitle()) if hasattr(figure, "get_suptitle") else None
    chart = {"type": "superchart", "title": title, "elements": [Chart(each).describe() for each in axes[:MOST_AXES]]}
    if len(axes) > MOST_AXES:
        chart["truncated"] = True
    return chart


def is_chart(axes) -> bool:
    """Not a colour bar, and not empty."""
    return axes.get_visible() and axes.get_label() != "<colorbar>" and (axes.has_data() or bool(axes.patches))


def text(value: object) -> str | None:
    return str(value)[:MOST_TEXT] if value else None


class Chart:
    """One pair of axes."""

    def __init__(self, axes) -> None:
        self._axes = axes
        self._truncated = False

    def describe(self) -> dict:
        for kind in (self._pie, self._boxes, self._bars, self._points):
            found = kind()
            if found is not None:
                break
        else:
            found = {"type": "unknown", "elements": []}
        chart = {"type": found.pop("type"), "title": text(self._axes.get_title()), **found}
        if self._truncated:
            chart["truncated"] = True
        return chart

    def _few(self, things: list, most: int) -> list:
        """At most so many, taken evenly from all."""
        if len(things) <= most:
            return things
        self._truncated = True
        step = -(-len(things) // most)
        return things[::step]

    def _labels(self, swapped: bool = False) -> dict:
        names = "yx" if swapped else "xy"
        about = {}
        for name, axis in zip(names, (self._axes.xaxis, self._axes.yaxis)):
            label = axis.get_label_text()
            unit = UNIT.search(label)
            about[name + "_label"] = text(label)
            about[name + "_unit"] = text(unit.group(1) or unit.group(2)) if unit else None
        return about

    def _pie(self) -> dict | None:
        wedges = [patch for patch in self._axes.patches if type(patch).__name__ == "Wedge"]
        if not wedges:
            return None
        elements = [{"label": shown_label(wedge) or "", "angle": float(wedge.theta2 - wedge.theta1),
                     "radius": float(wedge.r)} for wedge in self._few(wedges, MOST_ELEMENTS)]
        return {"type": "pie", "elements": elements}

    def _boxes(self) -> dict | None:
        lines = [Segment(line) for line in self._axes.lines[:20 * MOST_ELEMENTS]]
        patches = [patch for patch in self._axes.patches if type(patch).__name__ == "PathPatch"]
        for swapped in (False, True):
            found = find_boxes(lines, patches, swapped)
            if found:
                names = Ticks(self._axes.yaxis if swapped else self._axes.xaxis)
                elements = [{"label": names.at(centre), **box} for centre, box in self._few(found, MOST_ELEMENTS)]
                return {"type": "box_and_whisker", **self._labels(swapped), "elements": elements}
        return None

    def _bars(self) -> dict | None:
        groups = [group for group in self._axes.containers if type(group).__name__ == "BarContainer" and len(group)]
        if not groups:
            return None
        swapped = getattr(groups[0], "orientation", None) == "horizontal"
        names = Ticks(self._axes.yaxis if swapped else self._axes.xaxis)
        elements = []
        for number, group in enumerate(groups):
            label = group.get_label()
            name = "Group %d" % number if not label or label.startswith("_") else label[:MOST_TEXT]
            for bar in group.patches:
                start, width = (bar.get_y(), bar.get_height()) if swapped else (bar.get_x(), bar.get_width())
                value = bar.get_width() if swapped else bar.get_height()
                elements.append({"label": names.at(start + width / 2), "group": name, "value": number_of(value)})
        return {"type": "bar", **self._labels(swapped), "elements": self._few(elements, MOST_POINTS)}

    def _points(self) -> dict | None:
        """Lines, or clouds of points; with both it is the points that are looked at."""
        axes = self._axes
        lines = [line for line in axes.lines
                 if line.get_visible() and len(line.get_xydata()) and is_of_data(line, axes)]
        clouds = [cloud for cloud in axes.collections
                  if type(cloud).__name__ == "PathCollection" and cloud.get_visible() and len(cloud.get_offsets())]
        if not lines and not clouds:
            return None
        x, y = Values(axes.xaxis), Values(axes.yaxis)
        elements = []
        for number, artist in enumerate(self._few(clouds + lines, MOST_ELEMENTS)):
            pairs = artist.get_offsets() if artist in clouds else artist.get_xydata()
            label = shown_label(artist) or "%s %d" % ("Scatter" if artist in clouds else "Line", number)
            points = self._few(pairs, MOST_POINTS)
            xs, ys = x.plain(points[:, 0]), y.plain(points[:, 1])
            elements.append({"label": label, "points": [list(pair) for pair in zip(xs, ys)]})
        return {"type": "scatter" if clouds else "line", **self._labels(), **x.describe("x"), **y.describe("y"),
                "elements": elements}


def shown_label(artist) -> str | None:
    """None for the names that matplotlib gives to those that have none."""
    label = str(artist.get_label() or "")
    return None if not label or label.startswith("_") else label[:MOST_TEXT]


def is_of_data(line, axes) -> bool:
    """Not so axhline and axvline: one of their coordinates is of the page."""
    return all(line.get_transform().contains_branch_seperately(axes.transData))


def number_of(value) -> float | None:
    number = float(value)
    return number if number - number == 0 else None


class Ticks:
    """The names that an axis has for places on it."""

    def __init__(self, axis) -> None:
        self._values = Values(axis)
        self._names: dict[float, str] = {}
        if self._values.scale in ("categorical", "linear"):
            if type(axis.get_major_formatter()).__name__ in NAMING_FORMATTERS:
                places, labels = axis.get_majorticklocs(), axis.get_majorticklabels()
                self._names = {round(float(place), 6): label.get_text() for place, label in zip(places, labels)}

    def at(self, place: float) -> str:
        name = self._names.get(round(float(place), 6))
        if name is None:  # a bar of a group stands beside its tick
            near = min(self._names, key=lambda tick: abs(tick - place), default=None)
            name = self._names[near] if near is not None and abs(near - place) < 0.5 else None
        if name is None:
            value = self._values.plain([place])[0]
            name = "%g" % value if isinstance(value, float) else str(value)
        return name[:MOST_TEXT]


class Values:
    """What the numbers on an axis stand for."""

    def __init__(self, axis) -> None:
        self._axis = axis
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        kind = type(converter)
        scale = axis.get_scale()
        self.scale = scale if scale in SCALES else "unknown"
        self._names: dict[int, str] = {}
        if "date" in kind.__module__.lower() or "Date" in kind.__name__ or "Period" in kind.__name__:
            self.scale = "datetime"
        elif kind.__name__ == "StrCategoryConverter":
            self.scale = "categorical"
            self._names = {number: name for name, number in getattr(axis.units, "_mapping", {}).items()}

    def plain(self, numbers) -> list:
        import numpy

        values = numpy.ma.filled(numpy.ma.asarray(numbers, dtype=float), numpy.nan)
        finite = numpy.isfinite(values)
        if self.scale == "datetime":
            dates = sys.modules["matplotlib.dates"]
            return [dates.num2date(value).replace(tzinfo=None).isoformat() if good else None
                    for value, good in zip(values, finite)]
        if self._names:
            return [self._names.get(int(value), float(value)) if good else None for value, good in zip(values, finite)]
        plain = values.tolist()
        return plain if finite.all() else [value if good else None for value, good in zip(plain, finite)]

    def describe(self, name: str) -> dict:
        ticks = self._axis.get_majorticklocs()[:MOST_ELEMENTS]
        labels = [label.get_text() for label in self._axis.get_majorticklabels()[:MOST_ELEMENTS]]
        return {name + "_ticks": self.plain(ticks), name + "_tick_labels": labels, name + "_scale": self.scale}


class Segment:
    """A line as a box plot is made of them."""

    __slots__ = ("along", "count", "flier", "values")

    def __init__(self, line) -> None:
        xy = line.get_xydata()
        self.count = len(xy)
        self.flier = line.get_linestyle() in NO_LINE and line.get_marker() not in NO_LINE
        few = xy if self.flier else xy[:6]
        self.along, self.values = few[:, 0].tolist(), few[:, 1].tolist()

    def ends(self, swapped: bool) -> tuple[list, list]:
        """Places along the axis of the names, and values."""
        return (self.values, self.along) if swapped else (self.along, self.values)


def find_boxes(lines: list[Segment], patches: list, swapped: bool) -> list[tuple[float, dict]]:
    outlines = [line.ends(swapped) for line in lines if line.count == 5 and not line.flier]
    for patch in patches:
        vertices = patch.get_path().vertices
        if 5 <= len(vertices) <= 6:
            xs, ys = vertices[:5, 0].tolist(), vertices[:5, 1].tolist()
            outlines.append((ys, xs) if swapped else (xs, ys))
    stems = [line.ends(swapped) for line in lines if line.count == 2 and not line.flier]
    fliers = [line.ends(swapped) for line in lines if line.flier]
    found = []
    for places, values in outlines:
        if len(set(places)) != 2 or len(set(values)) != 2:
            continue
        low, high = min(values), max(values)
        left, right = min(places), max(places)
        centre = (left + right) / 2
        near = (right - left) * 1e-6
        whiskers = [ends for where, ends in stems if abs(where[0] - centre) <= near and abs(where[1] - centre) <= near]
        middles = [ends[0] for where, ends in stems  # as long as the box is wide; the caps are shorter
                   if ends[0] == ends[1] and low <= ends[0] <= high and abs(min(where) - left) <= near]
        if len(whiskers) < 2 or not middles:
            continue
        reach = [value for ends in whiskers for value in ends]
        outliers = [value for where, ends in fliers for place, value in zip(where, ends) if abs(place - centre) <= near]
        found.append((centre, {"min": number_of(min(reach)), "first_quartile": number_of(low),
                               "median": number_of(middles[0]), "third_quartile": number_of(high),
                               "max": number_of(max(reach)),
                               "outliers": [number_of(value) for value in outliers[:MOST_POINTS]]}))
    return sorted(found, key=lambda box: box[0])
