"""Who is connected, what they do, and which jobs they hold."""

from dataclasses import asdict
from typing import Any

from msgspec.structs import replace

from beanpole.console import limits
from beanpole.console.reading import sessions
from beanpole.console.reading.sessions import SessionFilter, processes_of
from beanpole.console.screens.screen import Page, Screen, View, ask_all, number, page_of
from beanpole.console.servers import holders
from beanpole.console.streams import Pieces

SESSIONS_PER_PAGE = 100  # sessions that a page shows, if it has a line for each
PROCESSES_PER_PAGE = 50  # programs that a page shows
SESSIONS_OF_PROCESS = 6  # sessions of each of them: a page stays below 300 kB

EACH = (("", "each program"), ("session", "each session"))
"""What has a line."""

DOING = (("", "all"), ("waiting", "that wait for jobs"), ("holding", "that hold jobs"))
"""Filters by what a session does."""


def wanted_of(view: View) -> SessionFilter:
    query = view.query
    by = query.get("sort", "").removeprefix("-")
    return SessionFilter(
        text=query.get("text", ""),
        tube=query.get("tube", ""),
        waiting=query.get("doing") == "waiting",
        holding=query.get("doing") == "holding",
        number=number(view, "number"),
        after=number(view, "after"),
        order=next((each for each in sessions.ORDERS if each == by), "number"),
        limit=SESSIONS_PER_PAGE,
    )


async def show(view: View) -> dict[str, Any]:
    """Returns a page of programs with their sessions; or of single sessions, with several servers the first of each."""
    wanted = wanted_of(view)
    is_grouped = wanted.number is None and view.query.get("each") != "session"
    if is_grouped:
        wanted = replace(wanted, after=None, limit=limits.SESSIONS_LOOKED)
    heard, away = await ask_all(view, lambda server: sessions.find(server, wanted))
    only = heard[0].value if len(view.servers) == 1 else None
    rows = [
        (each.server.name, process)
        for each in heard
        for some in ([each.value.sessions] if is_grouped else [[session] for session in each.value.sessions])
        for process in processes_of(some)
    ]
    page = page_of(view, rows, PROCESSES_PER_PAGE) if is_grouped else Page(rows, 0, only.next if only else None)
    return {
        "wanted": wanted,
        "doing": DOING,
        "each": EACH,
        "by": wanted.order if wanted.order == "number" else f"-{wanted.order}",
        "away": away,
        "rows": page.rows,
        "sessions_shown": SESSIONS_OF_PROCESS,
        "is_grouped": is_grouped,
        "count": len(rows),
        "fitting": sum(each.value.fitting for each in heard),
        "looked": sum(each.value.looked for each in heard),
        "is_complete": all(each.value.is_complete for each in heard),
        "after": page.after,
        "more": [each.server.name for each in heard if not (only or is_grouped) and each.value.next is not None],
        "missing": [(each.server.name, each.value.missing) for each in heard if each.value.missing],
    }


async def lines(view: View) -> Pieces:
    for server in await holders(view.servers):
        wanted = replace(wanted_of(view), after=None, order="number", limit=limits.SESSIONS_LOOKED)
        while True:
            found = await sessions.find(server, wanted)
            yield [{"server": server.name, **asdict(each)} for each in found.sessions]
            if found.next is None:
                break
            wanted = replace(wanted, after=found.next)


SCREEN = Screen(
    "/sessions", "sessions.html", show, live=("rows", "counts"), title="Sessions", key="s", lines=lines, every_s=2
)


# --- What is being worked on ------------------------------------------------------------------------------------------

HELD_PER_PAGE = 100  # held jobs, or workers, that a page shows
LATE = 0.75  # the part of its time to run from which a job is shown as late


def fits_worker(view: View, name: str, peer: str, session: int | None) -> bool:
    text, wanted = view.query.get("text", "").casefold(), number(view, "session")
    return (text in name.casefold() or text in peer.casefold()) and wanted in {None, session}


async def show_busy(view: View) -> dict[str, Any]:
    tube = view.query.get("tube", "")
    heard, away = await ask_all(view, lambda server: sessions.find_held(server, tube))
    jobs = [
        (each.server.name, job)
        for each in heard
        for job in each.value.jobs
        if fits_worker(view, job.name, job.peer, job.session)
    ]
    workers = [
        (each.server.name, worker)
        for each in heard
        for worker in each.value.workers
        if fits_worker(view, worker.name, worker.peer, worker.number)
    ]
    jobs.sort(key=lambda each: (-each[1].share, -each[1].ran_s, each[1].job.id))
    workers.sort(key=lambda each: (-each[1].count, each[1].number or 0))
    page = page_of(view, jobs, HELD_PER_PAGE)
    return {
        "away": away,
        "jobs": page.rows,
        "job_count": len(jobs),
        "late_count": sum(job.share >= LATE for _, job in jobs),
        "workers": workers[:HELD_PER_PAGE],
        "worker_count": len(workers),
        "total": sum(each.value.total for each in heard),
        "cut": [each.server.name for each in heard if not each.value.is_complete],
        "missing": [(each.server.name, text) for each in heard for text in each.value.missing],
        "counts": [(each.server.name, one) for each in heard if each.value.missing for one in each.value.tubes],
        "start": page.start,
        "after": page.after,
    }


async def busy_lines(view: View) -> Pieces:
    """The jobs, as many as a look finds."""
    tube = view.query.get("tube", "")
    for server in await holders(view.servers):
        found = (await sessions.find_held(server, tube)).jobs
        yield [
            {"server": server.name, **each.record}
            for each in found
            if fits_worker(view, each.name, each.peer, each.session)
        ]


BUSY = Screen(
    "/busy",
    "busy.html",
    show_busy,
    live=("counts", "workers", "jobs"),
    title="Busy",
    key="b",
    lines=busy_lines,
    every_s=2,
)
