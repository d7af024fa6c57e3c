"""Values of JSON checked by types, and values that we have as JSON."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Literal, get_args

from beanpole.console.api.kinds import Form, Kind, Length, Range, bare, fields_of, or_none, origin_of, required_of

SURROGATES = re.compile("[\ud800-\udfff]")
"""What stands for bytes that are no text, and what a text of JSON can have though no text in UTF-8 does."""

Json = Kind


class WrongError(Exception):
    """A value is not what its type asks for; the text is a sentence."""


# --- What comes -------------------------------------------------------------------------------------------------------


def checked(kind: Kind, value: object, name: str) -> Json:
    """A value of JSON as its type. Raises WrongError."""
    kind, said = bare(kind)
    other = or_none(kind)
    if other is not None and value is None:
        return None
    made = checker_of(kind)(kind, value, name) if other is None else checked(other, value, name)
    for each in said:
        check_limit(each, made, name)
    return made


def checker_of(kind: Kind) -> Callable[[Kind, object, str], object]:
    """What checks values of a type."""
    if is_dataclass(kind):
        return an_object
    return CHECKERS[origin_of(kind) or kind]


def an_object(kind: Kind, value: object, name: str) -> object:
    """An object of JSON as a dataclass. Raises WrongError."""
    if not isinstance(value, dict):
        raise WrongError(f"{name} must be an object, not {shown(value)}")
    there = fields_of(kind)
    for each in value:
        if each not in there:
            raise WrongError(f"{name} has no field {shown(each)}; there are {', '.join(there)}")
    for each in required_of(kind):
        if each not in value:
            raise WrongError(f"{name} needs {each}")
    return kind(**{each: checked(there[each], found, each) for each, found in value.items()})


def a_list(kind: Kind, value: object, name: str) -> object:
    """A list. Raises WrongError."""
    if not isinstance(value, list):
        raise WrongError(f"{name} must be a list, not {shown(value)}")
    (of,) = get_args(kind)
    return [checked(of, each, f"{name}[{place}]") for place, each in enumerate(value)]


def a_word(kind: Kind, value: object, name: str) -> object:
    """One of some words. Raises WrongError."""
    words = get_args(kind)
    if not isinstance(value, str) or value not in words:
        raise WrongError(f"{name} must be {' or '.join(words)}, not {shown(value)}")
    return value


def a_text(_: Kind, value: object, name: str) -> object:
    """A text. Raises WrongError."""
    if not isinstance(value, str):
        raise WrongError(f"{name} must be a string, not {shown(value)}")
    if SURROGATES.search(value):
        raise WrongError(f"{name} must be text in UTF-8")
    return value


def a_flag(_: Kind, value: object, name: str) -> object:
    """True or false. Raises WrongError."""
    if not isinstance(value, bool):
        raise WrongError(f"{name} must be true or false, not {shown(value)}")
    return value


def a_number(kind: Kind, value: object, name: str) -> object:
    """A number. Raises WrongError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if kind is int and value % 1 == 0:  # JSON Schema counts 1.0 as an integer
            return int(value)
        if kind is float and abs(value) < 10**300:
            return value
    raise WrongError(f"{name} must be a {'whole ' * (kind is int)}number, not {shown(value)}")


CHECKERS: Mapping[Kind, Callable[[Kind, object, str], object]] = {
    list: a_list,
    Sequence: a_list,
    Literal: a_word,
    str: a_text,
    bool: a_flag,
    int: a_number,
    float: a_number,
}


def check_limit(limit: object, value: Json, name: str) -> None:
    """Holds a value against what its type says besides. Raises WrongError."""
    if isinstance(limit, Range) and not limit.least <= value <= limit.most:
        raise WrongError(f"{name} must be from {limit.least} to {limit.most}, not {shown(value)}")
    if isinstance(limit, Length) and not limit.least <= len(value) <= limit.most:
        what = "characters" if isinstance(value, str) else "items"
        raise WrongError(f"{name} must have {limit.least} to {limit.most} {what}, not {len(value)}")
    if isinstance(limit, Form) and not re.fullmatch(limit.pattern, value):
        raise WrongError(f"{name} must be {limit.what}, not {shown(value)}")


def shown(value: object) -> str:
    """What was sent, shortened."""
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more digits"
    text = repr(value[:60] if isinstance(value, str | list) else value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def from_text(kind: Kind, text: str, name: str) -> Json:
    """What stands in an address as its type. Raises WrongError."""
    inner = bare(kind)[0]
    inner = bare(or_none(inner) or inner)[0]
    value: object = text
    if inner is int:
        if not re.fullmatch("[0-9]{1,20}", text):
            raise WrongError(f"{name} must be a whole number, not {shown(text)}")
        value = int(text)
    elif inner is bool:
        value = {"true": True, "false": False}.get(text, text)
    return checked(kind, value, name)


# --- What goes --------------------------------------------------------------------------------------------------------


def plain(value: object) -> Json:
    """A value as JSON has it. A number that is none, a gap in a series say, is null."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return SURROGATES.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {plain(str(name)): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    assert is_dataclass(value), f"JSON has no {type(value)}"
    kind: Kind = type(value)
    return {name: plain(getattr(value, name)) for name in fields_of(kind)}
