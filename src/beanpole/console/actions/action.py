"""What an action is: a verb, a server, what it is about, and what is given with it; and how fields say one.

Two that are equal are the same action: a run knows the dry run that was made of it. A form sends fields, and the API
makes them: each name has a list of values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beanpole.client.extensions import ID_MAX, RESTING, STATES
from beanpole.client.ruling import pattern_bytes
from beanpole.errors import ArgumentError, BeanpoleError
from beanpole.limits import MOMENT_S_MAX, PRI_MAX
from beanpole.operations.table import OPERATIONS, Operation, Option
from beanpole.protocol import wire
from beanpole.quantities import MOMENT_FORM, moment_of

HELD = "a worker holds it"  # why most jobs are refused


class RefusedError(BeanpoleError):
    """An action can't be done; the text says why, in a sentence. Nothing was changed."""


# --- What it is about -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ids:
    """Jobs that were chosen one by one."""

    ids: tuple[int, ...]

    def __str__(self) -> str:
        shown, more = ", ".join(map(str, self.ids[:3])), len(self.ids) - 3
        return f"job {shown}" if len(self.ids) == 1 else f"jobs {shown}" + f" and {more} more" * (more > 0)


@dataclass(frozen=True, slots=True)
class Filter:
    """The jobs of a tube in a state whose body or key has a text."""

    tube: str
    state: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.state} jobs of {self.tube}" + f" with {self.text!r}" * bool(self.text)


@dataclass(frozen=True, slots=True)
class Group:
    """The jobs that failed in a tube for the same reason."""

    tube: str
    error: str

    def __str__(self) -> str:
        return f"jobs that failed in {self.tube} for {self.error!r}"


@dataclass(frozen=True, slots=True)
class Tube:
    """A tube, or one of its groups."""

    name: str
    group: str = ""

    def __str__(self) -> str:
        return f"group {self.group} of {self.name}" if self.group else self.name


@dataclass(frozen=True, slots=True)
class Pattern:
    """What rules are set for: a tube, the beginning of names with ``*`` behind it, or ``*``."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Named:
    """A schedule, by its name."""

    name: str

    def __str__(self) -> str:
        return self.name


Target = Ids | Filter | Group | Tube | Pattern | Named

TARGETS: dict[str, tuple[type[Target], ...]] = {
    "jobs": (Ids, Filter, Group),
    "tube": (Tube,),
    "pattern": (Pattern,),
    "schedule": (Named,),
}
"""By what the table says that an operation is about."""

VERBS: dict[str, Operation] = {name: each for name, each in OPERATIONS.items() if each.is_shown}
"""The operations that the console has."""


# --- The action -------------------------------------------------------------------------------------------------------


class Given(Mapping[str, Any]):
    """What is given with a verb, by the names of its options. What is None or empty is not given."""

    __slots__ = ("_values",)

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - of any option
        self._values = {name: value for name, value in values.items() if value is not None and value != ()}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def without(self, name: str) -> "Given":
        return Given(**{each: value for each, value in self._values.items() if each != name})


NOTHING = Given()


@dataclass(frozen=True, slots=True)
class Action:
    """Something to be done."""

    verb: str  # a key of `VERBS`
    server: str  # the name of the server
    target: Target
    given: Given = NOTHING


class OfAction:
    """What is made of an action."""

    __slots__ = ()
    action: Action

    @property
    def verb(self) -> str:
        return self.action.verb

    @property
    def server(self) -> str:
        return self.action.server

    @property
    def target(self) -> str:
        return str(self.action.target)


Fields = Mapping[str, Sequence[str]]


def read_action(fields: Fields) -> Action:
    """The action that fields say. Raises RefusedError: they say none; the text is a sentence."""
    name = only_value(fields, "verb")
    verb = VERBS.get(name)
    if verb is None:
        raise RefusedError(f"there is no action {name!r}; there are {', '.join(VERBS)}")
    return Action(name, only_value(fields, "server"), target_of(verb, fields), given_of(verb, fields))


def only_value(fields: Fields, name: str) -> str:
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
        return Pattern(pattern_of(only_value(fields, "pattern")))
    if verb.about == "tube":
        group = "" if verb.name == "put" else only_value(fields, "group")
        return Tube(tube_of(only_value(fields, "tube"), "tube"), group)
    if verb.about == "schedule":
        return Named(tube_of(only_value(fields, "schedule"), "schedule"))  # they are named alike
    scope = only_value(fields, "scope")
    if scope == "chosen" and not fields.get("id"):
        raise RefusedError("no job was chosen")
    if fields.get("id") and scope != "all":
        return Ids(tuple(dict.fromkeys(whole(each, "id", ID_MAX, 1) for each in fields["id"])))
    tube = tube_of(only_value(fields, "tube"), "tube")
    if fields.get("error"):
        return Group(tube, only_value(fields, "error"))
    return Filter(tube, choice(only_value(fields, "state"), STATES, "state"), only_value(fields, "text"))


def tube_of(text: str, name: str) -> str:
    try:
        wire.tube_name(text)
    except ArgumentError as error:
        raise RefusedError(f"{name}: {error}") from None
    return text


def pattern_of(text: str) -> str:
    try:
        pattern_bytes(text)
    except ArgumentError as error:
        raise RefusedError(f"pattern: {error}") from None
    return text


PUTS = frozenset({"put", "redrive", "set-rules"})
"""What may put jobs into tubes besides that of a `to`: rules by a line ``dead:``."""


def rights_of(action: Action) -> Iterator[str]:
    """The rights to all tubes that an action needs besides `manage`."""
    if action.verb in PUTS or "to" in action.given:
        yield "put"
    if isinstance(action.target, Pattern | Named):
        yield "rules"


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
        return only_value(fields, name).replace("\r\n", "\n") if name in fields else None
    text = only_value(fields, name)
    if not text or option.kind == "text":
        return text or None
    if option.kind == "choice":
        return choice(text, words, name)
    return {"seconds": seconds, "moment": moment, "tube": tube_of}.get(option.kind, whole)(text, name)


def body_of(verb: Operation, fields: Fields) -> bytes | None:
    """The body of a job. A browser ends lines with CR LF, which nobody has typed: they end with LF.

    A job that is changed keeps its body unless the box beside the field is ticked.
    """
    if "body" not in fields or (verb.name == "change" and not only_value(fields, "with_body")):
        return None
    return only_value(fields, "body").replace("\r\n", "\n").encode("utf-8", "surrogateescape")


def whole(text: str, name: str, most: int = PRI_MAX, least: int = 0) -> int:
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


def moment(text: str, name: str) -> float:
    """A moment, in seconds since 1970. Raises RefusedError."""
    found = moment_of(text)
    if found is None or not 0 <= found <= MOMENT_S_MAX:
        raise RefusedError(f"{name}: {text[:40]!r} is no moment; {MOMENT_FORM}")
    return float(found)


def choice(text: str, choices: Sequence[str], name: str) -> str:
    if text not in choices:
        raise RefusedError(f"{name} must be {' or '.join(choices)}, not {text[:40]!r}")
    return text


def given_nothing(fields: Fields) -> bool:
    """Whether nothing that a verb takes is filled in, so that it has to be asked for."""
    verb = VERBS[only_value(fields, "verb")]
    asked = [each for each in verb.options if each.label]
    return not any(fields.get("state" if each.kind == "states" else each.name) for each in asked)


def confirmation(fields: Fields) -> tuple[int | None, int | None]:
    """The highest id of the dry run, and the number that was typed. Raises RefusedError."""
    highest = only_value(fields, "highest")
    typed = "".join(only_value(fields, "typed").replace(",", "").split())  # as the page writes it, or as somebody does
    return (
        whole(highest, "highest", ID_MAX) if highest else None,
        whole(typed, "typed", ID_MAX) if typed else None,
    )


def fields_of(action: Action, highest: int | None = None) -> list[tuple[str, str]]:
    """The fields that `read_action` makes the same action of: a form that confirms it carries them."""
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
        case Pattern(text=name) | Named(name=name):
            found.append((VERBS[action.verb].about, name))
    for name, value in action.given.items():
        if name == "body":
            found += [("body", value.decode("utf-8", "surrogateescape")), ("with_body", "1")]
        elif name != "states":
            found.append((name, str(value)))
    if highest is not None:
        found.append(("highest", str(highest)))
    return found
