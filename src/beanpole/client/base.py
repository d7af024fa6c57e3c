"""What both clients share: their options, stated once, and the commands that go in batches. No I/O."""

import socket
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Self, TypedDict, TypeVar, cast

import beanpole
from beanpole.client import batch, limits
from beanpole.client.address import Address, Addresses, OneAddress
from beanpole.client.backoff import Backoff
from beanpole.client.codec import BytesCodec, Codec, TextCodec
from beanpole.client.commands import Commands, batch_command
from beanpole.client.errors import CannotConnectError
from beanpole.client.extended import Extended
from beanpole.client.extensions import name_bytes
from beanpole.client.job import Job
from beanpole.client.naming import own_name, program
from beanpole.client.plan import Plan
from beanpole.client.ruling import Rules
from beanpole.client.session import DEFAULT_TUBE, USED, Session
from beanpole.errors import ArgumentError
from beanpole.protocol import wire

B = TypeVar("B")

Given = OneAddress | Sequence[OneAddress] | Addresses | socket.socket
"""What may be given as an address, or as several."""

Tubes = str | Iterable[str]
"""One tube, or several."""


class Options(TypedDict, total=False):
    """The options that are given by name; :class:`~beanpole.client.sync.Client` explains them."""

    timeout: float | None
    connect_timeout: float | None
    backoff: Backoff | None
    repeat: bool
    name: str | None


class BaseClient(Commands[B], Extended[B], Generic[B]):
    """What :class:`~beanpole.client.sync.Client` and :class:`~beanpole.client.aio.AsyncClient` share."""

    def __init__(
        self,
        address: Given,
        encoding: str | None = "utf-8",
        use: str = DEFAULT_TUBE,
        watch: Tubes = DEFAULT_TUBE,
        *,
        codec: Codec[B] | None = None,
        timeout: float | None = limits.TIMEOUT_MS / 1000,
        connect_timeout: float | None = limits.CONNECT_TIMEOUT_MS / 1000,
        backoff: Backoff | None = None,
        repeat: bool = False,
        name: str | None = None,
    ) -> None:
        durations: dict[str, object] = {"timeout": timeout, "connect_timeout": connect_timeout}
        for option, seconds in durations.items():
            if not (seconds is None or (isinstance(seconds, int | float) and seconds > 0)):
                raise ArgumentError(
                    f"{option} must be a number of seconds above 0, or None for no limit, not {seconds!r}"
                )
        if isinstance(codec, type):
            raise ArgumentError(f"a codec is an object: codec={codec.__name__}(), not codec={codec.__name__}")
        self._given_socket = address if isinstance(address, socket.socket) else None
        if isinstance(address, socket.socket):
            address = Address()
        self._addresses = address if isinstance(address, Addresses) else Addresses(Address.of(address))
        self._address = self._addresses.current
        known = cast("Codec[B]", codec or (BytesCodec() if encoding is None else TextCodec(encoding)))
        if name:
            name_bytes(name)
        self._session = Session(known, use, [watch] if isinstance(watch, str) else watch, self._called)
        self._called_by_caller = name
        self._timeout_s = timeout
        self._connect_timeout_s = connect_timeout
        self._backoff = backoff or Backoff()
        self._repetitions = self._backoff.attempts - 1 if repeat else 0
        """How often a command whose outcome is unknown is sent again."""
        self._name = "on a given socket" if self._given_socket else str(self._addresses.server)

    def _called(self) -> str:
        """What a new connection is called."""
        given = self._called_by_caller
        return own_name(f"{program()} {beanpole.__version__}") if given is None else given

    @classmethod
    def from_url(cls, url: str, **kwargs: Any) -> Self:  # noqa: ANN401 - what the constructor takes
        """A client of the server at ``beanstalk://host:port`` or ``unix:path``; the rest is the constructor's.

        The nodes of a cluster are separated by commas: ``beanstalk://a:11300,b:11300``.

        Raises ArgumentError for an invalid URL.
        """
        return cls(Address.from_url(url), **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    @property
    def address(self) -> Address:
        """Where the client is connected, was last, or tried to be last: one of the addresses that it was given."""
        return self._address

    # --- More than one command ---

    @batch_command
    def reserve_many(self, count: int, timeout: float | None = None) -> Plan[list[Job[B]]]:
        """Waits like :meth:`reserve`, and takes up to `count` jobs that are ready then, in one round trip.

        The command is ``reserve-many``, which gives at most 1 000 jobs with 256 KiB of bodies, each with its `info`. On
        a server that does not know it, they are one ``reserve`` or ``reserve-with-timeout``, of `timeout` seconds, and
        others that do not wait; then the seconds are whole.

        Raises TimedOutError or DeadlineSoonError if there is none, BatchError if the body of one can't be decoded, and
        UnsupportedError for a fraction of a second that the server can't wait.
        """
        return batch.reserve_many(self._session, count, timeout)

    @batch_command
    def put_many(
        self,
        bodies: Iterable[B],
        priority: int = limits.PRI_DEFAULT,
        delay: int = 0,
        ttr: int = limits.TTR_S_DEFAULT,
        *,
        tube: str = USED,
    ) -> Plan[list[int]]:
        """Puts a job for each body (``put``), many a round trip, and returns their ids in the same order.

        `bodies` is read as it is sent; the rest is that of :meth:`put`. Raises BatchError when not all were put: its
        results say which.
        """
        return batch.put_many(self._session, bodies, priority, delay, ttr, tube)

    @batch_command
    def delete_many(self, jobs: Iterable[Job[B] | int]) -> Plan[None]:
        """Deletes jobs, given as such or by their ids (``delete-many``, or ``delete`` for each), many a round trip.

        Raises BatchError when not all were deleted: its results say which.
        """
        return batch.delete_many(self._session, jobs)

    @batch_command
    def touch_many(self, jobs: Iterable[Job[B] | int]) -> Plan[None]:
        """Lets the TTR of jobs begin again (``touch-many``, or ``touch`` for each), many a round trip.

        Raises BatchError when this client does not hold all of them: its results say which.
        """
        return batch.touch_many(self._session, jobs)

    @batch_command
    def list_rules(self) -> Plan[list[Rules]]:
        """All rules that are set, in the order of their patterns' bytes (``list-rules``).

        Raises UnsupportedError if the server has no rules.
        """
        return batch.list_rules(self._session)

    @batch_command
    def features(self) -> Plan[frozenset[str]]:
        """What the server has besides beanstalkd's commands: ``put-job``, ``put-job.key`` and so on, maybe nothing.

        It is asked once a connection (``list-extensions``).
        """
        return batch.features(self._session)

    # --- The connection ---

    def _usable_socket(self) -> socket.socket | None:
        """The socket that was given instead of an address, or None. Raises OSError when it has been used."""
        if self._given_socket is not None and self._given_socket.fileno() < 0:
            raise OSError("the given socket is closed, and there is no address to connect to again")
        return self._given_socket

    def _greeting(self) -> list[bytes]:
        """The commands that a new connection begins with.

        A node of a cluster may accept a connection and then find that it can't reach the leader. So where there is
        another address, the connection only counts when something was answered: if need be to a command without effect.
        """
        commands = self._session.greeting()
        if not commands and len(self._addresses) > 1:
            commands = [wire.command(b"watch", DEFAULT_TUBE)]
        return commands

    def _lost(self) -> None:
        """The connection broke, or could not be made: the next address is tried first."""
        self._addresses.failed(self._address)

    def _cannot_connect(self, failures: Sequence[tuple[Address, OSError]]) -> CannotConnectError:
        """The error after the last attempt, with the failure at each address."""
        only = self._name if len(self._addresses) == 1 else ""
        tried = [f"to {only or address}: {str(error) or type(error).__name__}" for address, error in failures]
        return CannotConnectError(f"can't connect {'; '.join(tried)}")
