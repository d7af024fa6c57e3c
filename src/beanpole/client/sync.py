"""The blocking client: a thin skin of a socket around the pure parts.

A call sends its command and receives until its reply is whole. The timeouts are the kernel's (SO_RCVTIMEO), for a
poll() before each recv() is a system call more. The usual round trip is compiled (:mod:`~beanpole.client.roundtrip`):
one call at a time costs little more than its system calls. A client serves one thread;
:class:`~beanpole.client.pool.Pool` serves many.

Whatever ends an exchange before its last reply (an error, a signal's exception) closes the connection: what came later
would be taken for the answer to something else. The server then gives the reserved jobs to others.
"""

import select
import socket
import struct
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from beanpole.client import batch, roundtrip, tls
from beanpole.client.base import BaseClient, Given, Options, TubeOptions, Tubes, set_up
from beanpole.client.commands import Blocking
from beanpole.client.job import Job
from beanpole.client.login import lost_by
from beanpole.client.pipeline import Pipeline
from beanpole.client.plan import Plan, Queue, Shipment, run_call
from beanpole.client.roundtrip import LATE, WHOLE
from beanpole.client.session import DEFAULT_TUBE, ENDING, Using
from beanpole.errors import BeanpoleError, ConnectionLostError, NoReplyError, TimedOutError, UnexpectedReplyError
from beanpole.limits import CLIENT_RECEIVE_BYTES as RECEIVE_BYTES
from beanpole.protocol import wire
from beanpole.protocol.wire import Call, Reply, ReplyReader

if TYPE_CHECKING:
    from beanpole.client.codec import Codec

SEND_AT_ONCE_BYTES = 16_384
"""Bytes that the kernel takes without waiting for the server; more are sent while replies are read."""

B = TypeVar("B")
T = TypeVar("T")

SIGN_OF_LIFE = wire.command(b"watch", DEFAULT_TUBE)
"""Stands in front of the first command of a connection if that may wait: its answer shows that the connection works.

It changes nothing: a client that uses or watches anything else has had an answer.
"""


class Link:
    """One connection: commands out, replies in."""

    def __init__(self, connection: socket.socket, timeout_s: float | None) -> None:
        self._socket = connection
        over_tls = isinstance(connection, tls.TlsSocket)
        self._line: Any = connection if over_tls else connection.fileno()
        """What the two functions below are called with."""
        self._round_trip: Any = tls.round_trip if over_tls else roundtrip.round_trip
        self._is_over: Any = tls.is_over if over_tls else roundtrip.is_over
        self._timeout_s = timeout_s
        self._reader = ReplyReader()
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        connection.setblocking(True)
        set_up(connection)
        self._allow(timeout_s)
        self.worked = False
        """Whether something was answered."""

    def is_over(self) -> bool:
        """Whether the server has closed the connection, or sent something without being asked."""
        over: bool = self._is_over(self._line)
        return over

    def fail(self, _: BaseException) -> None:
        """Closes the connection, which is no good."""
        self._socket.close()

    def close(self, last: bytes = b"") -> None:
        if last:
            with suppress(OSError):
                self._socket.send(last, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self._socket.close()

    def exchange(self, data: bytes, count: int, wait_s: float | None, replies: list[Reply]) -> None:
        """Sends commands and receives `count` replies; those that came are in the list, whatever happens.

        Raises ConnectionLostError or UnexpectedReplyError; the link is to be closed then.
        """
        reader = self._reader
        try:
            if len(data) <= SEND_AT_ONCE_BYTES:
                sent = self._round_trip(self._line, data, count, reader, replies)
            else:
                self._send_while_receiving(data, wait_s)
                sent = len(data)
            if sent != WHOLE:
                self._go_on(data, sent, wait_s, count, replies)
        except BlockingIOError:
            raise NoReplyError(f"no answer within {self._silence_s(wait_s)} s") from None
        except OSError as error:
            self._take_last(count, replies)
            if isinstance(error, ConnectionLostError):
                raise
            raise lost_by(error) from error
        self.worked = True
        if reader.buffered_bytes:
            raise UnexpectedReplyError("the server sent more than was asked for")

    def _go_on(self, data: bytes, sent: int, wait_s: float | None, count: int, replies: list[Reply]) -> None:
        """Sends what is left of the commands, if anything, and receives until all replies are there."""
        is_late = sent == LATE
        if not is_late:
            self._socket.sendall(memoryview(data)[sent:])
        while not self._reader.read_into(replies, count):
            try:
                received = self._receive_late(wait_s) if is_late else self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                received = self._receive_late(wait_s)
            is_late = False
            if not received:
                raise ConnectionLostError("the server closed the connection before it answered")
            self._reader.receive(received)

    def _take_last(self, count: int, replies: list[Reply]) -> None:
        """Takes the replies that came before the connection broke: the last may say why it did."""
        with suppress(OSError, UnexpectedReplyError):
            self._reader.read_into(replies, count)
            while received := self._socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT):
                self._reader.receive(received)
                self._reader.read_into(replies, count)

    def _silence_s(self, wait_s: float | None) -> float | None:
        """The seconds for which the server may be silent; None: no limit."""
        return None if self._timeout_s is None or wait_s is None else self._timeout_s + wait_s

    def _receive_late(self, wait_s: float | None) -> bytes:
        """Receives when the timeout is over, for the server may wait beyond that. Raises BlockingIOError."""
        if wait_s == 0:
            raise BlockingIOError
        self._allow(wait_s)
        try:
            return self._socket.recv(RECEIVE_BYTES)
        finally:
            self._allow(self._timeout_s)

    def _allow(self, silence_s: float | None) -> None:
        """Sets the silence that the kernel allows; 0 would mean any.

        That is two system calls, so it is done when a reply is late, and not before each command that may wait.
        """
        seconds = 0.0 if silence_s is None else max(silence_s, 0.001)
        value = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    def _send_while_receiving(self, data: bytes, wait_s: float | None) -> None:
        """Sends all data, reading replies in between: a server that can't send its replies stops reading commands."""
        view = memoryview(data)
        silence_s = self._silence_s(wait_s)
        self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
        try:
            while view:
                ready = self._poll.poll(None if silence_s is None else silence_s * 1000)
                if not ready:
                    raise BlockingIOError
                if ready[0][1] & ~select.POLLOUT:
                    with suppress(BlockingIOError):  # what has come may be TLS's alone
                        received = self._socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)
                        if not received:
                            raise ConnectionLostError(
                                "the server closed the connection before it had received everything"
                            )
                        self._reader.receive(received)
                if ready[0][1] & select.POLLOUT:
                    view = view[self._socket.send(view, socket.MSG_DONTWAIT) :]
        finally:
            self._poll.modify(self._socket, select.POLLIN)


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine of the base class: nothing in it waits, as what this client does is done when it returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("the blocking client waits for a loop")


class Client(BaseClient[B], Blocking, Generic[B]):
    """A client with one connection to a server, opened by the first command and opened again when it is lost.

    `address` is a host, ``host:port``, a pair of them, a URL (``beanstalk://host:port``, ``unix:path``), the path of a
    unix socket, with a slash, or a connected socket (which can't be opened again). A cluster has several addresses, in
    a list or as ``a,b:11301``: the client goes on at the next when one is gone. Without one it is that of the variable
    ``BEANPOLE_URL``, or else ``127.0.0.1:11300``. The port is 11300 where none is given.

    Bodies are strings in `encoding`, bytes if that is None, or whatever `codec` encodes and decodes. `use` and `watch`
    are the tubes that the client starts with.

    `timeout` is how many seconds the server may take for a reply, in addition to the timeout of a reserve;
    `connect_timeout` is for one attempt to connect, and `backoff` says how many there are. None: no limit.

    When a connection that worked is lost, whatever was not sent yet waits for the next one: the client tries to connect
    for `patience` seconds from the loss (None: for ever; 0: such a call fails at once). So does what was sent and may
    be sent twice without harm: a reserve, whose timeout goes on, what changes the used and the watched tubes, what only
    reads, and a put with a `key`. Jobs that were held are lost (:meth:`is_lost`) unless they are kept (:meth:`keep`).

    When it breaks before the reply to another call has come, nobody knows whether the command was executed. It is sent
    again only with `repeat`: a job may then be put twice, and a second delete does not find the job.

    `name` is what the connections are called, for people who look at the server's sessions. It is sent, with the next
    command, when the client has asked the server for its `features` and that has names; a client that uses commands of
    beanstalkd alone does not ask, unless it has a login or TLS. None: ``host:pid program version``; empty: nothing.

    `login` says how the client shows who it is, and whom it believes, at ``beanstalks://host``, where everything is
    encrypted and the name of the server is verified: see :class:`~beanpole.client.login.Login`. Without one there is
    nothing to show, unless no address is given: then the variables of a login say it.

    With `tracing` each put is a span of OpenTelemetry, and the job carries its trace. It needs the extra ``otel``.

    Raises ArgumentError for an invalid address, option or tube name, and LookupError for an encoding that Python does
    not have. Besides what is said below, every command may raise ArgumentError (nothing was sent), CannotConnectError,
    ConnectionLostError (it says whether the command may have been executed), OutOfMemoryError, InternalError and
    UnexpectedReplyError; on a server with users NotAuthenticatedError, ForbiddenError and UnknownCommandError.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "Client[str]",
            address: Given | None = ...,
            encoding: str = ...,
            use: str = ...,
            watch: Tubes = ...,
            **options: Unpack[Options],
        ) -> None: ...
        @overload
        def __init__(
            self: "Client[bytes]",
            address: Given | None,
            encoding: None,
            use: str = ...,
            watch: Tubes = ...,
            **options: Unpack[Options],
        ) -> None: ...
        @overload
        def __init__(
            self: "Client[bytes]", address: Given | None = ..., *, encoding: None, **options: Unpack[TubeOptions]
        ) -> None: ...
        @overload
        def __init__(self, address: Given | None = ..., *, codec: Codec[B], **options: Unpack[TubeOptions]) -> None: ...
        def __init__(self, address: Given | None = None, *args: object, **options: object) -> None: ...

    _link: Link | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; the server gives the reserved jobs to others. The next command makes a new one."""
        self._outage.forget()
        self._shut(on_purpose=True)

    def _shut(self, *, on_purpose: bool = False) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close(self._session.goodbye() if on_purpose else b"")
        if link is not None or on_purpose:
            self._session.ended(on_purpose=on_purpose)

    def _break(self, error: BaseException) -> None:
        """Closes a connection that is no good; the next one is to another address, if there is one."""
        self._lost(error, worked=self._link is not None and self._link.worked)
        self._shut()

    def connect(self) -> None:
        """Connects now, unless connected already: finds a mistake in the address early.

        Raises CannotConnectError when every attempt has failed.
        """
        complete(self._patiently(self._connected))

    # --- More than one command ---

    @overload
    def using(self) -> str: ...
    @overload
    def using(self, tube: str) -> Using: ...
    def using(self, tube: str | None = None) -> str | Using:
        """The name of the used tube (``list-tube-used``); with an argument, ``with client.using(tube):`` uses another.

        Raises ArgumentError for an invalid tube name.
        """
        return self.tube_used() if tube is None else Using(self._session, tube)

    def reserve_iter(self, timeout: int | None = None) -> Iterator[Job[B]]:
        """Jobs as they arrive, each reserved; ends when none came for `timeout` seconds (None: never).

        Raises what :meth:`reserve` does, except TimedOutError.
        """
        while True:
            try:
                job = self.reserve(timeout)
            except TimedOutError:
                if not self._outage.is_on:
                    return
                self.watching()  # the server did not say that: waits until there is one
            else:
                yield job

    def pipeline(self, *, raise_errors: bool = True) -> Pipeline[B]:
        """Collects commands in a with block and sends them together at its end; each returns a Result.

        Raises the first error of a command then, unless `raise_errors` is False (``result()`` raises it), and
        ConnectionLostError in any case. When the block ends with an error, nothing is sent.
        """
        return Pipeline(self._session, self._send, raise_errors=raise_errors)

    # --- The connection ---

    def _send(self, queue: Queue) -> None:
        if queue:
            self._run_batch(batch.run_queue(self._session, queue))

    def _run(self, call: "Call[T]") -> T:
        """Runs one command, and again where that may be done when the connection is lost."""
        begun_s = self._outage.clock() if call.wait_s or call.needs else 0.0
        try:
            return self._once(call)
        except ConnectionLostError as error:
            failure = error
        return complete(self._run_again(call, failure, begun_s))

    def _once(self, call: "Call[T]") -> T:
        if call.needs:
            return self._run_batch(run_call(self._session, call), call)
        link = self._link
        if link is None or link.is_over():
            link = self._connected(call)
        data, count = self._session.encode(call)
        if call.wait_s != 0 and not link.worked:
            data, count = SIGN_OF_LIFE + data, count + 1
        replies: list[Reply] = []
        try:
            try:
                link.exchange(data, count, call.wait_s, replies)
            except ConnectionLostError:  # perhaps as one of the commands in front was refused
                self._session.check_prefixes(replies[: count - 1], call.data, self._session.used)
                raise
            if count > 1:
                self._session.check_prefixes(replies[:-1], call.data, self._session.used)
        except BaseException as error:
            link.worked = link.worked or bool(replies)
            self._break(error)
            raise
        try:
            return self._session.finish(call, replies[-1])
        except ENDING as error:
            self._break(error)
            raise

    def _run_batch(self, plan: Plan[T], call: "Call[T] | None" = None) -> T:
        """Runs a plan, which is that of one call, if there is one."""
        link = self._connected(call) if call is not None else complete(self._patiently(self._connected))
        return complete(self._run_plan(link, plan))

    def _connected(self, call: "Call[Any] | None" = None) -> Link:
        """The connection; a new one if there is none, or it is over. `call` is what it is for, if it is one call."""
        self._notice_end()
        if self._link is None:
            self._link = complete(self._connect(call))
        return self._link

    def _notice_end(self) -> None:
        if self._link is not None and self._link.is_over():
            self._break(ConnectionLostError("the server closed it"))

    _sleep = staticmethod(time.sleep)

    def _ship(self, link: Link, shipment: Shipment) -> None:
        try:
            link.exchange(shipment.data, shipment.count, shipment.wait_s, shipment.replies)
        except BaseException as error:
            if link is self._link:  # else it is not set up yet
                self._break(error)
            raise

    def _end(self, _: Link, error: BeanpoleError) -> None:
        self._break(error)

    def _dial(self) -> Link:
        return Link(self._socket(), self._timeout_s)

    def _socket(self) -> socket.socket:
        """A connected socket. Raises OSError."""
        given = self._usable_socket()
        if given is not None:
            return given
        address = self._address
        if address.path:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(self._connect_timeout_s)
                connection.connect(address.path)
            except BaseException:
                connection.close()
                raise
            return connection
        if not address.tls:
            return socket.create_connection((address.host, address.port), self._connect_timeout_s)
        context, clock = self._login.context(), self._outage.clock
        until_s = None if self._connect_timeout_s is None else clock() + self._connect_timeout_s
        connection = socket.create_connection((address.host, address.port), self._connect_timeout_s)
        return tls.TlsSocket(connection, context, address.host, until_s, clock)
