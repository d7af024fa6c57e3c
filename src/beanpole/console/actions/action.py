"""What an action is: a verb, a server, what it is about, and what is given with it.

Two that are equal are the same action: a run knows the dry run that was made of it.
"""

from dataclasses import dataclass

from beanpole.errors import BeanpoleError


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


# --- The action -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """What is given with a verb. None: nothing, and then a job keeps what it has."""

    to: str | None = None
    """The tube into which jobs go."""

    priority: int | None = None
    delay: float | None = None
    """Seconds."""

    ttr: int | None = None
    """Seconds."""

    expire: float | None = None
    """Seconds."""

    body: bytes | None = None
    key: str | None = None
    taken: str | None = None
    """What a put does when a job has the key: keep, replace."""

    until: str | None = None
    """When a key is free again: delete, reserve."""

    seconds: int | None = None
    """Of a pause."""

    rules: str | None = None
    """Lines."""

    states: tuple[str, ...] = ()
    """Of the jobs of a tube that is cleared; none: all that nobody holds."""


NOTHING = Given()


@dataclass(frozen=True, slots=True)
class Action:
    """Something to be done."""

    verb: str
    """A key of `verbs.VERBS`."""

    server: str
    """The name of the server."""

    target: Target
    given: Given = NOTHING
