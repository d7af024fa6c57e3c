"""The charts of servers and of tubes: what each draws, and how far back."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from beanpole.console.live.history import Key, SpanName
from beanpole.console.live.seen import Seen
from beanpole.console.screens import charts
from beanpole.console.screens.screen import View

LINES_MAX = 6
"""Servers that have lines of their own in a chart: there are so many colours."""

STATES: tuple[Key, ...] = ("ready", "reserved", "delayed", "buried")

RATES: tuple[Key, ...] = ("put/s", "reserved/s", "deleted/s", "failed/s")

SPANS: tuple[tuple[SpanName, str], ...] = (("15m", "15 minutes"), ("6h", "6 hours"))


def span_of(view: View) -> SpanName:
    """For how long charts look back: ``?span=``."""
    return "6h" if view.query.get("span") == "6h" else "15m"


def one(seen: Seen, span: SpanName, tube: str | None = None) -> list[Markup]:
    """The charts of a server, or of one tube."""
    history = seen.server.history

    def of(*keys: Key) -> list[Any]:
        return [history.series(key, tube, span) for key in keys]

    return [
        charts.line(of(*STATES), STATES, "", "Jobs", colors=("s0", "s4", "s2", "s3")),
        charts.line(
            of(*RATES), ("put", "reserved", "deleted", "failed"), "", "Jobs a second", colors=("s0", "s4", "s1", "s3")
        ),
        charts.line(of("oldest_ready"), ("oldest",), " s", "Oldest ready job, seconds", colors=("s2",)),
        charts.line(of("ready_p99"), ("99 % waited",), " s", "99 % of jobs were ready for, seconds", colors=("s5",)),
    ]


def several(seens: Sequence[Seen], span: SpanName) -> list[Markup]:
    """The charts of several servers, each a line."""
    shown = seens[:LINES_MAX]
    names = [seen.server.name for seen in shown]
    wanted: tuple[tuple[Key, str, str], ...] = (
        ("ready", "", "Ready jobs"),
        ("deleted/s", "", "Jobs deleted a second"),
        ("failed/s", "", "Jobs failed a second"),
        ("oldest_ready", " s", "Oldest ready job, seconds"),
    )
    return [
        charts.line([seen.server.history.series(key, None, span) for seen in shown], names, unit, title)
        for key, unit, title in wanted
    ]
