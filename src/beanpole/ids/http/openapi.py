"""The description of the HTTP API, for programs (OpenAPI 3.1) and for people (a page that needs no network).

The page is made from the description, so both say the same; a test compares the description with what is answered.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from beanpole.ids import limits
from beanpole.limits import IDS_COUNT_MAX

PROBLEMS: dict[str, tuple[int, str, str]] = {
    "bad-request": (400, "Bad request", "The request makes no sense; `detail` says why. Don't send it again."),
    "forbidden": (403, "Forbidden", "The rule is not for this application: the configuration says for which it is."),
    "unknown-path": (404, "Unknown path", "Nothing is served at this path."),
    "unknown-rule": (404, "Unknown rule", "The configuration has no rule of this name."),
    "unused": (404, "Unused", "Nobody has asked for a number of this counter."),
    "wrong-method": (405, "Wrong method", "The path does not take this method; the field `Allow` says which."),
    "late": (408, "Too late", "The request did not come whole in time."),
    "exhausted": (409, "Exhausted", "The cycle's numbers are given; `resets_at` says when counting starts again."),
    "too-large": (413, "Too large", "The body is too large. None is needed."),
    "limited": (429, "Limited", "A limit of the configuration is reached; `retry_s` says when to ask again, if ever."),
    "long-head": (431, "Too large", "The first line and the fields are too large."),
    "failed": (500, "Rule failed", "The rule made no number, or there are too many applications; `detail` says why."),
    "not-http": (501, "Not understood", "The request uses a part of HTTP that is not understood here."),
    "storage": (503, "Storage", "Nothing can be reserved. Ask again, or another node."),
    "clock": (503, "Clock", "The node's clock has jumped ahead and nobody has accepted it. Ask another node."),
    "busy": (503, "Busy", "Too many connections."),
}
"""Everything that can go wrong: its name, which `type` ends with, the status, the title, and what it means."""

STRING = {"type": "string"}
WHOLE = {"type": "integer"}
MOMENT = {"type": ["string", "null"], "format": "date-time"}


def thing(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required or properties)}


SCHEMAS = {
    "Ids": thing(rule=STRING, app=STRING, ids={"type": "array", "items": STRING, "minItems": 1}),
    "Counter": thing(
        rule=STRING,
        app=STRING,
        counter=WHOLE | {"description": "the number that was given last"},
        node_offset=WHOLE,
        remaining=WHOLE | {"description": "numbers left in the cycle"},
        reserved=WHOLE | {"description": "the highest number that is reserved"},
        resets_at=MOMENT,
    ),
    "Health": thing(
        status={"type": "string", "enum": ["ok", "failing"]},
        reasons={"type": "array", "items": STRING},
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


def content(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a response."""
    return {kind: {"schema": schema}}


def reference(name: str) -> dict[str, Any]:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def problems(*names: str) -> dict[str, Any]:
    """Return the responses to what can go wrong."""
    found: dict[str, Any] = {}
    for name in names:
        status, title, _ = PROBLEMS[name]
        before = found.get(str(status), {}).get("description")
        found[str(status)] = {
            "description": f"{before}, {title.lower()}" if before else title,
            "content": content("application/problem+json", reference("Problem")),
        }
    return found


def ok(description: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request that succeeds."""
    return {"200": {"description": description, "content": content(kind, schema)}}


def parameter(name: str, where: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter."""
    return {"name": name, "in": where, "required": where == "path", "description": description, "schema": schema}


KEY = [
    parameter("rule", "path", "a rule of the configuration", STRING),
    parameter("app", "path", "whose numbers they are: each application has its own", STRING),
]
QUERY = [
    parameter("count", "query", "how many numbers", WHOLE | {"minimum": 1, "maximum": IDS_COUNT_MAX, "default": 1}),
    parameter(
        "request_id",
        "query",
        f"the same again, with the same count, gets the same numbers for {limits.WINDOW_S} s while it runs",
        STRING,
    ),
    parameter("salt", "query", "what the rule puts into the number", STRING),
]


def operation(
    name: str, summary: str, responses: dict[str, Any], parameters: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the description of a path and a method."""
    found = {"operationId": name, "summary": summary} | ({"parameters": [*parameters]} if parameters else {})
    return found | {"responses": responses}


def document(version: str) -> dict[str, Any]:
    """Return the description as OpenAPI has it."""
    given = ok("The numbers, each given to nobody else", "application/json", reference("Ids")) | problems(
        "bad-request",
        "forbidden",
        "unknown-rule",
        "late",
        "exhausted",
        "limited",
        "long-head",
        "failed",
        "storage",
        "clock",
    )
    counter = ok("How it stands", "application/json", reference("Counter")) | problems(
        "bad-request", "unknown-rule", "unused", "storage"
    )
    health = ok("It can", "application/json", reference("Health")) | {
        "503": {"description": "It can't", "content": content("application/json", reference("Health"))}
    }
    metrics = ok("In the text format", "text/plain", STRING)
    description = ok("OpenAPI 3.1", "application/json", {"type": "object"})
    page = ok("A page", "text/html", STRING)
    repeated = "The same, where something on the way may repeat a GET"
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Beanpole ID service",
            "version": version,
            "description": "Unique, readable numbers that never repeat. Every path is served without authentication.",
        },
        "paths": {
            "/v1/ids/{rule}/{app}": {
                "get": operation("getIds", "Get numbers", given, KEY + QUERY),
                "post": operation("postIds", repeated, given, KEY + QUERY),
            },
            "/v1/counters/{rule}/{app}": {
                "get": operation("getCounter", "See how a counter stands on this node", counter, KEY)
            },
            "/health": {"get": operation("getHealth", "Ask whether it can give numbers", health)},
            "/metrics": {"get": operation("getMetrics", "Metrics for Prometheus", metrics)},
            "/openapi.json": {"get": operation("getDescription", "This description, for programs", description)},
            "/docs": {"get": operation("getPage", "This description, for people", page)},
        },
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
