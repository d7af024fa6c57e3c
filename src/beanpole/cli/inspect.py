"""``beanpole peek|stats|tubes|groups|sessions|explain``; and what `top`, `tail`, `doctor` share: to watch a server."""

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from beanpole.cli.common import COUNT, TARGET, TUBE, Output, Server, body_fields, indented, verb
from beanpole.cli.errors import Failure, missing, note
from beanpole.cli.quantities import Duration
from beanpole.cli.wrapping import wrapped
from beanpole.client import Client, Explanation, GroupStats, Job, SessionInfo, StatsJob, StatsTube
from beanpole.client.explanation import pairs_text
from beanpole.client.job import meta_of
from beanpole.client.login import Login
from beanpole.errors import CannotConnectError, ExitCode, NotFoundError
from beanpole.operations.listing import need, reasons_of
from beanpole.operations.plan import run
from beanpole.server.logs import visible

if TYPE_CHECKING:
    from beanpole.client import AsyncClient

# The columns of `tubes`, and the fields of StatsTube that are in them.
COLUMNS: dict[str, str] = {
    "tube": "name",
    "ready": "current_jobs_ready",
    "reserved": "current_jobs_reserved",
    "delayed": "current_jobs_delayed",
    "buried": "current_jobs_buried",
    "waiting": "current_waiting",
    "using": "current_using",
    "watching": "current_watching",
    "paused": "pause_time_left",
    "total": "total_jobs",
}

GROUP = ("group", "ready", "reserved", "delayed", "buried", "weight", "age", "closed")

SESSION = (
    "number",
    "peer",
    "name",
    "since",
    "lost",
    "last_command",
    "age",
    "used",
    "watched",
    "waiting",
    "held",
    "oldest",
)

WHOSE = ("user", "via")  # behind the name of a session, where the server has users

# What a server counts of a tube: its jobs, and the clients that want some.
COUNTS = ("ready", "reserved", "delayed", "buried", "watching", "waiting")


def typed(stats: Mapping[str, int | str]) -> dict[str, Any]:
    """Return statistics by the server's keys, with the values that the typed fields have."""
    return {key: getattr(stats, key.replace("-", "_"), value) for key, value in stats.items()}


@verb("peek")
@click.argument("what", type=TARGET, nargs=-1, required=True, metavar="TUBE|ID...")
@click.option(
    "--state",
    type=click.Choice(["ready", "delayed", "buried"]),
    default="ready",
    show_default=True,
    help="Which job of a TUBE: the next of this state.",
)
@click.option("--raw", is_flag=True, help="Write the body alone, byte by byte, on a terminal too.")
def peek(server: Server, out: Output, what: tuple[int | str, ...], state: str, *, raw: bool) -> ExitCode:
    """Show jobs: the one with an ID, or the next of a TUBE.

    The body is written to standard output; on a terminal, lines before it say what else is known of the job, and why it
    died, if it did, and characters that a terminal would obey are escaped. With --json it is one object, in which a
    body that is not UTF-8 stands in body_base64. A tube whose name is a number is written tube:123.
    """
    client, code = server.client(), ExitCode.OK
    for each in what:
        try:
            job = client.peek(each) if isinstance(each, int) else peek_tube(client, each, state)
            stats = client.stats_job(job)
        except (NotFoundError, Failure) as error:
            nothing = f"there is no job {each}" if isinstance(each, int) else f"no job of {each} is {state}"
            note(error.message if isinstance(error, Failure) else nothing)
            code = code or ExitCode.NOT_FOUND
        else:
            show(out, job, stats, raw=raw, said=said_of(client, job.id))
    return code


def peek_tube(client: Client[bytes], tube: str, state: str) -> Job[bytes]:
    """Return the next job of a tube in a state.

    Raises Failure: there is no such tube; to use it first would make it.
    """
    stats_of(client, tube)
    with client.using(tube):
        return {"ready": client.peek_ready, "delayed": client.peek_delayed, "buried": client.peek_buried}[state]()


def show(
    out: Output,
    job: Job[bytes],
    stats: StatsJob,
    *,
    raw: bool,
    said: Mapping[str, str | dict[str, str]] = MappingProxyType({}),
) -> None:
    """Write a job: its body to standard output, the rest to standard error if that is a terminal.

    `said` is why it has failed or died, and its headers.
    """
    if out.as_json:
        out.record(typed(stats) | dict(said) | body_fields(job.body), "")
        return
    if not raw and sys.stderr.isatty():
        out.flush()
        note(f"job {job.id} of {stats.tube}: {stats.state}, priority {stats.pri}, age {stats.age} s, ttr {stats.ttr} s")
        texts = {word: each if isinstance(each, str) else pairs_text(each) for word, each in said.items()}
        for line in [line for word, text in texts.items() for line in indented(word, text)]:
            click.echo(line, err=True)
    body = job.body
    if not raw and sys.stdout.isatty():
        body = visible(body.replace(b"\r\n", b"\n").decode(errors="backslashreplace")).encode()
    out.write(body if raw or body.endswith(b"\n") else body + b"\n")


def said_of(client: Client[bytes], id: int) -> dict[str, str | dict[str, str]]:
    reasons = run(client, reasons_of([id])).get(id, {})
    said = {word: reasons[word].text for word in ("died", "failed") if word in reasons and reasons[word].text}
    return said | ({"meta": meta_of(reasons["meta"].facts["meta"])} if "meta" in reasons else {})


@verb("stats")
@click.argument("what", type=TARGET, required=False, metavar="[TUBE|ID]")
def stats(server: Server, out: Output, what: int | str | None) -> None:
    """Show the statistics of the server, of a TUBE, or of the job ID.

    Keys are the protocol's. A tube whose name is a number is written tube:123.
    """
    client = server.client()
    found = typed(client.stats() if what is None else stats_of(client, what))
    if out.as_json:
        out.record(found, "")
    else:
        out.table(("key", "value"), [{"key": key, "value": value} for key, value in found.items()])


def stats_of(client: Client[bytes], what: int | str) -> StatsJob | StatsTube:
    """Return the statistics of a job or a tube.

    Raises Failure: there is none.
    """
    with missing(f"there is no {'job' if isinstance(what, int) else 'tube'} {what}"):
        return client.stats_job(what) if isinstance(what, int) else client.stats_tube(what)


@verb("tubes")
@click.option(
    "--sort",
    type=click.Choice(list(COLUMNS)),
    default="tube",
    show_default=True,
    help="The largest numbers come first.",
)
def tubes(server: Server, out: Output, sort: str) -> None:
    """Show all tubes and how many jobs and clients each has.

    waiting, using and watching are clients; paused is how many seconds a pause still lasts; total is how many jobs
    were put since there is the tube. With --json the keys are those of the protocol.
    """
    found = sorted(all_tubes(server.client()), key=lambda each: each.name)
    if sort != "tube":
        found.sort(key=lambda each: int(getattr(each, COLUMNS[sort])), reverse=True)
    if out.as_json:
        for each in found:
            out.record(typed(each), "")
    else:
        out.table(list(COLUMNS), [{name: getattr(each, field) for name, field in COLUMNS.items()} for each in found])


def all_tubes(client: Client[bytes]) -> list[StatsTube]:
    """Return the statistics of every tube, in two round trips; one that disappears in between is left out."""
    names = client.tubes()
    with client.pipeline(raise_errors=False) as pipeline:
        results = [pipeline.stats_tube(name) for name in names]
    return [result.result() for result in results if not isinstance(result.error, NotFoundError)]


@verb("groups")
@click.argument("tube", type=TUBE)
@click.option("--group", help="Only this one.")
@click.option("--limit", type=COUNT, help="The most groups.  [default: 1000, and no more]")
def groups(server: Server, out: Output, tube: str, group: str | None, limit: int | None) -> None:
    """Show the groups of TUBE that have jobs, those first of which most are ready.

    age is for how many seconds the ready job that comes first has been there, closed says which rules hold the group
    back now. A line without a name has the jobs without a group. The server must know stats-groups.
    """
    with missing(f"there is no tube {tube}"):
        found = server.client().stats_groups(tube, group, limit)
    out.table(GROUP, (asdict(each) if out.as_json else group_row(each) for each in found))


def group_row(group: GroupStats) -> dict[str, object]:
    age = "" if group.next_age is None else round(group.next_age)
    return asdict(group) | {"age": age, "closed": " ".join(group.closed)}


@verb("sessions")
def sessions(server: Server, out: Output) -> None:
    """Show who is connected to a server: what each session did last, waits for and holds.

    Durations are in seconds. A name is what a client has called itself. lost is for how long a session has had no
    connection whose jobs wait for it to return. Where the server has users, user is whose a session is, and via the
    link over which it has come. The server must know list-sessions.
    """
    client = server.client()
    run(client, need("list-sessions"))
    columns = (*SESSION[:3], *WHOSE, *SESSION[3:]) if "list-rights" in client.features() else SESSION
    out.table(columns, (asdict(each) if out.as_json else session_row(each) for each in pages(client)))


def pages(client: Client[bytes]) -> Iterator[SessionInfo]:
    """Return all sessions, a page at a time."""
    page = client.list_sessions()
    while page:
        yield from page
        page = client.list_sessions(after=page[-1].number)


def session_row(session: SessionInfo) -> dict[str, object]:
    more = session.watched_count - len(session.watched)
    return {
        "number": session.number,
        "peer": session.peer,
        "name": session.name,
        "user": session.user,
        "via": session.via,
        "since": round(session.since),
        "lost": "" if session.lost is None else round(session.lost),
        "last_command": session.last_command or "-",
        "age": round(session.last_command_age),
        "used": session.used,
        "watched": " ".join(session.watched) + f" and {more} more" * (more > 0),
        "waiting": "" if session.waiting is None else round(session.waiting),
        "held": session.jobs_held,
        "oldest": "" if session.oldest_held is None else round(session.oldest_held),
    }


@verb("explain")
@click.argument("what", type=TARGET, nargs=-1, required=True, metavar="TUBE|ID...")
def explain(server: Server, out: Output, what: tuple[int | str, ...]) -> ExitCode:
    """Say why the job ID is not being done, or why TUBE hands out no jobs.

    Each reason that holds now is a line; the page "Protocol" lists the words in front of them. A tube whose name is a
    number is written tube:123. The server must know explain.
    """
    client, code = server.client(), ExitCode.OK
    for each in what:
        try:
            found = client.explain(each) if isinstance(each, int) else client.explain_tube(each)
        except NotFoundError:
            out.flush()
            note(f"there is no {'job' if isinstance(each, int) else 'tube'} {each}")
            code = code or ExitCode.NOT_FOUND
        else:
            out.record(explanation_record(found), wrapped("\n".join(explanation_lines(found))))
    return code


def explanation_record(found: Explanation) -> dict[str, object]:
    known = {key: int(value) if value.isdecimal() and key != "tube" else value for key, value in found.items()}
    reasons = [{"word": each.word, "facts": each.facts, "text": each.text} for each in found.reasons]
    return known | {"reasons": reasons}


def explanation_lines(found: Explanation) -> list[str]:
    if "id" in found:
        place = f", number {found['place']} in the line" if "place" in found else ""
        head = f"job {found['id']} of {found['tube']}: {found['state']}{place}"
    else:
        head = f"tube {found['tube']}: {', '.join(f'{found[key]} {key}' for key in COUNTS if key in found)}"
    reasons = [
        line
        for each in found.reasons
        for line in indented(f"{each.facts['shard']}: {each.word}" if "shard" in each.facts else each.word, each.text)
    ]
    return [head, *(reasons or ["  - nothing is in its way"])]


# --- Watching ---------------------------------------------------------------------------------------------------------

ANSWER_TIMEOUT_S = 10.0  # of silence, after which a server counts as lost

now_ns = time.monotonic_ns  # the clock of samples
unix_s = time.time  # the clock that people read


@asynccontextmanager
async def async_client(server: Server, tube: str = "default") -> "AsyncIterator[AsyncClient[bytes]]":
    """A client that is connected, with one attempt to connect each time. Raises CannotConnectError and MapError."""
    from beanpole.client import AsyncClient, Backoff

    async with AsyncExitStack() as opened:
        address, login = server.address, server.login
        if server.map_file is not None:
            from beanpole.cli.mapped import own_router

            address, router = await opened.enter_async_context(own_router(server.map_file, login))
            login = Login()
            if not router.links_opened:
                raise CannotConnectError(f"{server}: {router.health()}")
        once = Backoff(attempts=1)
        client = AsyncClient(address, None, tube, timeout=ANSWER_TIMEOUT_S, backoff=once, patience=0, login=login)
        await opened.enter_async_context(client)
        await client.connect()
        yield client


def interval(default: float, help: str) -> Callable[[click.decorators.FC], click.decorators.FC]:  # noqa: A002 - click's word
    kind = Duration(0.1, 3600)
    return click.option("--interval", "interval_s", type=kind, default=default, show_default=True, help=help)
