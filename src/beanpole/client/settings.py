"""What both clients are created with, checked once."""

import socket
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypedDict, TypeVar, cast

from beanpole.client import limits
from beanpole.client.address import Address
from beanpole.client.backoff import Backoff
from beanpole.client.codec import BytesCodec, Codec, TextCodec
from beanpole.client.errors import CannotConnectError
from beanpole.client.session import DEFAULT_TUBE, Session
from beanpole.errors import ArgumentError

B = TypeVar("B")
T = TypeVar("T")

Given = Address | tuple[str, int] | str | socket.socket
"""What may be given as an address."""


class Options(TypedDict, total=False):
    """The options that both clients have; :class:`~beanpole.client.sync.Client` says what they mean."""

    timeout: float | None
    connect_timeout: float | None
    backoff: Backoff | None
    repeat: bool


class Settings(Generic[B]):
    """The arguments of a client's constructor."""

    def __init__(
        self,
        address: Given,
        encoding: str | None = "utf-8",
        use: str = DEFAULT_TUBE,
        watch: str | Iterable[str] = DEFAULT_TUBE,
        *,
        codec: Codec[B] | None = None,
        timeout: float | None = limits.TIMEOUT_MS / 1000,
        connect_timeout: float | None = limits.CONNECT_TIMEOUT_MS / 1000,
        backoff: Backoff | None = None,
        repeat: bool = False,
    ) -> None:
        durations: dict[str, object] = {"timeout": timeout, "connect_timeout": connect_timeout}
        for name, seconds in durations.items():
            if not (seconds is None or (isinstance(seconds, int | float) and seconds > 0)):
                raise ArgumentError(f"{name} is a number of seconds above 0, or None for no limit, not {seconds!r}")
        if isinstance(codec, type):
            raise ArgumentError(f"a codec is an object: codec={codec.__name__}(), not codec={codec.__name__}")
        self._given = address if isinstance(address, socket.socket) else None
        self.address = Address() if isinstance(address, socket.socket) else Address.of(address)
        self.codec = cast("Codec[B]", codec or (BytesCodec() if encoding is None else TextCodec(encoding)))
        self.use = use
        self.watch = [watch] if isinstance(watch, str) else list(watch)
        self.timeout_s = timeout
        self.connect_timeout_s = connect_timeout
        self.backoff = backoff or Backoff()
        self.repetitions = self.backoff.attempts - 1 if repeat else 0
        """How often a command is sent again whose outcome is unknown."""
        self.name = "on a given socket" if self._given else str(self.address)

    def session(self) -> Session[B]:
        """A new session. Raises ArgumentError for what is no name of a tube."""
        return Session(self.codec, self.use, self.watch)

    def given_socket(self) -> socket.socket | None:
        """The socket that was given instead of an address; None: there was an address.

        Raises OSError when it has been used.
        """
        if self._given is not None and self._given.fileno() < 0:
            raise OSError("the given socket is closed, and how to make another is not known")
        return self._given

    def connect(self, dial: Callable[[], T], sleep: Callable[[float], Any]) -> T:
        """Dials until it succeeds. Raises CannotConnectError after the last attempt."""
        pauses = self.backoff.pauses()
        while True:
            try:
                return dial()
            except OSError as error:
                pause_s = next(pauses, None)
                if pause_s is None:
                    raise self.cannot_connect(error) from error
            sleep(pause_s)

    def cannot_connect(self, error: OSError) -> CannotConnectError:
        """The error after the last attempt."""
        reason = str(error) or type(error).__name__
        return CannotConnectError(f"can't connect to {self.name}: {reason}")
