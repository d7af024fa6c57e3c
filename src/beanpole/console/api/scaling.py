"""How many workers a tube needs, for autoscalers."""

from typing import Annotated

from msgspec import Meta, Struct, convert
from starlette.exceptions import HTTPException

from beanpole.console.api.operations import Asked
from beanpole.console.fields import Query
from beanpole.console.reading import tubes
from beanpole.console.servers import see
from beanpole.observe.scaling import need_of, run_time


class ScaleQuery(Query, frozen=True):
    """For what it is computed."""

    drain: Annotated[
        float, Meta(ge=1, le=86_400, description="In how many seconds the jobs that are ready shall be gone.")
    ] = 60
    slots: Annotated[int, Meta(ge=1, le=10_000, description="How many jobs a worker runs at a time.")] = 1


class Scale(Struct, frozen=True):
    """How many workers a tube needs now, and of what that is computed."""

    workers: Annotated[int, Meta(description="Workers with so many slots, rounded up.")]
    jobs: Annotated[int, Meta(description="Jobs that should run at a time; never fewer than run now.")]
    arrival: Annotated[float, Meta(description="Jobs a second that came in the last ten seconds.")]
    backlog: Annotated[int, Meta(description="Jobs that are ready.")]
    run_s: Annotated[
        float | None, Meta(description="How long a job runs, on the average since the server started; null: none has.")
    ]
    limit: Annotated[
        str, Meta(description="What keeps it from needing more: `pause`, `breaker`, `concurrency`, `rate`; or empty.")
    ]


async def get_scale(asked: Asked, query: ScaleQuery) -> Scale:
    """How many workers a tube needs: for the jobs that come, and for those that have piled up.

    (arrival + backlog / drain) x run_s, rounded up, within the limits of its rules. An autoscaler asks for it.
    """
    server, name = asked.server, asked.places.tube
    seen = await see(server)
    tube = seen.tube(name)
    if tube is None or seen.sample is None:
        raise HTTPException(404, f"there is no tube {name}, or this server does not lead")
    arrival = server.history.latest("put/s", name) or seen.change[name].put or 0.0
    run_s = run_time(None, seen.sample, name)
    rules = await tubes.rules_of(server, name)
    need = need_of(tube, arrival, run_s, rules, drain_s=query.drain, slots=query.slots)
    return convert(need, Scale, from_attributes=True)
