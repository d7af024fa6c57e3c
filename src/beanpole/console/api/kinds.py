"""Types of Python as JSON Schema; `values` checks by the same: what the API promises is what it does.

A type is `int`, `float`, `str`, `bool`, a `Literal` of words, a dataclass, a list or a mapping of these, or one of them
or None. `Annotated` adds a description, a string, and the limits of this module. Bytes have no place in JSON: fields of
that type are left out.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

Kind = Any
"""A type, as annotations have it."""


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest number."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Length:
    """The least and the greatest length of a text or list."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Form:
    """What a text looks like."""

    pattern: str
    """A regular expression that finds it, in the dialect of JavaScript as well as in ours."""

    what: str
    """The same in words."""


# --- Taking types apart ----------------------------------------------------------------------------------------------


def origin_of(kind: Kind) -> Kind:
    """What a type is one of: `list` of a list of texts."""
    found: Kind = get_origin(kind)
    return found


def bare(kind: Kind) -> tuple[Kind, tuple[object, ...]]:
    """A type without `Annotated`, and what that said."""
    if origin_of(kind) is Annotated:
        inner, *said = get_args(kind)
        return inner, tuple(said)
    return kind, ()


def or_none(kind: Kind) -> Kind:
    """What a type is besides None; None itself: it can't be that."""
    if origin_of(kind) not in {Union, types.UnionType}:
        return None
    others = [each for each in get_args(kind) if each is not type(None)]
    return others[0] if len(others) == 1 and len(get_args(kind)) == 2 else None


@cache
def fields_of(kind: type) -> dict[str, Kind]:
    """The fields of a dataclass that have a place in JSON, and their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in fields(kind) if bare(hints[each.name])[0] is not bytes}


@cache
def required_of(kind: type) -> tuple[str, ...]:
    """The fields without a default."""
    return tuple(each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING)


def default_of(kind: type, name: str) -> object:
    """The default of a field; MISSING: it has none that JSON can say."""
    return next(each.default for each in fields(kind) if each.name == name)


# --- JSON Schema -----------------------------------------------------------------------------------------------------

NAMES: dict[Kind, str] = {type(None): "null", int: "integer", float: "number", str: "string", bool: "boolean"}


def schema_of(kind: Kind, known: dict[str, Schema], *, whole: bool = True) -> Schema:
    """The schema of a type. Those of dataclasses are added to `known`, and referred to.

    `whole`: each field of a dataclass is there, as in our answers; else those with a default may be left out.
    """
    kind, said = bare(kind)
    made = plain_schema(kind, known, whole=whole)
    limited = made if or_none(kind) is None else made["anyOf"][0]
    for each in said:
        if isinstance(each, str):
            made["description"] = each
        elif isinstance(each, Range):
            limited |= {"minimum": each.least, "maximum": each.most}
        elif isinstance(each, Length):
            ends = ("minLength", "maxLength") if limited["type"] == "string" else ("minItems", "maxItems")
            limited |= dict(zip(ends, (each.least, each.most), strict=True))
        elif isinstance(each, Form):
            limited["pattern"] = each.pattern
    return made


def plain_schema(kind: Kind, known: dict[str, Schema], *, whole: bool) -> Schema:
    """The schema of a type without `Annotated` around it."""
    if kind in NAMES:
        return {"type": NAMES[kind]}
    origin, arguments = origin_of(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema_of(each, known, whole=whole) for each in arguments]}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in {list, Sequence}:
        return {"type": "array", "items": schema_of(arguments[0], known, whole=whole)}
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], known, whole=whole)}
    assert is_dataclass(kind), f"JSON has no {kind}"
    assert isinstance(kind, type)
    if kind.__name__ not in known:
        known[kind.__name__] = {}  # it may refer to itself
        known[kind.__name__] = object_schema(kind, known, whole=whole)
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def object_schema(kind: type, known: dict[str, Schema], *, whole: bool) -> Schema:
    """The schema of a dataclass."""
    properties = {}
    for name, each in fields_of(kind).items():
        properties[name] = schema_of(each, known, whole=whole)
        default = default_of(kind, name)
        if not whole and isinstance(default, int | float | str):
            properties[name]["default"] = default
    required = list(fields_of(kind)) if whole else list(required_of(kind))
    made: Schema = {
        "type": "object",
        "description": first_line(kind.__doc__).replace("None", "null"),
        "properties": properties,
    }
    if required:
        made["required"] = required
    if not whole:
        made["additionalProperties"] = False
    return made


def first_line(text: str | None) -> str:
    """The first line of a docstring."""
    return (text or "").strip().partition("\n")[0]
