"""Charts as SVG: no script and no style of their own, and a text for those who do not see them.

Colours are classes of the style sheet: ``s0`` to ``s5``, beside ``chart``, ``grid``, ``line``, ``spark``. All texts are
escaped here, so that templates take the result as it is.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from math import floor, log10
from typing import Any

from markupsafe import Markup

from beanpole.console.history import Key, Series, SpanName
from beanpole.console.screens.screen import View
from beanpole.console.servers import Seen

WIDTH, HEIGHT = 640, 180  # of a chart, in units that the page stretches
LEFT, RIGHT, TOP, BOTTOM = 48, 8, 8, 20  # around the lines: the texts of the axes

POINTS_MAX, ALL_POINTS_MAX = 120, 480
"""Points of a line, and of all lines of a chart: of more, the highest of each few is drawn. It stays below 8 kB."""

TICKS_MAX = 8  # texts below a chart: they must not touch

SPARK_WIDTH, SPARK_HEIGHT, SPARK_POINTS_MAX = 90, 20, 45

Value = float | None


def text_of(value: float) -> str:
    """A number on an axis or in a text: short."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit * 0.9995:  # which three digits would round up to it
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def ceiling(value: float) -> float:
    """The next number that is 1, 2, 2.5, 5 or 10 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if value <= step * power * (1 + 1e-9))


def fewer(points: Sequence[tuple[float, Value]], most: int) -> list[tuple[float, Value]]:
    """The highest of each few points; a gap stays one where nothing is known."""
    each = -(-len(points) // most)
    if each <= 1:
        return list(points)
    found: list[tuple[float, Value]] = []
    for start in range(0, len(points), each):
        some = points[start : start + each]
        known = [value for _, value in some if value is not None]
        found.append((some[-1][0], max(known) if known else None))
    return found


def path_of(places: Sequence[tuple[float, Value]]) -> str:
    """The `d` of a path through points; one that stands alone is a dot."""
    parts: list[str] = []
    for is_known, run in groupby(places, lambda place: place[1] is not None):
        if is_known:
            run_places = [f"{x:.4g} {y:.4g}" for x, y in run]
            parts.append("M" + "L".join(run_places) + ("h.1" if len(run_places) == 1 else ""))
    return "".join(parts)


def line(
    series: Sequence[Series],
    labels: Sequence[str],
    unit: str = "",
    title: str = "",
    colors: Sequence[str] = (),
) -> Markup:
    """A chart of some series over their common time. `colors`: the classes of the lines, in place of s0, s1, s2."""
    names = colors or [f"s{number}" for number in range(len(series))]
    drawn = [fewer(each.points, min(POINTS_MAX, ALL_POINTS_MAX // len(series))) for each in series]
    times = [at_s for points in drawn for at_s, _ in points]
    known = [value for points in drawn for _, value in points if value is not None]
    label = Markup('<figure class="chart-box"><figcaption>{}{}</figcaption>').format(
        title, legend(labels, names) if len(labels) > 1 else ""
    )
    if not known or max(times) == min(times):
        return label + Markup('<p class="grey">Nothing is known yet.</p></figure>')
    first, last, top = min(times), max(times), ceiling(max(known))
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(at_s: float) -> float:
        return LEFT + wide * (at_s - first) / (last - first)

    def y(value: float) -> float:
        return TOP + high * (1 - value / top)

    lines = Markup().join(
        Markup('<path class="line {}" fill="none" d="{}"/>').format(
            name, path_of([(x(at_s), None if value is None else y(value)) for at_s, value in points])
        )
        for name, points in zip(names, drawn, strict=True)
    )
    return label + Markup(
        '<svg class="chart" role="img" viewBox="0 0 {} {}"><title>{}</title><desc>{}</desc>{}{}{}</svg></figure>'
    ).format(WIDTH, HEIGHT, title, description(drawn, labels, unit), grid(top, unit, y), ticks(first, last, x), lines)


def legend(labels: Sequence[str], names: Sequence[str]) -> Markup:
    return Markup('<span class="legend">{}</span>').format(
        Markup().join(
            Markup(
                '<span class="key"><svg width="14" height="8" aria-hidden="true" class="chart-key">'
                '<path class="line {}" stroke-width="2" d="M0 4H14"/></svg>{}</span>'
            ).format(name, label)
            for label, name in zip(labels, names, strict=True)
        )
    )


def description(drawn: Sequence[Sequence[tuple[float, Value]]], labels: Sequence[str], unit: str) -> str:
    said = []
    for label, points in zip(labels, drawn, strict=True):
        known = [value for _, value in points if value is not None]
        if not known:
            said.append(f"{label}: not known")
        else:
            now, most = text_of(known[-1]), text_of(max(known))
            said.append(f"{label}: {now}{unit} at the end, {most}{unit} at the most")
    return "; ".join(said) + "."


def grid(top: float, unit: str, y: Callable[[float], float]) -> Markup:
    parts = Markup()
    for share in (0, 0.5, 1):
        at = y(top * share)
        parts += Markup(
            '<path class="grid" d="M{} {:.4g}H{}"/><text x="{}" y="{:.4g}" text-anchor="end">{}</text>'
        ).format(LEFT, at, WIDTH - RIGHT, LEFT - 4, at + 4, text_of(top * share) + (unit if share else ""))
    return parts


STEPS_S = (1, 5, 15, 60, 120, 300, 600, 1800, 3600, 7200)  # between the times below a chart


def ticks(first: float, last: float, x: Callable[[float], float]) -> Markup:
    """Times below the chart, in UTC."""
    step = next((each for each in STEPS_S if (last - first) / each <= TICKS_MAX), STEPS_S[-1])
    parts = Markup()
    at_s = -(-first // step) * step
    while at_s <= last:
        text = datetime.fromtimestamp(at_s, UTC).strftime("%H:%M" if step >= 60 else "%H:%M:%S")
        parts += Markup('<text x="{:.4g}" y="{}" text-anchor="middle" data-at="{:.0f}">{}</text>').format(
            min(x(at_s), WIDTH - 20), HEIGHT - 4, at_s, text
        )
        at_s += step
    return parts


def spark(values: Sequence[Value], title: str = "", top: float = 0) -> Markup:
    """A small line without axes. `top`: what is at its upper edge; 0: the highest value."""
    places = fewer([(float(number), value) for number, value in enumerate(values)], SPARK_POINTS_MAX)
    known = [value for _, value in places if value is not None]
    top = top or max(known, default=0) or 1
    wide = (SPARK_WIDTH - 2) / max(len(values) - 1, 1)
    path = path_of(
        [
            (round(1 + number * wide), None if value is None else round(1 + (SPARK_HEIGHT - 2) * (1 - value / top)))
            for number, value in places
        ]
    )
    return Markup(
        '<svg class="spark" role="img" width="{}" height="{}" viewBox="0 0 {} {}"><title>{}</title>'
        '<path class="line" fill="none" d="{}"/></svg>'
    ).format(SPARK_WIDTH, SPARK_HEIGHT, SPARK_WIDTH, SPARK_HEIGHT, title, path)


# --- Of servers and tubes ---------------------------------------------------------------------------------------------

LINES_MAX = 6  # servers that have lines of their own in a chart: there are so many colours

STATES: tuple[Key, ...] = ("ready", "reserved", "delayed", "buried")

RATES: tuple[Key, ...] = ("put/s", "reserved/s", "deleted/s", "failed/s")

SPANS: tuple[tuple[SpanName, str], ...] = (("15m", "15 minutes"), ("6h", "6 hours"))


def span_of(view: View) -> SpanName:
    return "6h" if view.query.get("span") == "6h" else "15m"


def charts_of(seen: Seen, span: SpanName, tube: str | None = None) -> list[Markup]:
    history = seen.server.history

    def of(*keys: Key) -> list[Any]:
        return [history.series(key, tube, span) for key in keys]

    return [
        line(of(*STATES), STATES, "", "Jobs", colors=("s0", "s4", "s2", "s3")),
        line(
            of(*RATES), ("put", "reserved", "deleted", "failed"), "", "Jobs a second", colors=("s0", "s4", "s1", "s3")
        ),
        line(of("oldest_ready"), ("oldest",), " s", "Oldest ready job, seconds", colors=("s2",)),
        line(
            of("ready_p99", "held_p99"),
            ("ready", "held"),
            " s",
            "99 % of jobs, seconds",
            colors=("s0", "s4"),
        ),
    ]


def charts_of_several(seens: Sequence[Seen], span: SpanName) -> list[Markup]:
    shown = seens[:LINES_MAX]
    names = [seen.server.name for seen in shown]
    wanted: tuple[tuple[Key, str, str], ...] = (
        ("ready", "", "Ready jobs"),
        ("deleted/s", "", "Jobs deleted a second"),
        ("failed/s", "", "Jobs failed a second"),
        ("oldest_ready", " s", "Oldest ready job, seconds"),
    )
    return [
        line([seen.server.history.series(key, None, span) for seen in shown], names, unit, title)
        for key, unit, title in wanted
    ]
