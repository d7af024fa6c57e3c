"""The description of the HTTP API, for programs (OpenAPI 3.1) and for people (a page that needs no network).

The page is made from the description, so both say the same; a test compares the description with what is answered.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from beanpole_ids import limits
from beanpole_ids.http.response import PROBLEMS

STRING = {"type": "string"}
WHOLE = {"type": "integer"}
MOMENT = {"type": ["string", "null"], "format": "date-time"}


def thing(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required or properties)}


STATE: dict[str, dict[str, Any]] = {
    "counter": WHOLE | {"description": "the number that was given last"},
    "node_offset": WHOLE,
    "remaining": WHOLE | {"description": "numbers left in the cycle"},
    "reserved": WHOLE | {"description": "the highest number that is reserved"},
    "resets_at": MOMENT,
}
"""How a counter stands."""


def list_of(schema: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": schema} | ({"minItems": least} if least else {})


def reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS = {
    "Ids": thing(rule=STRING, app=STRING, ids=list_of(STRING, 1)),
    "Wanted": {
        "type": "object",
        "properties": {
            "count": WHOLE | {"minimum": 1, "maximum": limits.COUNT_MAX, "default": 1},
            "request_id": {"type": ["string", "integer"]},
            "salt": STRING,
        },
        "additionalProperties": False,
    },
    "Counter": thing(rule=STRING, app=STRING, **STATE),
    "Counters": thing(
        rule=STRING,
        counters=list_of(thing(app=STRING, **STATE)),
        next={"type": ["string", "null"], "description": "what `after` must be for the next page; null: there is none"},
    ),
    "Rule": thing(
        rule=STRING,
        kind=STRING | {"description": "template, lua, or the kind of one that begins with the time"},
        source=STRING | {"description": "the template, or the name of the Lua file"},
        cycle=STRING,
        time_zone=STRING,
        batch=WHOLE,
        counters=WHOLE | {"description": "counters in memory"},
        numbers=WHOLE | {"description": "numbers that were given since the start"},
        cycle_numbers=WHOLE | {"description": "numbers that a cycle of this node has"},
        remaining=WHOLE | {"description": "those that are left to the application that has the fewest"},
        resets_at=MOMENT,
    ),
    "Rules": thing(rules=list_of(reference("Rule"))),
    "Reloaded": thing(
        added=list_of(STRING), changed=list_of(STRING), removed=list_of(STRING), settings=list_of(STRING)
    ),
    "Health": thing(
        status={"type": "string", "enum": ["ok", "failing"]},
        reasons=list_of(STRING),
        warnings=list_of(STRING),
        version=STRING,
        node=WHOLE,
        epoch=WHOLE,
    ),
    "Problem": thing(
        "type",
        "title",
        "status",
        "detail",
        type=STRING | {"description": "a reference to the page that explains it"},
        title=STRING,
        status=WHOLE,
        detail=STRING,
        code=WHOLE | {"description": "the code of the UDP protocol, if it has one"},
        resets_at=STRING | {"format": "date-time"},
        retry_s={"type": "number", "description": "seconds after which to ask again"},
    ),
}


def parameter(name: str, where: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where != "query", "description": description, "schema": schema}


RULE = parameter("rule", "path", "a rule of the configuration", STRING)
KEY = [RULE, parameter("app", "path", "whose numbers they are: each application has its own", STRING)]
QUERY = [
    parameter("count", "query", "how many numbers", WHOLE | {"minimum": 1, "maximum": limits.COUNT_MAX, "default": 1}),
    parameter(
        "request_id",
        "query",
        f"the same again, with the same count, gets the same numbers for {limits.WINDOW_S} s while it runs",
        STRING,
    ),
    parameter("salt", "query", "what the rule puts into the number", STRING),
]
MARK = parameter("X-Beanpole", "header", "any value: says that no page of another site asks", STRING)
PAGE = [
    parameter("after", "query", "the application behind which the page begins", STRING),
    parameter(
        "limit",
        "query",
        "how many counters",
        WHOLE | {"minimum": 1, "maximum": limits.HTTP_PAGE_MAX, "default": limits.HTTP_PAGE_DEFAULT},
    ),
]

SOME = ("bad-request", "unknown-host")
KNOWN = ("bad-request", "unknown-rule", "unknown-host")
USED = ("bad-request", "unknown-rule", "unused", "unknown-host", "storage")
RELOADED = ("bad-request", "other-site", "not-from-here", "refused", "unknown-host")
GIVEN = (
    *("bad-request", "unmarked", "other-site", "unknown-rule", "too-large", "not-json", "unknown-host", "forbidden"),
    *("late", "exhausted", "limited", "long-head", "failed", "storage", "clock"),
)


def operation(  # noqa: PLR0913, PLR0917 - a row of a table
    name: str,
    summary: str,
    description: str,
    schema: str | dict[str, Any],
    problems: Sequence[str] = (),
    parameters: Sequence[dict[str, Any]] = (),
    kind: str = "application/json",
    body: str = "",
) -> dict[str, Any]:
    """Return what OpenAPI says of a path and a method.

    `description`: of what is answered if all goes well, which has a schema, or the one of a name; `problems`: what
    else may be; `body`: the schema of the body that it may have.
    """
    found: dict[str, Any] = {"operationId": name, "summary": summary}
    if parameters:
        found["parameters"] = [*parameters]
    if body:
        found["requestBody"] = {"content": {"application/json": {"schema": reference(body)}}}
    schema = reference(schema) if isinstance(schema, str) else schema
    responses: dict[str, Any] = {"200": {"description": description, "content": {kind: {"schema": schema}}}}
    for problem in problems:
        status, title, _ = PROBLEMS[problem]
        before = responses.get(str(status), {}).get("description")
        responses[str(status)] = {
            "description": f"{before}, {title.lower()}" if before else title,
            "content": {"application/problem+json": {"schema": reference("Problem")}},
        }
    return found | {"responses": responses}


IDS, MORE = "The numbers, each given to nobody else", "The same, for programs that only send GET"
PATHS: dict[str, dict[str, Any]] = {
    "/v1/ids/{rule}/{app}": {
        "post": operation("postIds", "Get numbers", IDS, "Ids", GIVEN, [*KEY, *QUERY], body="Wanted"),
        "get": operation("getIds", MORE, IDS, "Ids", GIVEN, [*KEY, *QUERY, MARK]),
    },
    "/v1/counters/{rule}/{app}": {
        "get": operation("getCounter", "See how a counter stands on this node", "How it stands", "Counter", USED, KEY)
    },
    "/v1/counters/{rule}": {
        "get": operation(
            *("getCounters", "See the counters of a rule on this node", "Those in memory, by name", "Counters"),
            KNOWN,
            [RULE, *PAGE],
        )
    },
    "/v1/rules": {"get": operation("getRules", "See all rules", "All of them, by name", "Rules", SOME)},
    "/v1/rules/{rule}": {"get": operation("getRule", "See a rule", "What it is", "Rule", KNOWN, [RULE])},
    "/v1/reload": {
        "post": operation("postReload", "Read the rules again, all or none", "What has changed", "Reloaded", RELOADED)
    },
    "/health": {"get": operation("getHealth", "Ask whether it can give numbers", "It can", "Health")},
    "/metrics": {
        "get": operation("getMetrics", "Metrics for Prometheus", "In the text format", STRING, kind="text/plain")
    },
    "/openapi.json": {
        "get": operation("getDescription", "This description, for programs", "OpenAPI 3.1", {"type": "object"})
    },
    "/docs": {"get": operation("getPage", "This description, for people", "A page", STRING, kind="text/html")},
}
"""What is said of each path."""

PATHS["/health"]["get"]["responses"]["503"] = PATHS["/health"]["get"]["responses"]["200"] | {"description": "It can't"}


def document(version: str) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Beanpole ID service",
            "version": version,
            "description": "Unique, readable numbers that never repeat. Nearly every path is served to everybody.",
        },
        "paths": PATHS,
        "components": {"schemas": SCHEMAS},
    }


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; } code { background: #8882; padding: .1em .3em; border-radius: .2em; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .2rem 1rem .2rem 0;
vertical-align: top; border-bottom: 1px solid #8884; } :target { background: #fd07; }
:root { color-scheme: light dark; }
"""


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of HTML; its cells are HTML."""
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "\n".join(lines) + "</table>"


def docs_page(found: dict[str, Any]) -> bytes:
    """Return a page that shows a description."""
    info = found["info"]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title>",
        f"<style>{STYLE}</style>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])} ",
        "For programs: <a href=/openapi.json>openapi.json</a>.</p>",
    ]
    for path, methods in found["paths"].items():
        for method, each in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(each['summary'])}.</p>")
            if each.get("parameters"):
                rows = [
                    (f"<code>{escape(one['name'])}</code>", one["in"], escape(one["description"]))
                    for one in each["parameters"]
                ]
                parts.append(table(("Parameter", "Where", "Meaning"), rows))
            answers = [(status, escape(one["description"])) for status, one in each["responses"].items()]
            parts.append(table(("Status", "Meaning"), answers))
    parts.append("<h2>Problems</h2><p>Errors are problem details of RFC 9457. Each <code>type</code>:</p>")
    rows = [(f"<span id={name}>{name}</span>", str(each[0]), escape(each[2])) for name, each in PROBLEMS.items()]
    parts.append(table(("Type", "Status", "Meaning"), rows))
    return "\n".join(parts).encode()
