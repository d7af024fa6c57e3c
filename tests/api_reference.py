"""Writes the reference of the console's API into docs/api.md, from its openapi.json.

``python -m tests.api_reference docs/api.md`` replaces what stands below the marker; a test fails when it is not what
this writes.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beanpole.console.api.document import document
from beanpole.console.api.table import OPERATIONS

MARKER = "<!-- Below is written by python -m tests.api_reference docs/api.md -->\n"

Schema = dict[str, Any]


def reference() -> str:
    """What stands below the marker."""
    made = document(OPERATIONS, [])
    lines = [
        "## Operations",
        "",
        "The paths are below `/api/v1`.",
        "",
        "| Request | What it does | Answer |",
        "|---|---|---|",
    ]
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            request = f"{method.upper()} {path.removeprefix('/api/v1')}"
            lines.append(f"| `{request}` | {described(operation)} | {answer_of(operation)} |")
    lines += ["", "## Parameters", "", "| Path | Parameter | What it is |", "|---|---|---|"]
    for path, methods in made["paths"].items():
        for name, shown in queries(methods.get("get", {})):
            lines.append(f"| `{path.removeprefix('/api/v1')}` | `{name}` | {shown} |")
    for name, schema in made["components"]["schemas"].items():
        lines += ["", f"## {name}", "", schema["description"], "", "| Field | Type | What it is |", "|---|---|---|"]
        for key, each in schema["properties"].items():
            lines.append(f"| `{key}` | {kind_of(each)} | {each.get('description', '')} |")
    return "\n".join(lines) + "\n"


def described(operation: Schema) -> str:
    """What an operation does."""
    return f"{operation['summary']} {operation.get('description', '')}".strip()


def answer_of(operation: Schema) -> str:
    """What it answers."""
    return kind_of(operation["responses"]["200"]["content"]["application/json"]["schema"])


def queries(operation: Schema) -> Iterator[tuple[str, str]]:
    """The parameters behind the question mark, and what each is."""
    for each in operation.get("parameters", ()):
        if each["in"] == "query":
            schema = each["schema"]
            given = schema.get("default")
            text = given if isinstance(given, str) else json.dumps(given)
            default = "" if given in {None, ""} else f"; without it `{text}`"
            yield each["name"], f"{kind_of(schema)}{default}. {each.get('description', '')}".strip()


def kind_of(schema: Schema) -> str:
    """A type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(kind_of(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"] if each)
    if schema["type"] == "array":
        return f"list of {kind_of(schema['items'])}"
    if schema["type"] == "object":
        return f"names with {kind_of(each)}" if (each := schema.get("additionalProperties")) else "names with anything"
    limits = f" {schema['minimum']} to {schema['maximum']}" if "minimum" in schema else ""
    return f"{schema['type']}{limits}"


def main() -> None:
    """Write the page."""
    page = Path(sys.argv[1])
    above, marker, _ = page.read_text().partition(MARKER)
    page.write_text(above + marker + "\n" + reference())


if __name__ == "__main__":
    main()
