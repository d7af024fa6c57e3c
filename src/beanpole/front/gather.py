"""What a gather is, and what it has to do with a session.

A *gather* is what becomes of a command with several destinations: a generator that yields questions, is sent their
replies as bytes, and returns the bytes for the client. It does no I/O. A question for a shard that is away waits for
it, unless it may fail.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from beanpole.front.limits import EMPTY_NS
from beanpole.protocol.commands import Command, Verb
from beanpole.protocol.limits import FRAMES_MAX
from beanpole.shards.map import Place, Shard

T = TypeVar("T")

NOT_FOUND = b"NOT_FOUND\r\n"


class Tells(IntEnum):
    """What a shard must know of the session before it gets a question."""

    NOTHING = 0
    USED = 1
    WATCHED = 2


class Ask(NamedTuple):
    """A command for a shard. Those of one list are under way at once, and each is for another shard."""

    shard: Shard
    data: bytes
    tells: Tells = Tells.NOTHING
    may_fail: bool = False  # if the shard is away, or is lost before it replies, the reply is b""


class Wait(NamedTuple):
    """Questions of which the first reply is wanted, as (shard, reply); all others are cancelled then.

    (shard, b""): the shard is back, or was lost. None: it is too late, or the client waits no more.
    """

    asks: list[Ask]
    until_ns: int | None  # on the session's clock; None: for ever


Gathering = Generator[list[Ask] | Wait, Any, T]


class Counts:
    """How often shards were asked for jobs on behalf of clients that wait for them at several, and had some."""

    def __init__(self) -> None:
        self.questions = 0
        self.found = 0


class Reserving:
    """Where a session looks for its next job: behind the shard that gave the last one; last where there was none."""

    __slots__ = ("counts", "empty_until_ns", "last")

    def __init__(self, counts: Counts | None = None) -> None:
        self.counts = counts or Counts()
        self.last = ""
        self.empty_until_ns: dict[str, int] = {}

    def order(self, shards: Sequence[Shard], now_ns: int) -> list[Shard]:
        first = next((i + 1 for i, shard in enumerate(shards) if shard.name == self.last), 0)
        turned = [*shards[first:], *shards[:first]]
        return sorted(turned, key=lambda shard: self.empty_until_ns.get(shard.name, now_ns) > now_ns)

    def note(self, shard: Shard, now_ns: int, *, gave: bool) -> None:
        self.counts.questions += 1
        self.counts.found += gave
        if gave:
            self.last = shard.name
        else:
            self.empty_until_ns[shard.name] = now_ns + EMPTY_NS


class Client(Protocol):
    """What a gather asks of a session."""

    used: bytes  # the tube in use
    reserving: Reserving

    @property
    def now_ns(self) -> int: ...  # monotonic
    def watched_shards(self) -> Sequence[Shard]: ...  # places of the watched tubes, and what has given it a job
    def place(self, tube: bytes) -> Place: ...
    def home(self, tube: bytes, name: bytes) -> Shard: ...  # of a spread tube that of something of this name
    def shard_of_id(self, id: int) -> Shard | None: ...
    def is_there(self, shard: Shard) -> bool: ...  # there is a link to it
    def facts(self) -> Mapping[bytes, bytes]: ...  # what `stats` says of the router itself, as it stands there


class Request:
    """A command of a session with several destinations; nothing of it points into the decoder's input."""

    __slots__ = ("arguments", "bound", "client", "data", "limit", "shards", "timeout_ns", "verb", "words")

    def __init__(self, client: Client, command: Command, data: bytes, shards: Sequence[Shard]) -> None:
        """`data` is the whole command, with its body; `shards` are those that its row gives."""
        self.client = client
        self.verb = Verb(command.verb)
        self.data = data
        self.shards = shards
        self.words = words_of(data)
        # Of a command that is no extension the arguments are those of an earlier one.
        self.arguments: dict[str, Any] = dict(command.arguments) if self.verb > Verb.EXPECTED_CRLF else {}
        self.limit: int = self.arguments.get("limit", FRAMES_MAX)
        self.bound: int = self.arguments.get("bound", command.bound)
        self.timeout_ns: int = self.arguments.get("timeout", command.timeout_s * 10**9)


Gather = Callable[[Request], Gathering[bytes]]


# --- Lines and replies ------------------------------------------------------------------------------------------------


def words_of(data: bytes) -> list[bytes]:
    """Return the words of the line with which a command, a reply or a frame begins."""
    return data[: data.index(b"\r\n")].split(b" ")


def line(*words: bytes) -> bytes:
    return b" ".join(words) + b"\r\n"


def number_of(reply: bytes) -> int:
    return int(words_of(reply)[1])


def text_of(reply: bytes) -> bytes:
    """Return what stands behind the line."""
    return reply[reply.index(b"\r\n") + 2 : -2]


def frames_of(reply: bytes) -> list[bytes]:
    """Return the frames of JOBS or SCHEDULES."""
    frames = []
    at = reply.index(b"\r\n") + 2
    while at < len(reply):
        end = reply.index(b"\r\n", at)
        end += 4 + int(reply[at:end].split(b" ", 3)[2])
        frames.append(reply[at:end])
        at = end
    return frames


def best(replies: Sequence[bytes], wanted: bytes) -> bytes:
    """Return a reply that begins as is wanted, else a refusal, else one that nothing was found."""
    return min(replies, key=lambda reply: (not reply.startswith(wanted), reply == NOT_FOUND))


# --- Questions --------------------------------------------------------------------------------------------------------


def ask(shard: Shard, data: bytes, tells: Tells = Tells.NOTHING) -> Gathering[bytes]:
    (reply,) = yield [Ask(shard, data, tells)]
    return bytes(reply)


def ask_all(shards: Sequence[Shard], data: bytes) -> Gathering[list[bytes]]:
    return list((yield [Ask(shard, data) for shard in shards]))


def there(request: Request) -> Sequence[Shard]:
    """Return those shards of a request that are there, or if none is, all."""
    return [shard for shard in request.shards if request.client.is_there(shard)] or request.shards


def ask_there(request: Request) -> Gathering[list[tuple[Shard, bytes]]]:
    """Ask those shards that are there, or if none is, all; return who has answered, and what."""
    while True:
        asked = there(request)
        replies = yield [Ask(shard, request.data, may_fail=request.client.is_there(shard)) for shard in asked]
        if found := [pair for pair in zip(asked, replies, strict=True) if pair[1]]:
            return found
