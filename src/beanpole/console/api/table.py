"""All operations of the API, and the routes to them: whatever is said of the API is made of this table."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from beanpole.console.answers import HEADERS
from beanpole.console.api import actions, groups, queries, scaling, schedules
from beanpole.console.api.document import document
from beanpole.console.api.operations import Example, Operation
from beanpole.console.api.routes import Api

SERVER = "/servers/{server}"

TUBE = f"{SERVER}/tubes/{{tube}}"
JOB = f"{SERVER}/jobs/{{id}}"
ACTIONS = (
    Example("Put a job.", body={"verb": "put", "tube": "default", "body": "hello", "delay": 60}),
    Example("Say what a kick of all buried jobs of a tube would do: `highest` is for the next.",
        body={"verb": "kick", "tube": "default", "state": "buried", "dry_run": True},
    ),
    Example("Kick one job. Without `dry_run` it is done.", body={"verb": "kick", "ids": [1], "dry_run": True}),
    Example("Delete two jobs. Without `dry_run` it is done.", body={"verb": "delete", "ids": [1, 2], "dry_run": True}),
    Example("Say which dead jobs of a tube would go back to where they died.",
        body={"verb": "redrive", "tube": "dead", "state": "ready", "dry_run": True},
    ),
    Example("Pause a tube for a minute. Without `dry_run` it is done.",
        body={"verb": "pause", "tube": "default", "seconds": 60, "dry_run": True},
    ),
    Example("Let jobs of some tubes be tried five times. Without `dry_run` it is done.",
        body={"verb": "set-rules", "pattern": "mail-*", "rules": "attempts: 5\nbackoff: 10", "dry_run": True},
    ),
    Example("Set a schedule. Without `dry_run` it is done.",
        body={"verb": "set-schedule", "schedule": "nightly", "lines": "cron: 30 2 * * *\nzone: Europe/Berlin",
            "body": "hello", "dry_run": True},
    ),
    Example("Put the job of a schedule now. Without `dry_run` it is done.",
        body={"verb": "fire-schedule", "schedule": "nightly", "dry_run": True},
    ),
)  # fmt: skip

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/servers", queries.list_servers),
    Operation("GET", SERVER, queries.get_server),
    Operation("GET", f"{SERVER}/tubes", queries.list_tubes, (Example(query={"limit": 1000}),)),
    Operation("GET", TUBE, queries.get_tube),
    Operation("GET", f"{TUBE}/explain", queries.explain_tube),
    Operation("GET", f"{TUBE}/groups", groups.list_groups),
    Operation("GET", f"{TUBE}/scale", scaling.get_scale, (Example(query={"drain": 60, "slots": 8}),)),
    Operation(
        "GET",
        f"{TUBE}/jobs",
        queries.list_jobs,
        (
            Example("The jobs that workers get next.", {"order": "next", "limit": 10}),
            Example("Search bodies and keys: `next` of the answer goes on as `after`.", {"text": "hello", "after": 0}),
        ),
    ),
    Operation("GET", f"{TUBE}/rules", queries.get_rules),
    Operation("GET", JOB, queries.get_job),
    Operation("GET", f"{JOB}/explain", queries.explain_job),
    Operation("GET", f"{SERVER}/failures", queries.list_failures),
    Operation("GET", f"{SERVER}/busy", queries.list_busy),
    Operation("GET", f"{SERVER}/sessions", queries.list_sessions, (Example(query={"waiting": "true"}),)),
    Operation("GET", f"{SERVER}/schedules", schedules.list_schedules, (Example(query={"order": "next"}),)),
    Operation("GET", f"{SERVER}/schedules/{{schedule}}", schedules.get_schedule),
    Operation("GET", f"{SERVER}/rules", queries.list_rules),
    Operation("GET", f"{SERVER}/history", queries.get_history, (Example(query={"key": "ready", "span": "6h"}),)),
    Operation("POST", "/actions", actions.act, ACTIONS),
    Operation("GET", "/actions", actions.list_actions),
    Operation("GET", "/actions/{run}", actions.get_action),
    Operation("DELETE", "/actions/{run}", actions.stop_action),
)


async def openapi(request: Request) -> Response:
    return JSONResponse(document(OPERATIONS, list(request.app.state.console.servers)), headers=HEADERS)


ROUTES = (
    Route("/api/{path:path}", Api(OPERATIONS)),
    Route("/openapi.json", openapi),
)
