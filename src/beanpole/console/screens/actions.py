"""Actions: the forms that ask what is wanted, dry runs, and runs that go on or are over."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from beanpole.console.actions.action import VERBS, Ids, RefusedError, Target
from beanpole.console.actions.dry import DryRun, DryRuns, dry_run
from beanpole.console.actions.reading import Fields, confirmation, fields_of, given_nothing, one, read, target_of
from beanpole.console.actions.runs import Run, Runs, start, undo
from beanpole.console.answers import HEADERS
from beanpole.console.reading.job import one as one_job
from beanpole.console.screens import render
from beanpole.console.screens.action_texts import given_with, way_back
from beanpole.console.screens.inputs import FILLED, INPUTS, KNOWN_RULES
from beanpole.console.screens.screen import Screen, View
from beanpole.console.security.forms import form
from beanpole.console.security.visitors import visitor_of
from beanpole.errors import NotFoundError
from beanpole.operations.table import Operation

SOON_S = 0.3
"""Seconds that the page of a run waits for its end: most need no more."""

MARK = "mark"
"""The field of a dry run that is another one each time that it is shown."""

MARK_CHARS = 64

BODY_BYTES = 65_536
"""Bytes of a body that can be changed in a form."""


# --- Runs -------------------------------------------------------------------------------------------------------------


async def show_runs(view: View) -> dict[str, Any]:
    """The recent runs, of the servers that are asked about."""
    names = {each.name for each in view.servers}
    return {"verbs": VERBS, "runs": [each for each in view.console.kept(Runs).recent() if each.action.server in names]}


async def show_run(view: View) -> dict[str, Any]:
    """One of them."""
    run = run_of(view)
    back = way_back(view, run.action.server, run.action.target)
    return {"run": run, "verb": VERBS[run.action.verb], "given": given_with(run.action), "back": back}


def run_of(view: View) -> Run:
    """The run of an address. Raises HTTPException."""
    run = view.console.kept(Runs).get(view.request.path_params["id"])
    if run is None:
        raise HTTPException(404, "There is no such action, or it was long ago, or before the console started.")
    return run


async def stop_run(view: View) -> Response:
    """Stops it behind the piece that is under way."""
    run = run_of(view)
    run.stop(view.visitor.name)
    await run.wait(SOON_S)
    return to_run(run)


async def undo_run(view: View) -> Response:
    """Begins what brings back what was before; a second time there is nothing to undo."""
    return to_run(await begun(await undo(view.console, run_of(view), view.visitor)))


def to_run(run: Run) -> Response:
    """Leads to its page."""
    return RedirectResponse(f"/actions/{run.id}", 303, HEADERS)


async def begun(run: Run) -> Run:
    """The run, after a moment in which most are over."""
    await run.wait(SOON_S)
    return run


# --- Before -----------------------------------------------------------------------------------------------------------


async def show_put(view: View) -> dict[str, Any]:
    """The form of a put; what it begins with may stand in the address."""
    given = {name: view.request.query_params.getlist(name) for name in view.query}
    return asking(view, {**given, "verb": ["put"], "server": [view.server.name]})


def asking(view: View, fields: Fields, error: str = "", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - for a template
    """What the form of a verb shows; `fields` are what is filled in already."""
    verb = VERBS[one(fields, "verb")]
    inputs = INPUTS.get(verb.name, ())
    asked = {each.name for each in inputs} | {FILLED}
    return {
        "verb": verb,
        "inputs": inputs,
        "filled": {name: list(values) for name, values in fields.items()},
        "kept": [(name, value) for name, values in fields.items() if name not in asked for value in values],
        "choices": [(name, name) for name in view.console.servers],
        "error": error,
        "known_rules": KNOWN_RULES,
        "about": "",
        "back": way_back(view, one(fields, "server"), place_of(verb, fields), one(fields, "tube")),
        **more,
    }


def place_of(verb: Operation, fields: Fields) -> Target | None:
    """What a form is about; None: that is not known yet, or not to be understood."""
    if one(fields, "scope"):
        fields = {**fields, "scope": ["all"]}  # the list in which some are chosen, or none
    try:
        return target_of(verb, fields)
    except RefusedError:
        return None


async def asked_for(view: View, fields: Fields) -> Response:
    """The form of an action, filled in with what is there."""
    verb, more = one(fields, "verb"), dict(fields)
    server = view.console.server(one(fields, "server"))
    about = ""
    if verb == "set-rules" and "rules" not in fields:
        client = await server.client()
        pattern = one(fields, "pattern")
        if "list-rules" in await client.features():
            more["rules"] = [each.text for each in await client.list_rules() if each.pattern == pattern]
    elif verb not in ("set-rules", "put"):
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


async def look(view: View) -> Response:
    """The dry run of an action, or the form that it needs first."""
    fields = await form(view.request)
    if one(fields, "verb") in INPUTS and FILLED not in fields and given_nothing(fields):
        return await asked_for(view, fields)
    try:
        made = await dry_run(view.console, read(fields))
    except RefusedError as error:
        return refused(view, fields, error)
    return dry(view, made)


def dry(view: View, made: DryRun, error: str = "") -> Response:
    """The page of a dry run; with an error if it was not confirmed as it must be."""
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
        action, (highest, typed), mark = read(fields), confirmation(fields), one(fields, MARK)[:MARK_CHARS]
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
    return to_run(await begun(run))


def refused(view: View, fields: Fields, error: RefusedError) -> Response:
    """The form again, with what is wrong."""
    if one(fields, "verb") not in VERBS:
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
            return await do(View(request, request.app.state.console, visitor_of(request)))
        except RefusedError as error:
            raise HTTPException(409, sentence(str(error))) from None

    return answer


def sentence(text: str) -> str:
    """A text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))


ROUTES = (
    Route("/actions/dry-run", answered(look), methods=["POST"]),
    Route("/actions", answered(begin), methods=["POST"]),
    Route("/actions/{id:int}/stop", answered(stop_run), methods=["POST"]),
    Route("/actions/{id:int}/undo", answered(undo_run), methods=["POST"]),
)
