"""Reads an action from fields, as a form sends them and the API makes them: each name has a list of values."""

from collections.abc import Mapping, Sequence

from beanpole.client.extensions import ID_MAX, RESTING, STATES
from beanpole.client.ruling import pattern_bytes
from beanpole.console.actions.action import (
    VERBS,
    Action,
    Filter,
    Given,
    Group,
    Ids,
    Pattern,
    RefusedError,
    Target,
    Tube,
)
from beanpole.errors import ArgumentError
from beanpole.limits import PRI_MAX
from beanpole.operations.table import Operation, Option
from beanpole.protocol import wire

Fields = Mapping[str, Sequence[str]]


def read(fields: Fields) -> Action:
    """The action that fields say. Raises RefusedError: they say none; the text is a sentence."""
    name = one(fields, "verb")
    verb = VERBS.get(name)
    if verb is None:
        raise RefusedError(f"there is no action {name!r}; there are {', '.join(VERBS)}")
    return Action(name, one(fields, "server"), target_of(verb, fields), given_of(verb, fields))


def one(fields: Fields, name: str) -> str:
    """The value of a field; empty: it is not there. Raises RefusedError: it is there twice."""
    values = fields.get(name, ())
    if len(values) > 1:
        raise RefusedError(f"{name} is there {len(values)} times")
    return values[0] if values else ""


# --- What it is about -------------------------------------------------------------------------------------------------


def target_of(verb: Operation, fields: Fields) -> Target:
    """What the action is about: the jobs that are named, or those that a filter finds. Raises RefusedError.

    A form that has both says which in `scope`.
    """
    if verb.about == "pattern":
        return Pattern(pattern_of(one(fields, "pattern")))
    if verb.about == "tube":
        return Tube(tube_of(one(fields, "tube"), "tube"))
    scope = one(fields, "scope")
    if scope == "chosen" and not fields.get("id"):
        raise RefusedError("no job was chosen")
    if fields.get("id") and scope != "all":
        return Ids(tuple(dict.fromkeys(whole(each, "id", ID_MAX, 1) for each in fields["id"])))
    tube = tube_of(one(fields, "tube"), "tube")
    if fields.get("error"):
        return Group(tube, one(fields, "error"))
    return Filter(tube, choice(one(fields, "state"), STATES, "state"), one(fields, "text"))


def tube_of(text: str, name: str) -> str:
    """The name of a tube. Raises RefusedError."""
    try:
        wire.tube_name(text)
    except ArgumentError as error:
        raise RefusedError(f"{name}: {error}") from None
    return text


def pattern_of(text: str) -> str:
    """A pattern. Raises RefusedError."""
    try:
        pattern_bytes(text)
    except ArgumentError as error:
        raise RefusedError(f"pattern: {error}") from None
    return text


# --- What is given ----------------------------------------------------------------------------------------------------


def given_of(verb: Operation, fields: Fields) -> Given:
    """What is given with the verb: an empty field says nothing. Raises RefusedError."""
    return Given(**{option.name: value_of(verb, option, fields) for option in verb.options})


def value_of(verb: Operation, option: Option, fields: Fields) -> object:
    """The value of an option; None: it is not given. Raises RefusedError."""
    name, words = option.name, [word for word, _ in option.choices if word]
    if option.kind == "states":
        return tuple(dict.fromkeys(choice(each, RESTING, "state") for each in fields.get("state", ())))
    if option.kind == "body":
        return body_of(verb, fields)
    if option.kind == "rules":
        return one(fields, name).replace("\r\n", "\n") if name in fields else None
    text = one(fields, name)
    if not text or option.kind == "text":
        return text or None
    if option.kind == "choice":
        return choice(text, words, name)
    return {"seconds": seconds, "tube": tube_of}.get(option.kind, whole)(text, name)


def body_of(verb: Operation, fields: Fields) -> bytes | None:
    """The body of a job. A browser ends lines with CR LF, which nobody has typed: they end with LF.

    A job that is changed keeps its body unless the box beside the field is ticked.
    """
    if "body" not in fields or (verb.name == "change" and not one(fields, "with_body")):
        return None
    return one(fields, "body").replace("\r\n", "\n").encode("utf-8", "surrogateescape")


def whole(text: str, name: str, most: int = PRI_MAX, least: int = 0) -> int:
    """A whole number. Raises RefusedError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and least <= int(text) <= most):
        raise RefusedError(f"{name} must be a whole number from {least} to {most}, not {text[:40]!r}")
    return int(text)


def seconds(text: str, name: str) -> float:
    """Seconds, with up to three decimals. Raises RefusedError."""
    before, point, behind = text.partition(".")
    digits = before + behind
    if not (digits.isascii() and digits.isdigit() and before and len(behind) <= 3 and len(before) <= 10):
        raise RefusedError(f"{name} must be seconds from 0 to {PRI_MAX}, with up to three decimals, not {text[:40]!r}")
    found = float(text) if point else int(text)
    if found > PRI_MAX:
        raise RefusedError(f"{name} must be seconds from 0 to {PRI_MAX}, not {text}")
    return found


def choice(text: str, choices: Sequence[str], name: str) -> str:
    """One of some words. Raises RefusedError."""
    if text not in choices:
        raise RefusedError(f"{name} must be {' or '.join(choices)}, not {text[:40]!r}")
    return text


def given_nothing(fields: Fields) -> bool:
    """Whether nothing that a verb takes is filled in, so that it has to be asked for."""
    verb = VERBS[one(fields, "verb")]
    return not any(fields.get("state" if each.kind == "states" else each.name) for each in verb.options)


def confirmation(fields: Fields) -> tuple[int | None, int | None]:
    """The highest id of the dry run, and the number that was typed. Raises RefusedError."""
    highest = one(fields, "highest")
    typed = "".join(one(fields, "typed").replace(",", "").split())  # as the page writes it, or as somebody does
    return (
        whole(highest, "highest", ID_MAX) if highest else None,
        whole(typed, "typed", ID_MAX) if typed else None,
    )


def fields_of(action: Action, highest: int | None = None) -> list[tuple[str, str]]:
    """The fields that `read` makes the same action of: a form that confirms it carries them."""
    found = [("verb", action.verb), ("server", action.server)]
    match action.target:
        case Ids(ids=ids):
            found += [("id", str(id)) for id in ids]
        case Filter(tube=tube, state=state, text=text):
            found += [("tube", tube), ("state", state), ("text", text)]
        case Group(tube=tube, error=error):
            found += [("tube", tube), ("error", error)]
        case Tube(name=name):
            found += [("tube", name), *(("state", state) for state in action.given.get("states", ()))]
        case Pattern(text=text):
            found.append(("pattern", text))
    for name, value in action.given.items():
        if name == "body":
            found += [("body", value.decode("utf-8", "surrogateescape")), ("with_body", "1")]
        elif name != "states":
            found.append((name, str(value)))
    if highest is not None:
        found.append(("highest", str(highest)))
    return found
