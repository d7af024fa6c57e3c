"""What is being worked on: who holds which jobs, and how much of their time to run is over."""

from typing import Any

from beanpole.console.reading import held
from beanpole.console.reading.export import Pieces
from beanpole.console.screens.asked import ask_all, number
from beanpole.console.screens.screen import Screen, View
from beanpole.console.servers import holders

HELD_PER_PAGE = 100
"""Held jobs, or workers, that a page shows."""

LATE = 0.75
"""The part of its time to run from which a job is shown as late."""


def fits(view: View, name: str, peer: str, session: int | None) -> bool:
    """Whether a worker is one that the address asks for."""
    text, wanted = view.query.get("text", "").casefold(), number(view, "session")
    return (text in name.casefold() or text in peer.casefold()) and wanted in {None, session}


async def show(view: View) -> dict[str, Any]:
    """Returns who holds what."""
    tube = view.query.get("tube", "")
    heard, away = await ask_all(view, lambda server: held.find(server, tube))
    jobs = [
        (each.server.name, job)
        for each in heard
        for job in each.value.jobs
        if fits(view, job.name, job.peer, job.session)
    ]
    workers = [
        (each.server.name, worker)
        for each in heard
        for worker in each.value.workers
        if fits(view, worker.name, worker.peer, worker.number)
    ]
    jobs.sort(key=lambda each: (-each[1].share, -each[1].ran_s, each[1].job.id))
    workers.sort(key=lambda each: (-each[1].count, each[1].number or 0))
    start = number(view, "after") or 0
    page = jobs[start : start + HELD_PER_PAGE]
    return {
        "away": away,
        "jobs": page,
        "job_count": len(jobs),
        "late_count": sum(job.share >= LATE for _, job in jobs),
        "workers": workers[:HELD_PER_PAGE],
        "worker_count": len(workers),
        "total": sum(each.value.total for each in heard),
        "cut": [each.server.name for each in heard if not each.value.is_complete],
        "missing": [(each.server.name, text) for each in heard for text in each.value.missing],
        "counts": [(each.server.name, one) for each in heard if each.value.missing for one in each.value.tubes],
        "start": start,
        "after": start + len(page) if start + len(page) < len(jobs) else None,
        "several": len(view.servers) > 1,
    }


async def lines(view: View) -> Pieces:
    """The jobs, as many as a look finds."""
    tube = view.query.get("tube", "")
    for server in await holders(view.servers):
        found = (await held.find(server, tube)).jobs
        yield [
            {"server": server.name, **each.record} for each in found if fits(view, each.name, each.peer, each.session)
        ]


SCREEN = Screen(
    "/busy", "busy.html", show, live=("counts", "workers", "jobs"), title="Busy", key="b", lines=lines, every_s=2
)
