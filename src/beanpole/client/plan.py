"""Plans: what takes more than one round trip, or more than one command. No I/O.

A plan is a generator that yields a :class:`Shipment`; whoever drives it sends the data, fills in the replies and
resumes it with None, or with what broke the connection. Its return value is that of the command. A shipment is encoded
when it is asked for, so nothing may be awaited between that and sending it.

What needs an extension of the server asks for its list first (:func:`ask`), once a connection.
"""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from beanpole.client.about import about, named
from beanpole.client.session import LIST_EXTENSIONS, Session
from beanpole.errors import BeanpoleError, ConnectionLostError, UnexpectedReplyError, UnsupportedError
from beanpole.protocol.wire import Call, Reply

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Shipment:
    """Commands that go together, and the replies that came."""

    data: bytes = field(repr=False)  # which may be a token
    count: int
    """How many replies there will be."""
    wait_s: float | None = 0
    """Seconds that the server may wait before it replies; None: no limit."""
    reserves: bool = False
    """Whether the jobs of a JOBS are reserved by this: then they must not be lost."""
    replies: list[Reply] = field(default_factory=list)


Plan = Generator[Shipment, "ConnectionLostError | UnexpectedReplyError | None", T]
Broken = (ConnectionLostError, UnexpectedReplyError)
"""The errors after which the connection can't be used any more; a plan is resumed with one of them."""


def exchange(data: bytes, count: int, wait_s: float | None = 0, *, reserves: bool = False) -> Plan[list[Reply]]:
    """Sends commands and returns their replies. Raises what breaks the connection."""
    shipment = Shipment(data, count, wait_s, reserves=reserves)
    broken = yield shipment
    if broken is not None:
        raise broken
    return shipment.replies


class Result(Generic[T]):
    """What a command of a pipeline will return."""

    __slots__ = ("_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        """Whether there is a value or an error."""
        self.error: BeanpoleError | None = None
        """The error of the command; None: it succeeded, or is not done."""

    def succeed(self, value: T) -> None:
        self._value = value
        self.done = True

    def fail(self, error: BeanpoleError) -> None:
        self.error = error
        self.done = True

    def result(self) -> T:
        """The value of the command. Raises its error; RuntimeError if the pipeline has not been sent."""
        if self.error is not None:
            raise self.error
        if not self.done:
            raise RuntimeError("the pipeline has not been sent: leave its with block, or call flush()")
        return self._value


Queue = deque["tuple[Call[Any], Result[Any]]"]
"""Commands that are not sent yet, each with its result."""


# --- What the server has ----------------------------------------------------------------------------------------------


def ask(session: Session[Any]) -> Plan[None]:
    """Has the server list its extensions, if it was not asked over this connection; new ones begin with that then.

    Raises ConnectionLostError, and nothing else was sent.
    """
    session.asks = True
    if session.features is None:
        connection = session.connection
        shipment = Shipment(LIST_EXTENSIONS, 1)
        broken = yield shipment
        if broken is not None:
            raise ConnectionLostError(str(broken), outcome_unknown=False) from broken
        session.listed(shipment.replies[0], connection)
        if session.features is None:
            raise ConnectionLostError("the connection is closed", outcome_unknown=False)


def has(session: Session[Any], *needs: str) -> Plan[bool]:
    yield from ask(session)
    return session.missing(needs) is None


def planned(data: bytes, plan: Callable[[], Plan[T]]) -> "Call[T]":
    """A call that is a plan, whatever the server has; `data` is the command that it stands for."""
    return Call(data, 0, needs=("",), instead=plan)


def run_call(session: Session[Any], call: "Call[T]") -> Plan[T]:
    """Runs a call that needs something of the server, or what is to be done instead.

    Raises UnsupportedError, and the call was not sent.
    """
    yield from ask(session)
    missing = session.missing(call.needs)
    if missing is None:
        data, count = session.encode(call)
        used = session.used
        shipment = Shipment(data, count, call.wait_s, reserves=call.data.startswith(b"reserve-many"))
        broken = yield shipment
        # A refusal of the tube may be what broke the connection.
        session.check_prefixes(shipment.replies[: count - 1], call.data, used)
        if broken is not None:
            raise broken
        return session.finish(call, shipment.replies[-1], used)
    if call.instead is None:
        raise UnsupportedError(missing)
    try:
        value: T = yield from call.instead()
    except BeanpoleError as error:
        raise named(error, about(call.data, call.tube or session.using))  # noqa: B904 - it is the same error
    return value
