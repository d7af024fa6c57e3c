"""``beanpole sessions``: who is connected to a server."""

from collections.abc import Iterator
from dataclasses import asdict

from beanpole.cli.common import Output, Server, verb
from beanpole.client import Client
from beanpole.client.sessions import SessionInfo
from beanpole.errors import ExitCode
from beanpole.operations.listing import need
from beanpole.operations.plan import run

COLUMNS = ("number", "peer", "name", "since", "last_command", "age", "used", "watched", "waiting", "held", "oldest")
"""The columns of the table; durations are in seconds."""


@verb("sessions")
def sessions(server: Server, out: Output) -> ExitCode:
    """Show who is connected to a server: what each session did last, waits for and holds.

    Durations are in seconds. A name is what a client has called itself. The server must know list-sessions.
    """
    client = server.client()
    run(client, need("list-sessions"))
    out.table(COLUMNS, (asdict(each) if out.as_json else row_of(each) for each in pages(client)))
    return ExitCode.OK


def pages(client: Client[bytes]) -> Iterator[SessionInfo]:
    """Return all sessions, a page at a time."""
    page = client.list_sessions()
    while page:
        yield from page
        page = client.list_sessions(after=page[-1].number)


def row_of(session: SessionInfo) -> dict[str, object]:
    """Return what the table shows of a session."""
    more = session.watched_count - len(session.watched)
    return {
        "number": session.number,
        "peer": session.peer,
        "name": session.name,
        "since": round(session.since),
        "last_command": session.last_command or "-",
        "age": round(session.last_command_age),
        "used": session.used,
        "watched": " ".join(session.watched) + f" and {more} more" * (more > 0),
        "waiting": "" if session.waiting is None else round(session.waiting),
        "held": session.jobs_held,
        "oldest": "" if session.oldest_held is None else round(session.oldest_held),
    }
