"""Everything that can be set about a console; the command line fills it in, and tests its clocks."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from beanpole.access.watch import AccessFiles
from beanpole.client import Address, Login
from beanpole.shards.map import Places


@dataclass(frozen=True, slots=True)
class Clock:
    """Nothing else in the console reads a clock, so that tests decide what time it is."""

    now_ns: Callable[[], int]  # nanoseconds that never jump: how long something takes, and when it is due
    unix_s: Callable[[], float]  # seconds since 1970: what people read, and what is kept beyond a restart


@dataclass(frozen=True, slots=True)
class Source:
    """A server to look at."""

    name: str  # the label `server` of its metrics, and what ``?server=`` asks for
    address: Address | None
    """Where it is; None: it has started this console, and is reached by the pairs that it has handed over."""
    places: Places | None = None
    """The map whose shards it has, seen as one; None: it is a server."""
    login: Login | None = None  # how the console shows it who it is
    is_shard: bool = False  # whether it is one of those, and looked at beside the whole

    @property
    def address_text(self) -> str:
        """HOST:PORT or unix:PATH, of a cluster several; the name where there is no address."""
        return str(self.address).removeprefix(self.address.scheme) if self.address else self.name


@dataclass(frozen=True, slots=True)
class Pairs:
    """Sockets that lead into the server that has started this console. None of them can be opened again."""

    sampling: socket.socket
    others: tuple[socket.socket, ...] = ()
    """Those for pages, actions and long searches: the ends of commands that must not wait for one another."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One console's settings, checked: the command line refuses what makes no sense."""

    sources: tuple[Source, ...]  # the servers, each with another name
    pairs: Pairs | None = None  # how to reach the one without an address
    hosts: tuple[str, ...] = field(default=())  # names besides `localhost` that a request may use for this console
    tube_patterns: tuple[str, ...] = ()
    """Which tubes have metrics of their own, as shell patterns; none: the first by name."""
    token_file: Path | None = None
    """Where the tokens of those who may change things are; None: in no file of the console's own."""
    users: AccessFiles | None = None
    """The users who may log in; None: there are none. Without them and a file of tokens everybody may look."""
    key: bytes = b""  # with which the cookies of users are signed
    is_reached: bool = False  # whether other machines reach it: then there are no pages without a file of tokens
    hide_bodies: bool = False  # whether the bodies of jobs are shown, searched and given out nowhere
    legacy: bool = False  # whether /metrics has the names of messagebird/beanstalkd_exporter as well

    def has_metrics(self, tube: str) -> bool:
        """Whether a tube may have metrics of its own."""
        return not self.tube_patterns or any(fnmatchcase(tube, pattern) for pattern in self.tube_patterns)
