"""Actions: the forms that ask what is wanted, dry runs, and runs that go on or are over."""

import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from beanpole.console import limits
from beanpole.console.actions.action import (
    VERBS,
    Action,
    Fields,
    Filter,
    Group,
    Ids,
    Named,
    Pattern,
    RefusedError,
    Target,
    Tube,
    confirmation,
    fields_of,
    given_nothing,
    only_value,
    read_action,
    target_of,
)
from beanpole.console.actions.dry import DryRun, DryRuns, dry_run
from beanpole.console.actions.runs import Run, Runs, start, undo
from beanpole.console.answers import HEADERS
from beanpole.console.reading.bodies import preview
from beanpole.console.reading.jobs import one_job
from beanpole.console.screens import render
from beanpole.console.screens.links import job_url, named_url, of_server, tube_url, url
from beanpole.console.screens.screen import Screen, View
from beanpole.console.security.guard import form
from beanpole.console.servers import Server
from beanpole.errors import ArgumentError, NotFoundError
from beanpole.operations.table import Operation
from beanpole.protocol.rules import RULES
from beanpole.schedules.document import LINES

# --- What a form asks for, verb by verb -------------------------------------------------------------------------------

KNOWN_RULES = [(f"{name}: {rule.form}", rule.effect) for name, rule in RULES.items()]
"""The rules that there are, and what each does."""

KNOWN = {
    "set-rules": KNOWN_RULES,
    "set-schedule": [(f"{name}: {row.form}", row.effect) for name, row in LINES.items()],
}
"""What can stand in the lines that a verb sets."""

MAKES = frozenset({"put", *KNOWN})
"""What makes something that need not be there: its form asks where."""

EXAMPLE = "cron: 30 2 * * *\nzone: Europe/Berlin\ntube: default\n"
"""The lines with which the form of a schedule that is not there begins."""


@dataclass(frozen=True, slots=True)
class Input:
    """A field of a form."""

    name: str
    label: str
    kind: str = "number"  # number, seconds, text, tube, area, choice, states, tick
    hint: str = ""
    value: str = ""  # what stands in it in the beginning
    choices: tuple[tuple[str, str], ...] = ()
    is_wanted: bool = False


def inputs_of(verb: Operation) -> Iterator[Input]:
    """The fields of a form, in the order of the options; empty: it asks for nothing."""
    if verb.name == "put":
        yield Input("tube", "Tube", "tube", is_wanted=True)
    if verb.name == "set-rules":
        hint = "a name, the beginning of names with * behind it, or *"
        yield Input("pattern", "Tubes", "text", hint, is_wanted=True)
    if verb.name == "set-schedule":
        yield Input("schedule", "Name", "text", "as of a tube", is_wanted=True)
    for each in verb.options:
        if verb.name == "change" and each.kind == "body":
            yield Input("with_body", "Replace the body by this one", "tick")
        if each.label:
            value = "" if each.value is None or (each.name == "delay" and each.is_required) else str(each.value)
            choices = tuple((word if place else "", text) for place, (word, text) in enumerate(each.choices))
            name = "state" if each.kind == "states" else each.name
            kind = KINDS.get(each.kind, each.kind)
            yield Input(name, each.label, kind, each.hint, value, choices, each.is_required)


KINDS = {"priority": "number", "ttr": "number", "body": "area", "rules": "area"}
"""Kinds of options that are fields of another kind."""

INPUTS: dict[str, tuple[Input, ...]] = {
    name: inputs for name, verb in VERBS.items() if name != "bury" and (inputs := tuple(inputs_of(verb)))
}
"""By verb; others ask for nothing. A priority for buried jobs is for the API."""

FILLED = "filled"
"""The field of a form that was filled in: without it, an action that asks for something shows its form first."""


# --- What stands around an action -------------------------------------------------------------------------------------

FIELDS = {"state": "states"}  # fields of forms that are called otherwise in `Given`
ELSEWHERE = {"tube", "pattern", "rules", "schedule", "lines", "with_body"}  # fields that the page shows in another way


def given_with(action: Action) -> list[tuple[str, str]]:
    """What is given with an action: labels and texts."""
    found = []
    for field in INPUTS.get(action.verb, ()):
        value = None if field.name in ELSEWHERE else action.given.get(FIELDS.get(field.name, field.name))
        if value is not None:
            found.append((field.label, text_of(field, value)))
    return found


def text_of(field: Input, value: object) -> str:
    if isinstance(value, bytes):
        return preview(value) + "…" * (len(value) > limits.BODY_SHOWN_BYTES) if value else "empty"
    if isinstance(value, tuple):
        return ", ".join(value)
    if field.choices:
        return dict(field.choices).get(str(value), str(value))
    if field.kind == "moment" and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).isoformat(" ")
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
        case Tube(name=name) | Named(name=name):
            kind = "tube" if isinstance(target, Tube) else "schedule"
            return f"To the {kind}", named_url(view, server, kind, name)
    return ("To the tube", tube_url(view, server, tube)) if tube else ("To the tubes", url(view, "/tubes", server=kept))


SOON_S = 0.3  # seconds that the page of a run waits for its end: most need no more
MARK = "mark"  # the field of a dry run that is another one each time that it is shown

MARK_CHARS = 64

BODY_BYTES = 65_536  # bytes of a body that can be changed in a form


# --- Runs -------------------------------------------------------------------------------------------------------------


async def show_runs(view: View) -> dict[str, Any]:
    names = {each.name for each in view.servers}
    return {"verbs": VERBS, "runs": [each for each in view.console.kept(Runs).recent() if each.action.server in names]}


async def show_run(view: View) -> dict[str, Any]:
    run = run_of(view)
    back = way_back(view, run.action.server, run.action.target)
    return {"run": run, "verb": VERBS[run.action.verb], "given": given_with(run.action), "back": back}


def run_of(view: View) -> Run:
    run = view.console.kept(Runs).get(view.request.path_params["id"])
    if run is None:
        raise HTTPException(404, "There is no such action, or it was long ago, or before the console started.")
    return run


async def stop_run(view: View) -> Response:
    """Stops it behind the piece that is under way."""
    run = run_of(view)
    run.stop(view.visitor.name)
    return await to_run(run)


async def undo_run(view: View) -> Response:
    return await to_run(await undo(view.console, run_of(view), view.visitor))


async def to_run(run: Run) -> Response:
    """Leads to the page of a run, after a moment in which most are over."""
    await run.wait(SOON_S)
    return RedirectResponse(f"/actions/{run.id}", 303, HEADERS)


# --- Before -----------------------------------------------------------------------------------------------------------


async def show_put(view: View) -> dict[str, Any]:
    """The form of a put; what it begins with may stand in the address."""
    given = {name: view.request.query_params.getlist(name) for name in view.query}
    return asking(view, {**given, "verb": ["put"], "server": [view.server.name]})


def asking(view: View, fields: Fields, error: str = "", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - for a template
    """What the form of a verb shows; `fields` are what is filled in already."""
    verb = VERBS[only_value(fields, "verb")]
    inputs = INPUTS.get(verb.name, ())
    body_stays = verb.name == "set-schedule" and "lines" in fields and "body" not in fields
    if body_stays:
        inputs = tuple(each for each in inputs if each.name != "body")
    asked = {each.name for each in inputs} | {FILLED}
    target, server = place_of(verb, fields), only_value(fields, "server")
    back = way_back(view, server, target, only_value(fields, "tube"))
    if verb.about == "schedule" and target is None:
        back = "To the schedules", url(view, "/schedules", server=of_server(view, server))
    return {
        "verb": verb,
        "inputs": inputs,
        "filled": {name: list(values) for name, values in fields.items()},
        "kept": [(name, value) for name, values in fields.items() if name not in asked for value in values],
        "choices": [(name, name) for name in view.console.servers],
        "error": error,
        "known": KNOWN,
        "makes": MAKES,
        "body_stays": body_stays,
        "about": "",
        "back": back,
        **more,
    }


def place_of(verb: Operation, fields: Fields) -> Target | None:
    """What a form is about; None: that is not known yet, or not to be understood."""
    if only_value(fields, "scope"):
        fields = {**fields, "scope": ["all"]}  # the list in which some are chosen, or none
    try:
        return target_of(verb, fields)
    except RefusedError:
        return None


async def asked_for(view: View, fields: Fields) -> Response:
    """The form of an action, filled in with what is there."""
    verb, more = only_value(fields, "verb"), dict(fields)
    server = view.console.server(only_value(fields, "server"))
    about = ""
    if verb == "set-rules" and "rules" not in fields:
        client = await server.client()
        pattern = only_value(fields, "pattern")
        if "list-rules" in await client.features():
            more["rules"] = [each.text for each in await client.list_rules() if each.pattern == pattern]
    elif verb == "set-schedule":
        more |= await of_schedule(server, only_value(fields, "schedule"))
    elif verb not in MAKES:
        target = target_of(VERBS[verb], fields)
        about = str(target)
        if verb == "change" and isinstance(target, Ids) and len(target.ids) == 1:
            more |= await of_job(view, server.name, target.ids[0])
    return render.page(view, FORM, asking(view, more, about=about))


async def of_job(view: View, server: str, id: int) -> dict[str, list[str]]:
    """What the form of a change begins with: the body of the job, if it is text and not too long."""
    try:
        job = await one_job(view.console.server(server), id, BODY_BYTES)
    except NotFoundError:
        raise RefusedError(f"there is no job {id}") from None
    if job.size is None or len(job.body) < job.size:  # it is too long, or bodies are hidden
        return {}
    try:
        return {"body": [job.body.decode()]}
    except UnicodeDecodeError:
        return {}


async def of_schedule(server: Server, name: str) -> dict[str, list[str]]:
    """What the form of a schedule begins with: the body of its jobs only if a form brings it back as it is."""
    try:
        header, _, body = (await (await server.client()).schedule(name)).document.partition(b"\n\n")
    except (NotFoundError, ArgumentError):
        return {"lines": [EXAMPLE], "body": [""]}
    try:
        found = {"lines": [header.decode()]}
    except UnicodeDecodeError:
        raise RefusedError(f"the lines of {name} are no text: set it with `beanpole schedule set`") from None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return found
    if server.hide_bodies or "\r" in text or "\0" in text:
        return found
    return found | {"body": [text]}


async def look(view: View) -> Response:
    """The dry run of an action, or the form that it needs first."""
    fields = await form(view.request)
    if only_value(fields, "verb") in INPUTS and FILLED not in fields and given_nothing(fields):
        return await asked_for(view, fields)
    try:
        made = await dry_run(view.console, read_action(fields))
    except RefusedError as error:
        return refused(view, fields, error)
    return dry(view, made)


def dry(view: View, made: DryRun, error: str = "") -> Response:
    kept = [*fields_of(made.action, made.highest), (MARK, secrets.token_hex(8))]
    shown = {"made": made, "verb": VERBS[made.action.verb], "kept": kept, "error": error}
    tube = made.sample[0].tube if made.sample else ""
    shown["back"] = way_back(view, made.action.server, made.action.target, tube)
    shown["given"] = given_with(made.action)
    return render.page(view, DRY_RUN, shown, 409 if error else 200)


async def begin(view: View) -> Response:
    """Begins an action whose dry run was confirmed; a second time it leads to what was begun.

    What comes from no dry run is shown one first.
    """
    fields = await form(view.request)
    try:
        action, mark = read_action(fields), only_value(fields, MARK)[:MARK_CHARS]
        highest, typed = confirmation(fields)
    except RefusedError as error:
        return refused(view, fields, error)
    try:
        if not mark:
            return dry(view, await dry_run(view.console, action))
        run = await view.console.kept(Runs).once(
            mark, lambda: start(view.console, action, highest=highest, typed=typed, visitor=view.visitor)
        )
    except RefusedError as error:
        made = view.console.kept(DryRuns).of(action, highest)
        return dry(view, made, str(error)) if made else refused(view, fields, error)
    return await to_run(run)


def refused(view: View, fields: Fields, error: RefusedError) -> Response:
    if only_value(fields, "verb") not in VERBS:
        raise HTTPException(400, str(error))
    return render.page(view, FORM, asking(view, {**fields, FILLED: ["1"]}, str(error)), 409)


# --- What leads here --------------------------------------------------------------------------------------------------

RUNS = Screen("/actions", "runs.html", show_runs, live=("runs",), title="Actions", key="a")
RUN = Screen("/actions/{id:int}", "run.html", show_run, live=("progress",))
PUT = Screen("/put", "action_form.html", show_put)
FORM = Screen("/actions/dry-run", "action_form.html", show_put)
DRY_RUN = Screen("/actions/dry-run", "dry_run.html", show_put)


def answered(do: Callable[[View], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """What answers a form. The guard has looked at who sends it."""

    async def answer(request: Request) -> Response:
        try:
            return await do(View.of(request))
        except RefusedError as error:
            raise HTTPException(409, sentence(str(error))) from None

    return answer


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))


ROUTES = (
    Route("/actions/dry-run", answered(look), methods=["POST"]),
    Route("/actions", answered(begin), methods=["POST"]),
    Route("/actions/{id:int}/stop", answered(stop_run), methods=["POST"]),
    Route("/actions/{id:int}/undo", answered(undo_run), methods=["POST"]),
)
