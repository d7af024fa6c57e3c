"""The table of operations as an OpenAPI document."""

from collections.abc import Sequence
from typing import Any

import beanpole
from beanpole.console import problems
from beanpole.console.api.kinds import Schema, default_of, fields_of, schema_of
from beanpole.console.api.operations import PLACES, PREFIX, Operation

PROBLEM: Schema = {
    "type": "object",
    "description": "What is wrong (RFC 9457).",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence."},
    },
    "required": ["type", "title", "status", "detail"],
}

REFUSALS = {
    400: "What was sent is not what it should be.",
    401: "A token is needed, and there was none that is known.",
    403: "It is not allowed.",
    404: "There is no such thing.",
    409: "The server's answer is no.",
    501: "The server does not know the command that this needs.",
    503: "The server is away.",
}
"""What any operation may answer."""

REFUSALS_OF_BODIES = {413: "The body is too large.", 415: "The body is no JSON."}
"""And one that takes a body."""


def document(operations: Sequence[Operation], servers: Sequence[str]) -> dict[str, Any]:
    """The document of a console of these servers. A client that goes by it sends nothing that is not understood."""
    known: dict[str, Schema] = {"Problem": PROBLEM}
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(f"{PREFIX}{each.path}", {})[each.method.lower()] = described(each, known, servers)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Beanpole",
            "version": beanpole.__version__,
            "description": "What the pages of the console show and do, as JSON.",
        },
        "paths": paths,
        "components": {
            "schemas": known,
            "responses": {str(status): refusal(why) for status, why in (REFUSALS | REFUSALS_OF_BODIES).items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def described(operation: Operation, known: dict[str, Schema], servers: Sequence[str]) -> dict[str, Any]:
    """An operation, whose schemas are added to `known`."""
    rest = (operation.run.__doc__ or "").partition("\n")[2]
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters(operation, known, servers),
        "security": [{"token": []}] if operation.method != "GET" else [{}, {"token": []}],
        "responses": responses(operation, known),
    }
    if rest.strip():
        made["description"] = " ".join(rest.split())
    if operation.body is not None:
        schema = schema_of(operation.body, known, whole=False)
        known[operation.body.__name__]["properties"]["server"]["enum"] = list(servers)
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return made


def parameters(operation: Operation, known: dict[str, Schema], servers: Sequence[str]) -> list[dict[str, Any]]:
    """What stands in the path, and what may stand behind the question mark."""
    made = [parameter(name, "path", schema_of(PLACES[name], known)) for name in operation.places]
    for each in made:
        if each["name"] == "server":
            each["schema"] |= {"enum": list(servers)}
    for name, kind in fields_of(operation.query).items() if operation.query else ():
        schema = schema_of(kind, known)
        if "anyOf" in schema:  # or null, which an address says by leaving it out
            schema |= schema.pop("anyOf")[0]
        default = default_of(operation.query, name)
        if isinstance(default, int | str):
            schema["default"] = default
        made.append(parameter(name, "query", schema))
    return made


def parameter(name: str, place: str, schema: Schema) -> dict[str, Any]:
    """One parameter."""
    made: dict[str, Any] = {"name": name, "in": place, "required": place == "path"}
    if "description" in schema:
        made["description"] = schema.pop("description")
    return made | {"schema": schema}


def responses(operation: Operation, known: dict[str, Schema]) -> dict[str, Any]:
    """What it answers, by status."""
    schema = schema_of(operation.answer, known)
    made: dict[str, Any] = {
        "200": {
            "description": "OK",
            "content": {"application/json": {"schema": schema}},
        }
    }
    for status in (*REFUSALS, *(REFUSALS_OF_BODIES if operation.body is not None else ())):
        made[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return made


def refusal(why: str) -> dict[str, Any]:
    """A mistake of a request or a fault of a server."""
    return {
        "description": why,
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
