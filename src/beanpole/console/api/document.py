"""The table of operations as an OpenAPI document."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.json import schema_components

import beanpole
from beanpole.console import answers
from beanpole.console.api.operations import PREFIX, Operation, Places

REF = "#/components/schemas/{name}"


class Problem(Struct):
    """What is wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="One sentence.")]


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

REFUSALS_OF_BODIES = {413: "The body is too large.", 415: "The body is no JSON."}  # and one that takes a body


Schema = dict[str, Any]


def document(operations: Sequence[Operation], servers: Sequence[str]) -> dict[str, Any]:
    """The document of a console of these servers. A client that goes by it sends nothing that is not understood."""
    kinds = [Problem, *(kind for each in operations for kind in (each.answer, each.body) if kind is not None)]
    _, known = schema_components(kinds, ref_template=REF)
    for each in known.values():
        each["description"] = each["description"].partition("\n")[0].replace("None", "null")
    for operation in operations:
        if operation.body is not None:
            known[operation.body.__name__]["properties"]["server"]["enum"] = list(servers)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(f"{PREFIX}{operation.path}", {})[operation.method.lower()] = described(operation, servers)
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
            "responses": {
                str(status): {"description": why} | content(Problem, answers.PROBLEM_TYPE)
                for status, why in (REFUSALS | REFUSALS_OF_BODIES).items()
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def described(operation: Operation, servers: Sequence[str]) -> dict[str, Any]:
    rest = " ".join((operation.run.__doc__ or "").partition("\n")[2].split())
    refusals = (*REFUSALS, *(REFUSALS_OF_BODIES if operation.body is not None else ()))
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": list(parameters(operation, servers)),
        "security": [{"token": []}] if operation.method != "GET" else [{}, {"token": []}],
        "responses": {
            "200": {"description": "OK"} | content(operation.answer),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in refusals},
        },
        **({"description": rest} if rest else {}),
        **({} if operation.body is None else {"requestBody": {"required": True} | content(operation.body)}),
    }


def content(kind: type, media_type: str = "application/json") -> dict[str, Any]:
    ((schema,), _) = schema_components([kind], ref_template=REF)
    return {"content": {media_type: {"schema": schema}}}


def parameters(operation: Operation, servers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What stands in the path, and what may stand behind the question mark."""
    there = properties(Places)
    there["server"]["enum"] = list(servers)
    for name in operation.places:
        del there[name]["default"]
        yield parameter(name, "path", there[name])
    for name, schema in properties(operation.query).items() if operation.query else ():
        if "anyOf" in schema:  # or null, which an address says by leaving it out
            schema.update(schema.pop("anyOf")[0])
            del schema["default"]
        yield parameter(name, "query", schema)


def properties(kind: type[Struct]) -> dict[str, Schema]:
    _, known = schema_components([kind], ref_template=REF)
    found: dict[str, Schema] = known[kind.__name__]["properties"]
    return found


def parameter(name: str, place: str, schema: Schema) -> dict[str, Any]:
    about = {"description": schema.pop("description")} if "description" in schema else {}
    return {"name": name, "in": place, "required": place == "path", **about, "schema": schema}
