"""What both clients share: their options, the commands that go in batches, and how they connect and try again."""

import contextlib
import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypedDict, TypeVar, cast

from beanpole.address import Address, Addresses, OneAddress, reason_of
from beanpole.client import batch, limits
from beanpole.client.codec import BytesCodec, Codec, TextCodec
from beanpole.client.commands import Commands, batch_command, command
from beanpole.client.extended import Extended
from beanpole.client.extensions import name_bytes
from beanpole.client.job import Job, job_id
from beanpole.client.login import Login, lost_by
from beanpole.client.plan import Broken, Plan, Shipment, planned
from beanpole.client.recovery import Backoff, Outage, Retry, wall_s
from beanpole.client.session import DEFAULT_TUBE, ENDING, LIST_EXTENSIONS, USED, Session
from beanpole.errors import (
    ArgumentError,
    BeanpoleError,
    CannotConnectError,
    ConnectionLostError,
    NotAuthenticatedError,
    UnexpectedReplyError,
)
from beanpole.protocol import wire
from beanpole.protocol.limits import SESSION_NAME_BYTES_MAX
from beanpole.version import __version__

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

    from beanpole.client.ruling import Rules
    from beanpole.client.scheduling import Schedule
    from beanpole.protocol.wire import Call

PATIENCE_S = 60
"""Seconds after the loss of its connection for which a client dials again, by default: a slow restart of the server."""

KEEPALIVE_IDLE_S = 60  # seconds of silence after which the kernel asks the server's machine whether it is there
KEEPALIVE_EVERY_S = 15  # seconds between two such questions
KEEPALIVE_PROBES = 4  # questions without an answer after which the connection is lost, whatever waits for a reply

B = TypeVar("B")
T = TypeVar("T")

Given = OneAddress | Sequence[OneAddress] | Addresses | socket.socket
"""What may be given as an address, or as several."""

TCP_KEEPIDLE: int = getattr(socket, "TCP_KEEPIDLE", 0x10)
"""Called TCP_KEEPALIVE on macOS."""

Tubes = str | Iterable[str]
"""One tube, or several."""


def set_up(connection: "socket.socket | TransportSocket") -> None:
    """Sets the options of a TCP connection: commands go at once, and a machine that is gone is noticed in two minutes.

    Nothing else would tell a client that waits for a job without a timeout.
    """
    with contextlib.suppress(OSError):  # a unix socket has none of them
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_EVERY_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def program() -> str:
    """The name of the running program, or of the package that is run as one."""
    path = PurePath(sys.argv[0] if sys.argv else "")
    return (path.parent.name if path.name == "__main__.py" else path.name) or "python"


def own_name(what: str) -> str:
    """``host:pid``, then what runs there. The process is the one that asks now: it may be the child of another."""
    text = f"{socket.gethostname()}:{os.getpid()} {what}"
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return shown.encode("utf-8", "replace")[:SESSION_NAME_BYTES_MAX].decode("utf-8", "ignore")


def login_for(address: object, login: Login | None) -> Login:
    """The login of a client: the given one, else that of the variables if the address is as well, else none."""
    if login is not None:
        return login
    return Login.default() if address is None else Login()


class Options(TypedDict, total=False):
    """The options that are given by name; :class:`~beanpole.client.sync.Client` explains them."""

    timeout: float | None
    connect_timeout: float | None
    backoff: Backoff | None
    repeat: bool
    patience: float | None
    name: str | None
    tracing: bool
    login: Login | None


class TubeOptions(Options, total=False):
    """The same, and the tubes that a client starts with."""

    use: str
    watch: Tubes


class BaseClient(Commands[B], Extended[B], Generic[B]):
    """What :class:`~beanpole.client.sync.Client` and :class:`~beanpole.client.aio.AsyncClient` share."""

    _may_cancel = False

    def __init__(
        self,
        address: Given | None = None,
        encoding: str | None = "utf-8",
        use: str = DEFAULT_TUBE,
        watch: Tubes = DEFAULT_TUBE,
        *,
        codec: Codec[B] | None = None,
        timeout: float | None = limits.TIMEOUT_MS / 1000,
        connect_timeout: float | None = limits.CONNECT_TIMEOUT_MS / 1000,
        backoff: Backoff | None = None,
        repeat: bool = False,
        patience: float | None = PATIENCE_S,
        name: str | None = None,
        tracing: bool = False,
        login: Login | None = None,
    ) -> None:
        durations: dict[str, object] = {"timeout": timeout, "connect_timeout": connect_timeout, "patience": patience}
        for option, seconds in durations.items():
            is_number = isinstance(seconds, int | float) and (seconds > 0 or (seconds == 0 and option == "patience"))
            if not (seconds is None or is_number):
                raise ArgumentError(
                    f"{option} must be a number of seconds above 0, or None for no limit, not {seconds!r}"
                )
        if isinstance(codec, type):
            raise ArgumentError(f"a codec is an object: codec={codec.__name__}(), not codec={codec.__name__}")
        if isinstance(address, ssl.SSLSocket):
            raise ArgumentError("a client does its TLS itself: give it beanstalks://HOST, not an SSLSocket")
        self._login = login_for(address, login)
        self._given_socket = address if isinstance(address, socket.socket) else None
        if isinstance(address, socket.socket):
            address = Address()
        if not isinstance(address, Addresses):
            address = Addresses(Address.default() if address is None else Address.of(address))
        self._addresses = address
        self._address = self._addresses.current
        self._login.check(self._addresses.server)
        known = cast("Codec[B]", codec or (BytesCodec() if encoding is None else TextCodec(encoding)))
        if name:
            name_bytes(name)
        watched = [watch] if isinstance(watch, str) else watch
        self._session = Session(known, use, watched, self._called, wall_s, os.getpid)
        self._session.may_cancel = self._may_cancel
        # Where there may be users: who has asked hears which right is missing.
        self._session.asks = self._addresses.server.tls or self._login != Login()
        self._called_by_caller = name
        self._timeout_s = timeout
        self._connect_timeout_s = connect_timeout
        self._backoff = backoff or Backoff()
        self._repetitions = self._backoff.attempts - 1 if repeat else 0
        """How often a command whose outcome is unknown is sent again."""
        self._outage = Outage(0 if self._given_socket else patience, self._backoff)
        self._name = "on a given socket" if self._given_socket else str(self._addresses.server)
        if tracing:
            from beanpole.client.tracing import trace_puts  # noqa: PLC0415 - it needs OpenTelemetry, and time to load

            trace_puts(self)

    def _called(self) -> str:
        given = self._called_by_caller
        return own_name(f"{program()} {__version__}") if given is None else given

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

    def is_lost(self, job: Job[B] | int) -> bool:
        """Whether the connection over which this client reserved a job has ended, so that others may have the job.

        False if it was reserved again since then, and for a job that the client never had.
        """
        return self._session.is_lost(job_id(job))

    # --- More than one command ---

    @command
    def reserve_many(
        self, count: int, timeout: float | None = None, *, group: Literal["same"] | None = None
    ) -> "Call[list[Job[B]]]":
        """Waits like :meth:`reserve`, and takes up to `count` jobs that are ready then, in one round trip.

        The command is ``reserve-many``, which gives at most 1 000 jobs with 256 KiB of bodies, each with its `info`. On
        a server that does not know it, they are one ``reserve`` or ``reserve-with-timeout``, of `timeout` seconds, and
        others that do not wait; then the seconds are whole. With `group` ``same`` all are of the group of the first,
        on a server that knows it.

        Raises TimedOutError or DeadlineSoonError if there is none, BatchError if the body of one can't be decoded, and
        UnsupportedError for a fraction of a second that the server can't wait.
        """
        return batch.reserve_many_call(self._session, count, timeout, group)

    @command
    def wait_for_job(self, timeout: float | None = None) -> "Call[None]":
        """Waits like :meth:`reserve` until there is a job to reserve, and reserves none (``reserve-many 0``).

        The job is left to this client until its next command, or for a second: whoever else waits gets another one. Who
        asks in that time takes it, so that the next reserve may find none.

        Raises TimedOutError or DeadlineSoonError if there is none, and UnsupportedError.
        """
        return batch.wait_for_job_call(timeout)

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

    @command
    def list_rules(self) -> "Call[list[Rules]]":
        """All rules that are set, in the order of their patterns' bytes (``list-rules``).

        Raises UnsupportedError if the server has no rules.
        """
        return planned(b"list-rules\r\n", partial(batch.list_rules, self._session))

    @command
    def all_schedules(self, bodies: int | None = None) -> "Call[list[Schedule]]":
        """All schedules, in the order of their names, with so many bytes of their documents (``list-schedules``).

        Each that is there throughout is among them. Raises UnsupportedError if the server has no schedules.
        """
        return planned(b"list-schedules\r\n", partial(batch.all_schedules, self._session, bodies))

    @command
    def features(self) -> "Call[frozenset[str]]":
        """What the server has besides beanstalkd's commands: ``put-job``, ``put-job.key`` and so on, maybe nothing.

        It is asked once a connection (``list-extensions``).
        """
        return planned(LIST_EXTENSIONS, partial(batch.features, self._session))

    # --- The connection ---
    #
    # What both do stands here once, as coroutines over what each does in its own way: `_dial` opens a connection,
    # `_ship` sends commands and receives their replies, `_sleep` waits, `_once` runs a command. In the blocking client
    # these are done when they return, in the other they are coroutines, and `_done` returns the result of either.

    _link: Any = None
    _dial: Any
    _ship: Any
    _sleep: Any
    _once: Any
    _done: Any
    _notice_end: Any
    """Forgets a connection that is over."""

    async def _run_again(self, call: "Call[T]", failure: ConnectionLostError, begun_s: float) -> T:
        """Runs a command again that failed with its connection, where that may be done."""
        retry = Retry(self._outage, self._session, call, begun_s, self._repetitions)
        while True:
            self._notice_end()
            await self._done(self._sleep(retry.pause_s(failure)))
            retry.check_open()
            try:
                value: T = await self._done(self._once(retry.call()))
            except ConnectionLostError as error:
                failure = error
            else:
                return value

    async def _patiently(self, connected: Callable[[], Any]) -> Any:  # noqa: ANN401 - a Link of either
        """What `connected` returns, a connection; after a loss it is called again and again while patience lasts."""
        closings = self._outage.closings
        while True:
            try:
                return await self._done(connected())
            except ConnectionLostError as error:
                if not self._outage.is_on:
                    raise
                failure = error
            await self._done(self._sleep(self._outage.bear(failure, None)))
            self._outage.check_open(closings)

    async def _run_plan(self, link: Any, plan: Plan[T]) -> T:  # noqa: ANN401 - a Link of either
        """Runs a plan, which is never repeated: its results say what is known of each command."""
        broken: ConnectionLostError | UnexpectedReplyError | None = None
        has_begun = False
        try:
            while True:
                shipment = plan.send(broken)
                broken = None
                try:
                    await self._done(self._ship(link, shipment))
                except Broken as error:
                    broken = error
                was_sent = broken is None or not isinstance(broken, ConnectionLostError) or broken.outcome_unknown
                has_begun = has_begun or (was_sent and shipment.data != LIST_EXTENSIONS)
        except StopIteration as end:
            value: T = end.value
            return value
        except ENDING as error:
            self._end(link, error)
            raise
        except ConnectionLostError as error:
            error.outcome_unknown = error.outcome_unknown or has_begun
            raise

    async def _connect(self, call: "Call[Any] | None") -> Any:  # noqa: ANN401 - a Link of either
        """A new connection, for a call if it is one call. Raises CannotConnectError after the last attempt."""
        if call is not None:
            self._session.prepare(call)
        # What is tried again and again while patience lasts has one attempt each time.
        pauses = iter(()) if self._outage.is_bearable else self._backoff.pauses()
        while True:
            failures: list[tuple[Address, OSError]] = []
            auth = self._login.auth()
            for _ in range(len(self._addresses)):
                self._address = self._addresses.current
                try:
                    link = await self._done(self._dial())
                    await self._greet(link, auth)
                except OSError as error:
                    if isinstance(refused := lost_by(error), NotAuthenticatedError):
                        raise refused from error
                    failures.append((self._address, error))
                    self._addresses.failed(self._address)
                else:
                    self._outage.end(self._address)
                    return link
            pause_s = next(pauses, None)
            if pause_s is None:
                only = self._name if len(self._addresses) == 1 else ""
                tried = [
                    f"to {only or address}: {reason_of(error, tls=address.tls) or type(error).__name__}"
                    for address, error in failures
                ]
                raise CannotConnectError(f"can't connect {'; '.join(tried)}") from failures[-1][1]
            await self._done(self._sleep(pause_s))

    async def _greet(self, link: Any, auth: bytes) -> None:  # noqa: ANN401 - a Link of either
        """Shows the token, if there is one, and restores the used tube and the watch list on a new connection.

        A node of a cluster may accept a connection and then find that it can't reach the leader. So where there is
        another address, the connection only counts when something was answered: if need be to a command without effect.
        So it is after a loss, as whatever stands in front of a server that is gone may still accept connections. Over
        TLS, where a server that refuses a certificate says so when the client takes the handshake for done, something
        is always asked (`asks` of the session).
        """
        try:
            if auth:
                shipment = Shipment(auth, 1)
                await self._done(self._ship(link, shipment))
                self._session.authenticated(shipment.replies[0])
            commands = self._session.greeting()
            is_doubtful = len(self._addresses) > 1 or self._outage.is_on
            if not commands and not auth and is_doubtful:
                commands = [wire.command(b"watch", DEFAULT_TUBE)]
            if commands:
                shipment = Shipment(b"".join(commands), len(commands))
                try:
                    await self._done(self._ship(link, shipment))
                except ConnectionLostError:  # perhaps as one of them was refused
                    self._session.greeted(commands, shipment.replies)
                    raise
                self._session.greeted(commands, shipment.replies)
            await self._return(link)
        except BaseException as error:
            link.fail(ConnectionLostError(f"the connection was not set up: {error}"))
            raise

    async def _return(self, link: Any) -> None:  # noqa: ANN401 - a Link of either
        """Takes over the jobs that the server has kept; those of which it never heard go back."""
        if line := self._session.returning():
            shipment = Shipment(line, 1)
            await self._done(self._ship(link, shipment))
            if lines := self._session.kept(shipment.replies[0]):
                await self._done(self._ship(link, Shipment(b"".join(lines), len(lines))))

    def _end(self, link: Any, error: BeanpoleError) -> None:  # noqa: ANN401 - a Link of either
        """Ends a connection that is no good after the answer to a call; other calls on it are told so."""
        is_lost = not isinstance(error, UnexpectedReplyError)
        link.fail(ConnectionLostError(f"the server closed it: {error}") if is_lost else error)

    def _lost(self, error: BaseException, *, worked: bool) -> None:
        """The connection broke: the next address is tried first. If it had `worked`, a time without one begins."""
        self._addresses.failed(self._address)
        if worked and isinstance(error, ConnectionLostError):
            self._outage.begin(self._address, error)

    def _usable_socket(self) -> socket.socket | None:
        """The socket that was given instead of an address, or None. Raises OSError when it has been used."""
        if self._given_socket is not None and self._given_socket.fileno() < 0:
            raise OSError("the given socket is closed, and there is no address to connect to again")
        return self._given_socket
