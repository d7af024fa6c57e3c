"""The tubes that a client wants to use and watch, and the state of the connection that it has. No I/O.

Both skins encode calls and read answers through a :class:`Session`; it survives its connections. A new connection
starts with the default tube used and watched; :meth:`Session.greeting` has the commands that restore the last state.

Invariants:

- `used` is what the server's side of the connection uses once it has run what was encoded so far. A call that depends
  on the used tube is encoded with a ``use`` in front of it only if it has to be.
- `held` has every job that was reserved over this connection and is not known to be given back. It may have more (the
  TTR ran out), never less.
- `away` has the jobs that were held when a connection broke over which they are kept: the next one says whether they
  still are, and they are `held` or `lost` then.
- `lost` has the last jobs that were held over earlier connections: others may have them now.
- `features` is what the server of this very connection has listed. A call that needs some is encoded only if they are
  in it: an older server would take the body of a command that it does not know for commands.
"""

import secrets
from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, TypeVar

from beanpole import errors
from beanpole.client.about import About, about, named
from beanpole.client.codec import Codec
from beanpole.client.extensions import line, name_bytes
from beanpole.client.job import Job
from beanpole.client.stats import parse_list
from beanpole.errors import (
    ArgumentError,
    BadFormatError,
    BeanpoleError,
    BodyError,
    BuriedError,
    ExistsError,
    JobLostError,
    ReplyError,
    RulesError,
    ScheduleError,
    UnexpectedReplyError,
)
from beanpole.protocol import wire
from beanpole.protocol.replies import Word
from beanpole.protocol.wire import Call, Reply

LOST_JOBS_MAX = 10_000  # jobs of which a client remembers that they were lost with their connection

B = TypeVar("B")
T = TypeVar("T")

DEFAULT_TUBE = "default"  # the tube that a new connection uses and watches
USED = ""  # as a call's tube: the one that the client wants to use

HOLDING = frozenset({b"touch", b"release", b"bury", b"fail-job", b"snooze-job"})
"""The commands that only the connection may send that has reserved the job."""

INSERTED = int(Word.INSERTED)
RESERVED = int(Word.RESERVED)
JOBS = int(Word.JOBS)
CANCEL_RESERVE = b"cancel-reserve\r\n"
NOT_FOUND = int(Word.NOT_FOUND)
OUT_OF_MEMORY = int(Word.OUT_OF_MEMORY)
WATCHING = int(Word.WATCHING)
OK = int(Word.OK)
JOB = int(Word.JOB)

QUIT = b"quit\r\n"

LIST_EXTENSIONS = b"list-extensions\r\n"
"""Asks what a server has besides beanstalkd's commands: ``put-job``, ``put-job.key``, ``rule.attempts`` and so on."""

WHO_IS_UNKNOWN = f"NOT_AUTHENTICATED: {errors.WHO_IS_UNKNOWN}"

ERRORS: dict[int, tuple[type[ReplyError], str]] = {
    Word.BAD_FORMAT: (BadFormatError, "BAD_FORMAT: the server finds the command malformed"),
    Word.DEADLINE_SOON: (errors.DeadlineSoonError, "DEADLINE_SOON: a job that this client holds times out in a second"),
    Word.DRAINING: (errors.DrainingError, "DRAINING: the server takes no more jobs"),
    Word.EXPECTED_CRLF: (errors.ExpectedCrlfError, "EXPECTED_CRLF: a body was not as long as announced"),
    Word.INTERNAL_ERROR: (errors.InternalError, "INTERNAL_ERROR: the server has a bug"),
    Word.JOB_TOO_BIG: (errors.JobTooBigError, "JOB_TOO_BIG: the body is larger than the server's limit"),
    Word.NOT_FOUND: (
        errors.NotFoundError,
        "NOT_FOUND: there is no such job or tube, or it is not in a state that allows this",
    ),
    Word.NOT_AUTHENTICATED: (errors.NotAuthenticatedError, WHO_IS_UNKNOWN),
    Word.NOT_IGNORED: (errors.NotIgnoredError, "NOT_IGNORED: the last watched tube stays"),
    Word.OUT_OF_MEMORY: (
        errors.OutOfMemoryError,
        "OUT_OF_MEMORY: no room, or the tube is full by its rules or space: beanpole explain says which",
    ),
    Word.TIMED_OUT: (errors.TimedOutError, "TIMED_OUT: no job came in time"),
    Word.UNKNOWN_COMMAND: (
        errors.UnknownCommandError,
        "UNKNOWN_COMMAND: the server is too old or does not know who this is, or this user lacks the right to it",
    ),
}
"""The answers that say no to any command that they are given to."""

LINE_ERRORS: dict[int, type[errors.LineError]] = {Word.BAD_RULES: RulesError, Word.BAD_SCHEDULE: ScheduleError}

ENDING = (UnexpectedReplyError, errors.TooManyTubesError, errors.NotAuthenticatedError)
"""The errors behind which a connection can't be used any more, though the server has answered."""


def buried(reply: Reply) -> BuriedError:
    return BuriedError("BURIED: the server had no room in its queue", reply.number or None)


def exists(reply: Reply) -> ExistsError:
    return ExistsError(f"EXISTS: job {reply.number} has the key", reply.number)


def elsewhere(reply: Reply) -> errors.ElsewhereError:
    shard = reply.body.decode("ascii", "replace")
    return errors.ElsewhereError(f"ELSEWHERE: the other tube has its home on shard {shard}; nothing is changed", shard)


def forbidden(reply: Reply) -> errors.ForbiddenError:
    right, _, tube = reply.body.decode("utf-8", "surrogateescape").partition(" ")
    return errors.ForbiddenError(f"FORBIDDEN: this user lacks the right {right} on {tube}", right, tube)


ERRORS_WITH_MORE: dict[int, Callable[[Reply], ReplyError]] = {
    Word.BURIED: buried,
    Word.EXISTS: exists,
    Word.ELSEWHERE: elsewhere,
    Word.FORBIDDEN: forbidden,
}
"""What makes an error that carries more than a sentence, by the answer."""


def error_of(reply: Reply) -> BeanpoleError:
    if reply.word in ERRORS_WITH_MORE:
        return ERRORS_WITH_MORE[reply.word](reply)
    if reply.word in LINE_ERRORS:
        return LINE_ERRORS[reply.word](reply.number, reply.body.decode("utf-8", "replace"))
    if reply.word in ERRORS:
        kind, sentence = ERRORS[reply.word]
        return kind(sentence)
    return UnexpectedReplyError(f"unexpected reply to the command: {reply!r}")


def refusal_of(reply: Reply, what: About) -> BeanpoleError:
    """The error for an answer that says no. Raises it if the connection can't be used any more."""
    error = named(error_of(reply), what)
    if isinstance(error, ENDING):
        raise error
    return error


class Keep:
    """For how long a server keeps the jobs of a client whose connection is lost, and the token by which it returns."""

    def __init__(self, process: Callable[[], int]) -> None:
        self._process = process
        self.seconds = 0
        """0: it keeps none."""
        self.always = False
        """Whether it does so, too, where the end came from the client's side."""
        self.begun = False
        """Whether the server of the last connection keeps them."""
        self._token = b""
        self._drawn_by = -1

    def line(self, seconds: int, always: bool) -> tuple[bytes, tuple[str, ...]]:
        if not self.is_own:  # the child of a fork draws another one: two that say the same end each other
            self._token, self._drawn_by = secrets.token_hex(16).encode(), self._process()
        return line(b"keep-session", b"%d" % seconds, self._token, ends=b"all" if always else None)

    @property
    def is_own(self) -> bool:
        """Whether this process has drawn the token."""
        return self._drawn_by == self._process()


class Session(Generic[B]):
    """The used tube, the watch list and the jobs of a client, and the codec of its bodies."""

    def __init__(
        self,
        codec: Codec[B],
        using: str,
        watching: Iterable[str],
        name: Callable[[], str] = lambda: "",
        wall_s: Callable[[], float] = lambda: 0.0,
        process: Callable[[], int] = lambda: 0,
    ) -> None:
        self.codec = codec
        self.carried: Callable[[], dict[str, str]] | None = None
        """What jobs carry besides the headers that they are given; None: nothing."""
        self.wall_s = wall_s
        """The time of this machine, in seconds since 1970."""
        self.name = name
        """What connections are called on a server that knows names; empty: nothing."""
        self.is_named = False
        """Whether the server of this connection was given the name, or has no names."""
        self.using = using
        """The tube that the client wants to use."""
        self.refused = ""
        """The last tube that the server has not let it use; empty: none."""
        self.watching = dict.fromkeys(watching)
        """The tubes that the client wants to watch, in the order of their watch; the values mean nothing."""
        self.used = DEFAULT_TUBE
        """The tube that the connection uses."""
        self.held: set[int] = set()
        """The jobs that this client may hold."""
        self.away: set[int] = set()
        """The jobs that it held when its connection broke, and that may wait for it."""
        self.keep = Keep(process)
        self.lost: dict[int, None] = {}
        """The jobs that were held over connections that have ended, in that order; the values mean nothing."""
        self.may_cancel = False
        """Whether a call may be cancelled while it waits."""
        self.connection = 0
        """Counts the connections."""
        self.features: frozenset[str] | None = None
        """What the server of this connection has listed; None: it was not asked."""
        self.asks = False
        """Whether a new connection begins with that question: the client has needed the answer once, or has a login."""
        self._beginning = (using, list(self.watching))
        for tube in (using, *self.watching):
            wire.tube_name(tube)
        if not self.watching:
            raise ArgumentError("a client watches at least one tube")

    @property
    def untouched(self) -> bool:
        """Whether the client uses and watches what it did in the beginning, and holds and keeps no job."""
        is_free = not self.held and not self.away and not self.keep.seconds
        return is_free and self._beginning == (self.using, list(self.watching))

    # --- Out ---

    def ended(self, *, on_purpose: bool = False) -> None:
        """The connection is over: the server gives what was held to others, unless it is kept for the client."""
        self.away |= self.held
        self.held.clear()
        if on_purpose or not self.keep.begun:
            self.returned(())

    def returned(self, kept: Collection[int]) -> list[int]:
        """What the server has kept is held again, and what else was held is lost; returns what the client never had."""
        self.held |= self.away.intersection(kept)
        if lost := self.away - self.held:
            self.lost.update(dict.fromkeys(lost))
            for id in list(self.lost)[:-LOST_JOBS_MAX]:
                del self.lost[id]
        self.away.clear()
        return [id for id in kept if id not in self.held]

    def forget(self, ids: Iterable[int]) -> None:
        """Nobody works on these jobs any more: should the server have kept them, they are given back."""
        self.held.difference_update(ids)
        self.away.difference_update(ids)

    @property
    def may_return(self) -> bool:
        """Whether there are jobs that the server keeps for this client if its connection is lost."""
        return self.keep.begun and bool(self.held or self.away)

    def goodbye(self) -> bytes:
        """What a client says that ends its connection: nothing of it is to be kept."""
        return QUIT if self.keep.begun and self.keep.is_own else b""

    def prepare(self, call: "Call[Any]") -> None:
        """Gets ready for a call for which there is no connection yet. Raises JobLostError.

        A ``use`` takes the place of a tube that was refused, with which no connection can begin.
        """
        self.check_held(call)
        if call.uses is not None and self.using == self.refused:
            self.using = call.uses

    def greeting(self) -> list[bytes]:
        """The commands that bring a new connection to the state that the client wants; none of them may fail."""
        self.used = self.using
        self.ended()
        self.connection += 1
        self.features = None
        self.is_named = False
        commands = [] if self.using == DEFAULT_TUBE else [wire.command(b"use", self.using)]
        commands += [wire.command(b"watch", tube) for tube in self.watching if tube != DEFAULT_TUBE]
        if DEFAULT_TUBE not in self.watching:
            commands.append(wire.command(b"ignore", DEFAULT_TUBE))
        return [*commands, LIST_EXTENSIONS] if self.asks or self.keep.seconds else commands

    def returning(self) -> bytes:
        """What a client that keeps its jobs says behind the greeting: it begins, or returns; empty: it keeps none.

        Jobs that were held are lost where the server does not know that.
        """
        if self.keep.seconds:
            data, needs = self.keep.line(self.keep.seconds, self.keep.always)
            if self.missing(needs) is None:
                return data
        self.keep.begun = False
        self.returned(())
        return b""

    def kept(self, reply: Reply) -> list[bytes]:
        """Takes the answer to that; returns the lines that give back what the client never had."""
        self.keep.begun = reply.word == Word.KEPT
        ids = [int(each) for each in (reply.body or b"").split()] if self.keep.begun else []
        if reply.word not in {Word.KEPT, Word.NOT_KEPT}:
            refusal_of(reply, about(b"keep-session\r\n", self.used))
        strange = self.returned(ids)
        return [line(b"snooze-job", b"%d" % id, b"0")[0] for id in strange if self.missing(("snooze-job",)) is None]

    def missing(self, needs: Iterable[str]) -> str | None:
        """The first of some features that the server of this connection has not listed; None: it has all."""
        return next((each for each in needs if self.features is None or each not in self.features), None)

    def must_slice(self) -> bool:
        """Whether a reserve that waits is sent second by second, as nothing else could end it without a loss."""
        return self.may_cancel and bool(self.held) and self.missing(("cancel-reserve",)) is not None

    def prefix(self, tube: str | None) -> bytes:
        """The ``use`` in front of a command that needs a tube to be used; empty: it is."""
        wanted = tube or self.using
        if tube is None or wanted == self.used:
            return b""
        data = wire.command(b"use", wanted)
        self.used = wanted
        return data

    def naming(self) -> bytes:
        """The ``name-session`` in front of the first command since the server has listed it; empty: there is none.

        So it costs no round trip, and a server that does not know it is never sent one.
        """
        if self.is_named or self.features is None:
            return b""
        self.is_named = True
        name = self.name() if "name-session" in self.features else ""
        return b"name-session %b\r\n" % name_bytes(name) if name else b""

    def renamed(self, name: str) -> Callable[[Reply], None]:
        def done(_: Reply) -> None:
            self.name = lambda: name

        return done

    def encode(self, call: "Call[T]") -> tuple[bytes, int]:
        """What to send for a call, and how many replies it has: the last is its own."""
        prefix = b""
        tube = call.tube
        if tube is not None and (tube or self.using) != self.used:
            prefix = self.prefix(tube)
        if call.uses is not None:
            self.used = self.using = call.uses  # now, not with the answer: what is encoded next goes behind it
        if self.features is None or self.is_named:  # most often
            return (prefix + call.data, 2) if prefix else (call.data, 1)
        # A cancel-reserve must be the very next line behind the one that waits.
        if call.data != CANCEL_RESERVE and (naming := self.naming()):
            return (naming + prefix + call.data, 2 + bool(prefix))
        return (prefix + call.data, 2) if prefix else (call.data, 1)

    # --- In ---

    def authenticated(self, reply: Reply) -> None:
        """Takes the answer to ``auth``. Raises NotAuthenticatedError, also of a server that has no users."""
        what = about(b"auth\r\n", self.used)
        if reply.word == Word.UNKNOWN_COMMAND:
            sentence = "UNKNOWN_COMMAND: the server has no users, or takes no token here: connect without one"
            raise named(errors.NotAuthenticatedError(sentence), what)
        if reply.word != Word.AUTHENTICATED:
            raise refusal_of(reply, what)

    def greeted(self, commands: list[bytes], replies: list[Reply]) -> None:
        """Takes the answers to the greeting, as far as they came.

        Raises UnexpectedReplyError, TooManyTubesError or NotAuthenticatedError if one of its commands was not done.
        """
        for command, reply in zip(commands, replies, strict=False):
            if reply.word == Word.NOT_AUTHENTICATED:  # of the connection: the caller knows nothing of these commands
                raise error_of(reply)
            if command == LIST_EXTENSIONS:
                self.listed(reply, self.connection)
            else:
                self.check_prefixes([reply], command, self.used)

    def listed(self, reply: Reply, connection: int) -> None:
        """Takes the answer to ``list-extensions`` of a connection; one that came too late says nothing of the next.

        A server that refuses the command has none.
        """
        features = frozenset(parse_list(reply.body)) if reply.word == Word.OK else frozenset[str]()
        if reply.word != Word.OK:
            refusal_of(reply, about(LIST_EXTENSIONS, self.used))
        if connection == self.connection:
            self.features = features

    def finish(self, call: "Call[T]", reply: Reply, used: str | None = None) -> T:
        """The value of the answer to a call. Raises its error if it is no.

        `used` is the tube that the connection used for it, if calls were encoded since.
        """
        if reply.word != call.expected and reply.word not in call.also:
            if call.uses is not None or (call.expected == WATCHING and reply.word == OUT_OF_MEMORY):
                self.check_prefixes([reply], call.data, used or self.used)  # the connection is not what it seems
            if reply.word == NOT_FOUND:
                self.check_held(call)
            raise named(error_of(reply), about(call.data, used or self.used, self.watching))
        return call.take(reply) if call.take is not None else None  # type: ignore[return-value]

    def check_prefixes(self, replies: Iterable[Reply], data: bytes, used: str) -> None:
        """Raises if a ``use``, ``watch`` or ``name-session`` that the client sent on its own was not done.

        Then the connection is no good. They stood in front of a command (`data`), for which a tube is used.
        """
        for reply in replies:
            if reply.word == OUT_OF_MEMORY:
                self.refused = used
                raise named(errors.TooManyTubesError(), about(data, used))
            if reply.word in {Word.NOT_AUTHENTICATED, Word.UNKNOWN_COMMAND}:  # every server knows these commands
                raise named(errors.NotAuthenticatedError(WHO_IS_UNKNOWN), about(data, used))
            if reply.word not in {Word.USING, Word.WATCHING, Word.NAMED}:
                raise UnexpectedReplyError(f"use, watch, ignore or name-session was answered with {reply!r}")

    def is_lost(self, id: int) -> bool:
        """Whether a job was held over a connection that has ended, and is neither kept nor reserved again."""
        return id in self.lost and id not in self.held and id not in self.away

    def check_held(self, call: "Call[Any]", holding: frozenset[bytes] = HOLDING) -> None:
        """Raises JobLostError if a call is about a job that must be held, and is known to be lost."""
        verb, *words = call.data.split(None, 2)
        if self.lost and verb in holding and self.is_lost(int(words[0])):
            what = about(call.data, self.used)
            error = JobLostError(
                f"{what.text}: the connection that had reserved the job was lost; the server has given it to others"
            )
            error.command, error.id = what.command, what.id
            raise error

    def found(self, reply: Reply) -> Job[B]:
        """The job of a reply. Raises BodyError if its body can't be decoded."""
        try:
            return Job(reply.number, self.codec.decode(reply.body), reply if reply.word == JOB else None)
        except Exception as error:
            sentence = f"the body of job {reply.number} can't be decoded: {error}"
            raise BodyError(sentence, reply.number, reply.body) from error

    def reserved(self, reply: Reply) -> Job[B]:
        """The job of a reply, which the client holds now. Raises BodyError, and the client holds it all the same."""
        self.held.add(reply.number)
        return self.found(reply)

    def lets_go(self, id: int) -> Callable[[Reply], None]:
        held = self.held

        def gone(_: Any) -> None:  # noqa: ANN401 - whatever the answer is
            held.discard(id)

        return gone


class Using:
    """Within ``with``, the client uses another tube; afterwards the one before. Costs no round trip of its own."""

    def __init__(self, session: Session[Any], tube: str) -> None:
        wire.tube_name(tube)
        self._session = session
        self._tube = tube
        self._before: list[str] = []

    def __enter__(self) -> None:
        self._before.append(self._session.using)
        self._session.using = self._tube

    def __exit__(self, *_: object) -> None:
        self._session.using = self._before.pop()
