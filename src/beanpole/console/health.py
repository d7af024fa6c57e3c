"""Whether a server answers, takes jobs, leads: for load balancers, containers and people with curl.

Each check is a sentence about one server; the answer to a request is 200 only if it holds for all servers that were
asked about. Only `stats` is asked, which costs a server a few microseconds.
"""

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from beanpole.client import Stats
from beanpole.console.answers import HEADERS
from beanpole.console.servers import Console, Server
from beanpole.console.single_flight import AwayError
from beanpole.observe.sampling import has_jobs, role_of

Verdict = tuple[bool, str]
"""Whether a check holds, and why."""


def answers(stats: Stats) -> Verdict:
    """Whether the server answers: it does, or there would be no statistics."""
    return True, f"answers, has been running for {stats.uptime} s"


def is_ready(stats: Stats) -> Verdict:
    """Whether clients can work with the server: it takes jobs, or knows who does."""
    role = role_of(stats)
    if stats.get("cluster-sends-away") == "true":
        return (
            False,
            "closes its clients: nothing is confirmed" if role == "leader" else f"{role}: no leader is reached",
        )
    if has_jobs(stats):
        if stats.draining:
            return False, "draining: it takes no more jobs"
        if stats.get("log-full") == "true":
            return False, "the disk is full: it takes no more jobs"
        return True, "leads and takes jobs" if role else "takes jobs"
    leader = stats.get("cluster-leader")
    if leader:
        return True, f"follows {leader}"
    return False, f"{role}: no leader is known"


def leads(stats: Stats) -> Verdict:
    """Whether jobs are put and reserved here: a server in no cluster leads itself."""
    role = role_of(stats)
    if not role:
        return True, "is in no cluster"
    return role == "leader", f"{role}, epoch {stats.get('cluster-epoch', '?')}"


CHECKS: dict[str, Callable[[Stats], Verdict]] = {"/health": answers, "/ready": is_ready, "/leader": leads}
"""The checks by path."""


async def check(request: Request) -> Response:
    """A line for each server; 200 if the check holds for all, else 503."""
    console: Console = request.app.state.console
    servers, verdict = console.asked(request), CHECKS[request.scope["path"]]

    async def of(server: Server) -> Verdict:
        try:
            return verdict(await server.sampler.stats.get())
        except AwayError as error:
            return False, f"away: {error}"

    verdicts = await asyncio.gather(*map(of, servers))
    text = "".join(f"{server.name}: {why}\n" for server, (_, why) in zip(servers, verdicts, strict=True))
    return PlainTextResponse(text, 200 if all(holds for holds, _ in verdicts) else 503, HEADERS)


ROUTES = tuple(Route(path, check) for path in CHECKS)
