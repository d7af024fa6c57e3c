"""The description of the HTTP API, for programs (OpenAPI 3.1) and for people (a page that needs no network).

The page is made from the description, so both say the same; a test compares the description with what is answered.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from beanpole_ids import limits

PROBLEMS: dict[str, tuple[int, str, str]] = {
    "bad-request": (400, "Bad request", "The request makes no sense; `detail` says why. Don't send it again."),
    "forbidden": (403, "Forbidden", "The rule is not for this application: the configuration says for which it is."),
    "unknown-path": (404, "Unknown path", "Nothing is served at this path."),
    "unknown-rule": (404, "Unknown rule", "The configuration has no rule of this name."),
    "unused": (404, "Unused", "Nobody has asked for a number of this counter."),
    "unmarked": (403, "Not marked", "A GET gives numbers only with the field `X-Beanpole`. Send that, or a POST."),
    "other-site": (403, "Other site", "A browser asks for a page of another site, which `Origin` names."),
    "not-from-here": (403, "Not from here", "Only networks that the configuration names may ask for this."),
    "wrong-method": (405, "Wrong method", "The path does not take this method; the field `Allow` says which."),
    "late": (408, "Too late", "The request did not come whole in time."),
    "refused": (409, "Refused", "The configuration has a fault, which `detail` says. Nothing has changed."),
    "exhausted": (409, "Exhausted", "The cycle's numbers are given; `resets_at` says when counting starts again."),
    "too-large": (413, "Too large", "The body is too large. None is needed."),
    "not-json": (415, "Not JSON", "A body must be a JSON object, with `Content-Type: application/json`."),
    "unknown-host": (421, "Unknown name", "`Host` is neither an address nor a name that the configuration has."),
    "limited": (429, "Limited", "A limit of the configuration is reached; `retry_s` says when to ask again, if ever."),
    "long-head": (431, "Too large", "The first line and the fields are too large."),
    "failed": (500, "Rule failed", "The rule made no number, or there are too many applications; `detail` says why."),
    "storage": (503, "Storage", "Nothing can be reserved. Ask again, or another node."),
    "clock": (503, "Clock", "The node's clock has jumped ahead and nobody has accepted it. Ask another node."),
    "busy": (503, "Busy", "Too many connections, in all or from one address; see `/health` all the same."),
}
"""Everything that can go wrong: its name, which `type` ends with, the status, the title, and what it means."""

STRING = {"type": "string"}
WHOLE = {"type": "integer"}
MOMENT = {"type": ["string", "null"], "format": "date-time"}


def thing(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object."""
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
    """Return the schema of a list."""
    return {"type": "array", "items": schema} | ({"minItems": least} if least else {})


def reference(name: str) -> dict[str, Any]:
    """Return a reference to a schema."""
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


def content(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a response."""
    return {kind: {"schema": schema}}


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
    parameter("count", "query", "how many numbers", WHOLE | {"minimum": 1, "maximum": limits.COUNT_MAX, "default": 1}),
    parameter(
        "request_id",
        "query",
        f"the same again, with the same count, gets the same numbers for {limits.WINDOW_S} s while it runs",
        STRING,
    ),
    parameter("salt", "query", "what the rule puts into the number", STRING),
]


MARK = parameter("X-Beanpole", "header", "any value: says that no page of another site asks", STRING) | {
    "required": True
}
PAGE = [
    parameter("after", "query", "the application behind which the page begins", STRING),
    parameter(
        "limit",
        "query",
        "how many counters",
        WHOLE | {"minimum": 1, "maximum": limits.HTTP_PAGE_MAX, "default": limits.HTTP_PAGE_DEFAULT},
    ),
]


def operation(
    name: str, summary: str, responses: dict[str, Any], parameters: Sequence[dict[str, Any]] = (), body: str = ""
) -> dict[str, Any]:
    """Return the description of a path and a method; `body`: the schema of the body that it may have."""
    found: dict[str, Any] = {"operationId": name, "summary": summary}
    if parameters:
        found["parameters"] = [*parameters]
    if body:
        found["requestBody"] = {"content": content("application/json", reference(body))}
    return found | {"responses": responses}


def document(version: str) -> dict[str, Any]:
    """Return the description as OpenAPI has it."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Beanpole ID service",
            "version": version,
            "description": "Unique, readable numbers that never repeat. Nearly every path is served to everybody.",
        },
        "paths": number_paths() | watching_paths(),
        "components": {"schemas": SCHEMAS},
    }


def number_paths() -> dict[str, Any]:
    """Return what is said of numbers, rules and counters."""
    wrong = ("bad-request", "unmarked", "other-site", "unknown-rule", "too-large", "not-json", "unknown-host")
    names = (*wrong, "forbidden", "late", "exhausted", "limited", "long-head", "failed", "storage", "clock")
    given = ok("The numbers, each given to nobody else", "application/json", reference("Ids")) | problems(*names)
    counter = ok("How it stands", "application/json", reference("Counter")) | problems(
        "bad-request", "unknown-rule", "unused", "unknown-host", "storage"
    )
    known = problems("bad-request", "unknown-rule", "unknown-host")
    counters = ok("Those in memory, by name", "application/json", reference("Counters")) | known
    rules = ok("All of them, by name", "application/json", reference("Rules")) | problems("bad-request", "unknown-host")
    rule = ok("What it is", "application/json", reference("Rule")) | known
    reloaded = ok("What has changed", "application/json", reference("Reloaded")) | problems(
        "bad-request", "other-site", "not-from-here", "refused", "unknown-host"
    )
    return {
        "/v1/ids/{rule}/{app}": {
            "post": operation("postIds", "Get numbers", given, KEY + QUERY, "Wanted"),
            "get": operation("getIds", "The same, for programs that only send GET", given, [*KEY, *QUERY, MARK]),
        },
        "/v1/counters/{rule}/{app}": {
            "get": operation("getCounter", "See how a counter stands on this node", counter, KEY)
        },
        "/v1/counters/{rule}": {
            "get": operation("getCounters", "See the counters of a rule on this node", counters, [KEY[0], *PAGE])
        },
        "/v1/rules": {"get": operation("getRules", "See all rules", rules)},
        "/v1/rules/{rule}": {"get": operation("getRule", "See a rule", rule, KEY[:1])},
        "/v1/reload": {"post": operation("postReload", "Read the rules again, all or none", reloaded)},
    }


def watching_paths() -> dict[str, Any]:
    """Return what is said of the rest."""
    health = ok("It can", "application/json", reference("Health")) | {
        "503": {"description": "It can't", "content": content("application/json", reference("Health"))}
    }
    metrics = ok("In the text format", "text/plain", STRING)
    description = ok("OpenAPI 3.1", "application/json", {"type": "object"})
    page = ok("A page", "text/html", STRING)
    return {
        "/health": {"get": operation("getHealth", "Ask whether it can give numbers", health)},
        "/metrics": {"get": operation("getMetrics", "Metrics for Prometheus", metrics)},
        "/openapi.json": {"get": operation("getDescription", "This description, for programs", description)},
        "/docs": {"get": operation("getPage", "This description, for people", page)},
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
