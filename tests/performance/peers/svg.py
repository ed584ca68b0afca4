"""Horizontal bars on a logarithmic axis, as an SVG that can be read on light and on dark pages."""
from __future__ import annotations

import dataclasses
import math
import textwrap
from xml.sax.saxutils import escape

from markdown import number

WIDTH, LEFT, RIGHT, TOP, ROW, BAR, BOTTOM = 760, 170, 90, 58, 26, 16, 44
NOTE_LINE, NOTE_LETTERS = 15, 115  # the height of a line of a note, and how much there is room for

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.axis { font-size: 11px; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.bar { fill: #8c959f }
.own { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .axis { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .bar { fill: #768390 }
  .own { fill: #4493f8 }
}
"""


@dataclasses.dataclass(frozen=True)
class Bar:
    label: str
    value: float | None

    @property
    def drawn(self) -> bool:
        return self.value is not None and self.value > 0

    @property
    def own(self) -> bool:
        return self.label.startswith("hutch")


def decades(values: list[float]) -> tuple[int, int]:
    """Powers of ten around all values; at least one apart."""
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def position(value: float, low: int, high: int) -> float:
    return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def text(x: float, y: float, content: str, more: str = "") -> str:
    return '<text x="%.1f" y="%.1f"%s>%s</text>' % (x, y, more, escape(content))


def axis(low: int, high: int, bottom: float, unit: str, better: str) -> list[str]:
    lines = []
    for power in range(low, high + 1):
        x = position(10.0**power, low, high)
        lines.append('<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%.1f"/>' % (x, TOP - 8, x, bottom))
        label = "{:,}".format(10**power) if power >= 0 else "%g" % 10.0**power
        lines.append(text(x, bottom + 15, label, ' class="axis" text-anchor="middle"'))
    lines.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 32, "%s, logarithmic; %s is better" % (unit, better),
                      ' class="axis" text-anchor="middle"'))
    return lines


def note(names: list[str]) -> list[str]:
    """Who is not in the picture."""
    return textwrap.wrap("Not drawn, without a figure: %s" % ", ".join(names), NOTE_LETTERS) if names else []


def chart(title: str, unit: str, bars: list[Bar], better: str = "shorter") -> str:
    """The best on top; a value that is missing or not above zero has no place on the axis and is named below it."""
    absent = note([bar.label for bar in bars if not bar.drawn])
    bars = sorted((bar for bar in bars if bar.drawn), key=lambda bar: bar.value or 0.0, reverse=better == "longer")
    if not bars:
        raise ValueError("nothing to draw")
    low, high = decades([bar.value for bar in bars])
    bottom = TOP + ROW * len(bars)
    height = bottom + BOTTOM + NOTE_LINE * len(absent)
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">'
             % (WIDTH, height, WIDTH, height),
             "<title>%s</title>" % escape(title), "<style>%s</style>" % STYLE,
             text(12, 28, title, ' class="title"'), *axis(low, high, bottom, unit, better)]
    for index, bar in enumerate(bars):
        top = TOP + ROW * index
        end = max(position(bar.value, low, high), LEFT + 2.0)
        lines.append(text(LEFT - 10, top + 13, bar.label, ' text-anchor="end"'))
        lines.append('<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>'
                     % ("own" if bar.own else "bar", LEFT, top, end - LEFT, BAR))
        lines.append(text(end + 6, top + 13, number(bar.value)))
    for index, line in enumerate(absent):
        lines.append(text(12, bottom + BOTTOM + NOTE_LINE * index + 4, line, ' class="axis"'))
    return "\n".join([*lines, "</svg>\n"])


# Which figure of a table is drawn, its unit, and which bars are better.
TIME = ("p50", "ms", "shorter")
FIGURES = {"print": TIME, "pandas": TIME, "plot": TIME, "cell": TIME, "at_once": ("each", "ms for each", "shorter"),
           "sustained": ("per_second", "starts a second", "longer"), "memory": ("mb", "MB", "shorter")}


def charts(results: dict) -> dict[str, str]:
    """A picture for every table that has figures, by the name of the workload."""
    drawn = {}
    absent = [Bar(peer["name"], None) for peer in results["peers"] if peer["missing"]]
    for key, (figure, unit, better) in FIGURES.items():
        if part := results["workloads"].get(key):
            bars = [Bar(row["peer"], row.get(figure)) for row in part["rows"]]
            if any(bar.drawn for bar in bars):
                drawn[key] = chart(part["title"], unit, bars + absent, better)
    return drawn
