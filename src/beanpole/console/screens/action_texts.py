"""What stands around an action on its pages: what is given with it, and the way back to what it is about."""

from beanpole.console import limits
from beanpole.console.actions.action import Action, Filter, Group, Ids, Pattern, Target, Tube
from beanpole.console.reading.bodies import preview
from beanpole.console.screens.inputs import INPUTS, Input
from beanpole.console.screens.links import job_url, of_server, tube_url, url
from beanpole.console.screens.screen import View

FIELDS = {"state": "states"}
"""Fields of forms that are called otherwise in `Given`."""

ELSEWHERE = {"tube", "pattern", "rules", "with_body"}
"""Fields that the page shows in another way."""


def given_with(action: Action) -> list[tuple[str, str]]:
    """What is given with an action: labels and texts."""
    found = []
    for field in INPUTS.get(action.verb, ()):
        value = None if field.name in ELSEWHERE else action.given.get(FIELDS.get(field.name, field.name))
        if value is not None:
            found.append((field.label, text_of(field, value)))
    return found


def text_of(field: Input, value: object) -> str:
    """The value of a field, as people read it."""
    if isinstance(value, bytes):
        return preview(value) + "…" * (len(value) > limits.BODY_SHOWN_BYTES) if value else "empty"
    if isinstance(value, tuple):
        return ", ".join(value)
    if field.choices:
        return dict(field.choices).get(str(value), str(value))
    return f"{value:g} s" if isinstance(value, int | float) and "seconds" in field.hint else str(value)


def way_back(view: View, server: str, target: Target | None, tube: str = "") -> tuple[str, str]:
    """Where one looks at what an action is about: a text and an address; `tube` is that of chosen jobs, if known."""
    kept = of_server(view, server)
    match target:
        case Ids(ids=(id,)):
            return "To the job", job_url(view, server, id)
        case Filter():
            return "To the jobs", url(
                view, "/jobs", server=kept, tube=target.tube, state=target.state, text=target.text
            )
        case Group():
            return "To the failures", url(view, "/failures", server=kept, tube=target.tube)
        case Pattern():
            return "To the rules", url(view, "/rules", server=kept)
        case Tube(name=name):
            return "To the tube", tube_url(view, server, name)
    return ("To the tube", tube_url(view, server, tube)) if tube else ("To the tubes", url(view, "/tubes", server=kept))
