"""What the form of an action asks for, verb by verb."""

from collections.abc import Iterator
from dataclasses import dataclass

from beanpole.console.actions.action import VERBS
from beanpole.operations.table import Operation
from beanpole.protocol.rules import RULES

KNOWN_RULES = [(f"{name}: {rule.form}", rule.effect) for name, rule in RULES.items()]
"""The rules that there are, and what each does."""


@dataclass(frozen=True, slots=True)
class Input:
    """A field of a form."""

    name: str
    label: str
    kind: str = "number"
    """number, seconds, text, tube, area, choice, states, tick."""

    hint: str = ""
    value: str = ""
    """What stands in it in the beginning."""

    choices: tuple[tuple[str, str], ...] = ()
    is_wanted: bool = False


def inputs_of(verb: Operation) -> Iterator[Input]:
    """The fields of a form, in the order of the options; empty: it asks for nothing."""
    if verb.name == "put":
        yield Input("tube", "Tube", "tube", is_wanted=True)
    if verb.name == "set-rules":
        hint = "a name, the beginning of names with * behind it, or *"
        yield Input("pattern", "Tubes", "text", hint, is_wanted=True)
    for each in verb.options:
        if verb.name == "change" and each.kind == "body":
            yield Input("with_body", "Replace the body by this one", "tick")
        if each.label:
            value = "" if each.value is None or (each.name == "delay" and each.is_required) else str(each.value)
            choices = tuple((word if place else "", text) for place, (word, text) in enumerate(each.choices))
            name = "state" if each.kind == "states" else each.name
            kind = KINDS.get(each.kind, each.kind)
            yield Input(name, each.label, kind, each.hint, value, choices, each.is_required)


KINDS = {"priority": "number", "ttr": "number", "body": "area", "rules": "area"}
"""Kinds of options that are fields of another kind."""

INPUTS: dict[str, tuple[Input, ...]] = {
    name: inputs for name, verb in VERBS.items() if name != "bury" and (inputs := tuple(inputs_of(verb)))
}
"""By verb; others ask for nothing. A priority for buried jobs is for the API."""

FILLED = "filled"
"""The field of a form that was filled in: without it, an action that asks for something shows its form first."""
