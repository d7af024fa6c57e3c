"""Templates become pages.

Everything is escaped by Jinja2: what a template gets are texts, never markup, but for charts, which `charts` writes.
What is no character, as half of a surrogate pair, is sent as a question mark. Macros of `parts.html` are there in every
template as ``ui.…``, also in a block that is rendered alone.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse, Response

from beanpole.console.answers import HEADERS
from beanpole.console.screens import charts, links, static, words
from beanpole.console.screens.screen import Screen, View
from beanpole.console.security.visitors import READ_ONLY


@cache
def environment() -> Environment:
    """The templates. They are compiled at their first use."""
    made = Environment(
        loader=PackageLoader("beanpole.console.screens"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= words.FILTERS
    made.globals |= {
        "charts": charts,
        "url": links.url,
        "export_url": links.export_url,
        "here": links.here,
        "static": static.address,
        "section": links.section,
        "of_server": links.of_server,
        "tube_url": links.tube_url,
        "job_url": links.job_url,
        "read_only": READ_ONLY,
    }
    made.globals["ui"] = made.get_template("parts.html").module
    return made


def page(view: View, screen: Screen, shown: dict[str, Any], status: int = 200) -> Response:
    """A whole page."""
    text = environment().get_template(screen.template).render(everything(view, screen, shown))
    return HTMLResponse(text.encode("utf-8", "replace"), status, HEADERS)


def blocks(view: View, screen: Screen, shown: dict[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Some blocks of it, by name."""
    template = environment().get_template(screen.template)
    context = template.new_context(everything(view, screen, shown))
    return {name: "".join(template.blocks[name](context)) for name in names}


def everything(view: View, screen: Screen, shown: dict[str, Any]) -> dict[str, Any]:
    """What a template can use: its own, and what each has."""
    screens = view.request.app.state.screens
    return {"view": view, "screen": screen, "screens": screens, "visitor": view.visitor, **shown}
