"""Draws bar charts and boxes as SVG: no library, no script, and the same bytes for the same figures.

A picture is 640 units wide and has letters of 22: on a telephone of 390 pixels they are 12 pixels high. It brings its
own background and follows the theme of the reader's system, so it can be read wherever a page is shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import log

WIDTH = 640
MARGIN = 20
BAR = 30
"""Height of a bar with the space below it."""
NAME_WIDTH = 150
"""The names of the bars stand left of them in this width."""
VALUE_WIDTH = 120
"""The widest value, which stands right of its bar."""
LETTERS = 22
BARE_BAR = 3
"""Width of a bar for a value that is too small to be seen."""

STYLE = """
text { font: 22px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 700; font-size: 26px }
.strong { font-weight: 600 }
.quiet { fill: #59636e; font-size: 20px }
.middle { text-anchor: middle }
.end { text-anchor: end }
.page { fill: #ffffff; stroke: #d1d9e0 }
.ours { fill: #2e7d32 }
.theirs { fill: #8c959f }
.against { fill: #bf8700 }
.box { fill: #eef6ee; stroke: #2e7d32; stroke-width: 2 }
.frame { fill: none; stroke: #2e7d32; stroke-width: 2; stroke-dasharray: 6 5 }
.line { fill: none; stroke: #59636e; stroke-width: 2.5 }
.head { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ef }
.quiet { fill: #a8b0bd }
.page { fill: #1e2129; stroke: #3d444d }
.ours { fill: #66bb6a }
.theirs { fill: #848d97 }
.against { fill: #d4a72c }
.box { fill: #23302a; stroke: #66bb6a }
.frame { stroke: #66bb6a }
.line { stroke: #a8b0bd }
.head { fill: #a8b0bd }
}
"""


@dataclass(frozen=True)
class Bar:
    """One bar: whose it is, how long, and what is written behind it."""

    kind: str
    """Its class: `ours`, `theirs` or `against`."""
    name: str
    value: float
    text: str


@dataclass(frozen=True)
class Group:
    """Bars that are compared with each other, below a line that says what they are about."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Chart:
    """A title, one or two lines below it, and groups of bars."""

    title: str
    lines: tuple[str, ...]
    groups: tuple[Group, ...]
    logarithmic: bool = False
    """Bars begin at 1 and grow with the logarithm."""


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return a text; `y` is its base line."""
    return f'<text class="{kind or "plain"}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a rectangle with round corners."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'


def picture(height: float, title: str, parts: Iterable[str]) -> str:
    """Return a whole file: the parts on a page of that height."""
    page = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
    return (
        "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", page, *parts, "</svg>"]) + "\n"
    )


def share(bar: Bar, longest: float, *, logarithmic: bool) -> float:
    """Return how much of the width a bar takes."""
    if logarithmic:
        return log(max(bar.value, 1.0)) / log(longest)
    return bar.value / longest


def bars(group: Group, y: float, longest: float, *, logarithmic: bool) -> list[str]:
    """Return the bars of a group, one below the other from `y` on."""
    room = WIDTH - 2 * MARGIN - NAME_WIDTH - VALUE_WIDTH
    parts = []
    for bar in group.bars:
        length = max(BARE_BAR, room * share(bar, longest, logarithmic=logarithmic))
        left = MARGIN + NAME_WIDTH
        parts.append(text(MARGIN, y + LETTERS - 3, bar.name))
        parts.append(rectangle(left, y, length, BAR - 6, bar.kind))
        parts.append(text(left + length + 10, y + LETTERS - 3, bar.text, "strong" if bar.kind == "ours" else ""))
        y += BAR
    return parts


def draw(chart: Chart) -> str:
    """Return the file of a chart. Each group has its own scale, but with logarithms: then all have one."""
    y = MARGIN + 26.0
    parts = [text(MARGIN, y, chart.title, "title")]
    for line in chart.lines:
        y += 28
        parts.append(text(MARGIN, y, line, "quiet"))
    over_all = max(bar.value for group in chart.groups for bar in group.bars)
    for group in chart.groups:
        y += 44
        parts.append(text(MARGIN, y, group.label, "strong"))
        y += 12
        longest = over_all if chart.logarithmic else max(bar.value for bar in group.bars)
        parts += bars(group, y, longest, logarithmic=chart.logarithmic)
        y += BAR * len(group.bars)
    return picture(y + MARGIN, chart.title, parts)


def arrow(points: Sequence[tuple[float, float]]) -> str:
    """Return a line through the points, with a head at its end; the last piece is horizontal or vertical."""
    (before_x, before_y), (x, y) = points[-2:]
    dx, dy = (x > before_x) - (x < before_x), (y > before_y) - (y < before_y)
    way = " ".join(f"{px:g},{py:g}" for px, py in points)
    wings = [(x, y), (x - 12 * dx - 6 * dy, y - 12 * dy - 6 * dx), (x - 12 * dx + 6 * dy, y - 12 * dy + 6 * dx)]
    head = " ".join(f"{px:g},{py:g}" for px, py in wings)
    return f'<polyline class="line" points="{way}"/><polygon class="head" points="{head}"/>'
