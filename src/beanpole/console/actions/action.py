"""What an action is: a verb, a server, what it is about, and what is given with it.

Two that are equal are the same action: a run knows the dry run that was made of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from beanpole.errors import BeanpoleError
from beanpole.operations.table import OPERATIONS, Operation


class RefusedError(BeanpoleError):
    """An action can't be done; the text says why, in a sentence. Nothing was changed."""


# --- What it is about -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ids:
    """Jobs that were chosen one by one."""

    ids: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.ids[:3]))
        return f"job {shown}" if len(self.ids) == 1 else f"jobs {shown}" + ", …" * (len(self.ids) > 3)


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
    """A tube."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Pattern:
    """What rules are set for: a tube, the beginning of names with ``*`` behind it, or ``*``."""

    text: str

    def __str__(self) -> str:
        return self.text


Target = Ids | Filter | Group | Tube | Pattern

TARGETS: dict[str, tuple[type[Target], ...]] = {"jobs": (Ids, Filter, Group), "tube": (Tube,), "pattern": (Pattern,)}
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

    def __repr__(self) -> str:
        return f"Given({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def without(self, name: str) -> "Given":
        """Return the same but for one option."""
        return Given(**{each: value for each, value in self._values.items() if each != name})


NOTHING = Given()


@dataclass(frozen=True, slots=True)
class Action:
    """Something to be done."""

    verb: str
    """A key of `VERBS`."""

    server: str
    """The name of the server."""

    target: Target
    given: Given = NOTHING


class OfAction:
    """What is made of an action."""

    __slots__ = ()
    action: Action

    @property
    def verb(self) -> str:
        """What is done."""
        return self.action.verb

    @property
    def server(self) -> str:
        """The name of the server."""
        return self.action.server

    @property
    def target(self) -> str:
        """What it is about, in words."""
        return str(self.action.target)
