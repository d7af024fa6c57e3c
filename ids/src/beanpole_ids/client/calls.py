"""Requests, the meaning of replies, and the order in which nodes are asked. No sockets, and no waiting.

A request has a random name of 128 bits, sent as `seq` and as `request_id`. `seq` identifies the reply, so that one to
an earlier request is dropped; `request_id` makes a node answer a repeated request with the same number. The name comes
from the system's random source: forked processes would share the state of a generator.
"""

import json
import random
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from beanpole_ids import limits
from beanpole_ids.errors import ArgumentError, IdServiceError, NoNodeError, UnexpectedReplyError

COOKIE_CHARACTERS_MAX = 64  # of a cookie that is sent back: those of a node have 16

REPLY_BYTES_MAX = 65_535
"""What a datagram can hold."""

NEEDS_COOKIE = -6
"""The code of a reply whose cookie must be sent back before the node serves the request."""

STRAYS_MAX = 100
"""Datagrams that are no reply to the request, after which a node counts as silent."""


ADDRESS = re.compile(r"(\[[^\[\]/@]+\]|[^\[\]:/?#@]+)(?::([0-9]{1,5}))?")
"""A host and perhaps a port; an address of IPv6 is in brackets."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where a node is."""

    host: str
    port: int = limits.PORT_DEFAULT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Given = str | tuple[str, int] | Iterable[tuple[str, int]]
"""What may be given as nodes: a URL, an address, or several."""


def read_url(url: str) -> list[Node]:
    """Return the nodes of ``ids://host:port,host:port``; the port is 11310 if there is none.

    Raises ArgumentError: it is no such URL.
    """
    scheme, _, rest = url.partition("://")
    found = [ADDRESS.fullmatch(each) for each in rest.split(",")]
    nodes = [Node(each[1].strip("[]"), int(each[2] or limits.PORT_DEFAULT)) for each in found if each]
    if scheme != "ids" or len(nodes) != len(found):
        raise ArgumentError(f"ids://host:port,host:port, not {url!r}")
    if not all(1 <= each.port <= 65535 for each in nodes):
        raise ArgumentError(f"a port is 1 to 65535, not as in {url!r}")
    return nodes


class Nodes:
    """The nodes, and which of them is asked first: the one that has answered last, so that numbers of a client grow.

    The first of all is chosen at random, so that many clients share the nodes.
    """

    def __init__(self, given: Given, chance: Callable[[], float]) -> None:
        if isinstance(given, str):
            self.all = read_url(given)
        elif isinstance(given, tuple) and given and isinstance(given[0], str):
            self.all = [Node(*given)]
        else:
            self.all = [Node(*each) for each in given]  # type: ignore[misc] # a tuple of addresses comes here too
        if not self.all:
            raise ArgumentError("a client needs at least one node")
        self._first = int(chance() * len(self.all))

    def order(self) -> list[Node]:
        """Return all nodes, in the order in which they are to be asked now."""
        return self.all[self._first :] + self.all[: self._first]

    def answered(self, node: Node) -> None:
        """Ask this node first from now on."""
        self._first = self.all.index(node)


class Call:
    """One request, and what has come of it so far."""

    def __init__(self, **fields: object) -> None:
        self.name = secrets.token_hex(16)
        self._fields = fields | {"seq": self.name, "request_id": self.name}
        try:
            self.data = to_bytes(self._fields)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"a request that can't be sent: {error}") from None
        if len(self.data) > limits.REQUEST_BYTES_MAX:
            raise ArgumentError(f"a request has at most {limits.REQUEST_BYTES_MAX} bytes, not {len(self.data)}")
        self._refusal: IdServiceError | None = None
        self._failures: dict[Node, OSError] = {}

    def data_with(self, cookie: str | None) -> bytes:
        """Return the request as it is sent to a node that has given us a cookie, or none."""
        return self.data if cookie is None else to_bytes(self._fields | {"cookie": cookie})

    def read(self, data: bytes) -> dict[str, Any] | None:
        """Return the reply in a datagram, or None if it is none to this request."""
        reply = read_reply(data)
        return reply if reply is not None and reply["seq"] == self.name else None

    def take(self, reply: dict[str, Any]) -> bool:
        """Take a reply; return whether it has what was asked for. If not, another node may have it.

        Raises IdServiceError: the request is wrong, or above a limit, and so it would be for every node.
        """
        code = reply["code"]
        if code == 0:
            return True
        more = reply.get("resets_at"), reply.get("retry_s")
        self._refusal = IdServiceError(str(reply.get("message", "")), code, *more)
        if code in {-1, -5}:
            raise self._refusal
        return False

    def failed(self, node: Node, error: OSError) -> None:
        """Record that a node did not answer."""
        self._failures[node] = error

    def end_round(self) -> bool:
        """End a round over all nodes; return whether to wait before the next: only if all failed immediately.

        Raises IdServiceError: some node has answered that there is no number; none has one.
        """
        if self._refusal is not None:
            raise self._refusal
        return not any(isinstance(error, TimeoutError) for error in self._failures.values())

    def no_node(self) -> NoNodeError:
        """Return the error after the last round."""
        why = ", ".join(f"{node} ({str(error) or type(error).__name__})" for node, error in self._failures.items())
        return NoNodeError(f"no node of the ID service has answered: {why}")


def to_bytes(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def read_reply(data: bytes) -> dict[str, Any] | None:
    """Return a reply; None if a datagram is none."""
    try:
        reply = json.loads(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    if isinstance(reply, dict) and type(reply.get("code")) is int and isinstance(reply.get("seq"), str):
        return reply
    return None


def get(rule: str, app: str, salt: str | None, count: int | None = None) -> Call:
    """Return a request for a number, or for `count` in a list."""
    more: dict[str, object] = {} if count is None else {"count": count}
    if salt is not None:
        more["salt"] = salt
    return Call(action="get", rule_name=rule, app_name=app, **more)


def monitor(rule: str, app: str) -> Call:
    return Call(action="monitor", rule_name=rule, app_name=app)


def pieces(count: int) -> Iterator[int]:
    """Return how many numbers to ask for at a time."""
    if type(count) is not int or count < 1:
        raise ArgumentError(f"count must be 1 or more, not {count!r}")
    while count > 0:
        yield min(count, limits.COUNT_MAX)
        count -= limits.COUNT_MAX


def number_of(reply: dict[str, Any]) -> str:
    """Return the number of a reply."""
    data = reply.get("data")
    if not isinstance(data, str):
        raise UnexpectedReplyError(f"a number was asked for, and {data!r} came")
    return data


def numbers_of(reply: dict[str, Any]) -> list[str]:
    """Return the numbers of a reply."""
    data = reply.get("data")
    if not isinstance(data, list):
        raise UnexpectedReplyError("the node knows no `count`: it is another service, or older")
    return data


T = TypeVar("T")


class BaseClient(Generic[T]):
    """What both clients have in common: their arguments, the connections by node, and the order of attempts."""

    def __init__(
        self,
        nodes: Given,
        *,
        timeout: float = limits.CLIENT_TIMEOUT_MS / 1000,
        rounds: int = limits.CLIENT_ROUNDS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not timeout > 0 or rounds < 1:
            raise ArgumentError("timeout must be above 0, and rounds 1 or more")
        self._nodes = Nodes(nodes, chance)
        self._timeout_s = timeout
        self._rounds = rounds
        self._closed = False
        self._connections: dict[Node, T] = {}
        self._cookies: dict[Node, str] = {}
        """What a node has sent us to prove that we receive its replies; it is sent with every request."""

        self._begin()

    def _begin(self) -> None:
        """Make what a forked process must not share."""
        raise AssertionError("a subclass says what that is")

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:  # noqa: ANN401 - what the constructor takes
        """Return a client of the nodes at ``ids://host:port,host:port``; the rest is the constructor's.

        Raises ArgumentError: it is no such URL.
        """
        return cls(url, **options)

    def _take_cookie(self, node: Node, reply: dict[str, Any]) -> bool:
        """Keep the cookie of a reply; return whether the node wants to be asked again with it."""
        cookie = reply.get("cookie")
        if reply["code"] != NEEDS_COOKIE or not isinstance(cookie, str) or len(cookie) > COOKIE_CHARACTERS_MAX:
            return False
        self._cookies[node] = cookie
        return True

    def _attempts(self, call: Call) -> Iterator[Node | None]:
        """Return the nodes to ask, one round after the other; None is a pause of `timeout`.

        Raises IdServiceError: a round has ended in which a node had no number, and none had one.
        """
        for round_number in range(self._rounds):
            if round_number and call.end_round():
                yield None
            yield from self._nodes.order()
        call.end_round()
