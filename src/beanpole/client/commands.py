"""The table of commands: for each, what is sent and what the answer means. No I/O.

A command is a method of :class:`Commands` that returns a :class:`Call`. The decorator turns it into a method that runs
the call: at once in :class:`~beanpole.client.sync.Client`, as a coroutine in
:class:`~beanpole.client.aio.AsyncClient`, later in a pipeline. So each stands here once, with its one docstring.
"""

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from beanpole.client import limits
from beanpole.client.extensions import ID_MAX, line, seconds, whole
from beanpole.client.job import Job, job_id
from beanpole.client.putting import PutOptions, put_call
from beanpole.client.session import INSERTED, RESERVED, USED, Session
from beanpole.client.stats import Stats, StatsJob, StatsTube, parse_list
from beanpole.limits import PRI_MAX
from beanpole.protocol import wire
from beanpole.protocol.replies import Word
from beanpole.protocol.wire import Call, Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from beanpole.client.plan import Plan, Result

B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")


DELETED = int(Word.DELETED)  # as those of the session: a member of an enum costs more to pass on than a number
FRACTIONS = ("fractions",)  # what a server lists that counts durations with decimals in beanstalkd's commands


class Blocking:
    """A class whose commands return their value."""

    async def _done(self, result: T) -> T:
        return result


class Awaiting:
    """A class whose commands are coroutines."""

    async def _done(self, result: "Awaitable[T]") -> T:
        return await result


class Queueing:
    """A class whose commands return a Result that has its value later."""


if TYPE_CHECKING:

    class command(Generic[P, T]):  # noqa: N801 - a decorator
        """What the type checker knows of a command: what it returns depends on the class."""

        def __init__(self, build: "Callable[Concatenate[Any, P], Call[T] | Plan[T]]") -> None: ...
        @overload
        def __get__(self, instance: Blocking, owner: object = None) -> Callable[P, T]: ...
        @overload
        def __get__(self, instance: Awaiting, owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
        @overload
        def __get__(self, instance: Queueing, owner: object = None) -> Callable[P, Result[T]]: ...
        def __get__(self, instance: object, owner: object = None) -> object: ...

    batch_command = command

else:
    MISSING = object()

    def command(build):  # noqa: ANN001, ANN201 - see above
        """A method that builds the call and runs it as its class does."""

        @wraps(build)
        def method(self, first=MISSING, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            # Most calls have one argument or none; packing and unpacking it would cost as much as encoding it.
            if args or kwargs:
                return self._run(build(self, *(() if first is MISSING else (first,)), *args, **kwargs))
            return self._run(build(self) if first is MISSING else build(self, first))

        return method

    def batch_command(build):  # noqa: ANN001, ANN201 - see above
        """A method that makes the plan of a batch and runs it as its class does."""

        @wraps(build)
        def method(self, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            return self._run_batch(build(self, *args, **kwargs))

        return method


class Commands(Generic[B]):
    """The commands. Each raises a :class:`~beanpole.errors.ReplyError` if the server's answer is no.

    Where a job is asked for, a :class:`~beanpole.client.job.Job` or an id will do. Besides what is said below, any may
    raise ArgumentError (nothing was sent), OutOfMemoryError, InternalError, UnexpectedReplyError or
    ConnectionLostError.
    """

    _session: Session[B]

    @property
    def untouched(self) -> bool:
        """Whether the client uses and watches what it did in the beginning, and holds no job."""
        return self._session.untouched

    @command
    def put(
        self,
        body: B,
        priority: int = limits.PRI_DEFAULT,
        delay: float = 0,
        ttr: int = limits.TTR_S_DEFAULT,
        *,
        tube: str = USED,
        **options: Unpack[PutOptions],
    ) -> "Call[int]":
        """Puts a job into the used tube, or into `tube`, and returns its id (``put``).

        Smaller priorities come first, from 0 to 2**32 - 1. The job becomes ready after `delay` seconds. Who reserves it
        has `ttr` seconds until the server gives it to another, unless it is touched; 0 is taken for 1. Priority and TTR
        are whole numbers. Another `tube` costs no round trip, and the used tube stays what it is.

        With a fraction of a second or one of the options it is a ``put-job``, see :meth:`put_job`, and the id is that
        of the job which has the key; a server that does not know that raises UnsupportedError, and nothing was put.

        Raises BuriedError, DrainingError, JobTooBigError, ExpectedCrlfError, and TypeError or ValueError if the codec
        can't encode the body.
        """
        session = self._session
        given = options and any(value is not None and value is not False for value in options.values())
        if given or not isinstance(delay, int) or session.carried is not None:
            return put_call(session, body, (priority, delay, ttr), tube, number, **options)
        data = wire.put(session.codec.encode(body), priority, delay, ttr)
        return Call(data, INSERTED, number, tube=tube)

    @command
    def use(self, tube: str) -> "Call[None]":
        """Makes `tube` the used one: where jobs are put, and where peek and kick look (``use``)."""
        return Call(wire.command(b"use", tube), Word.USING, uses=tube)

    @command
    def reserve(self, timeout: int | None = None) -> "Call[Job[B]]":
        """Waits for a job of the watched tubes, reserves and returns it (``reserve``, ``reserve-with-timeout``).

        `timeout` is in whole seconds; 0 does not wait, None waits for ever. Raises TimedOutError when no job came,
        DeadlineSoonError when one that this client holds is in its last second, and BodyError if the body can't be
        decoded: then the job is reserved all the same, and the error has its id.
        """
        return Call(wire.reserve(timeout), RESERVED, self._session.reserved, wait_s=timeout)

    @command
    def reserve_job(self, id: Job[B] | int) -> "Call[Job[B]]":
        """Reserves the job with an id, ready, delayed or buried, of any tube, and returns it (``reserve-job``).

        Raises NotFoundError if there is none or somebody holds it, and BodyError as :meth:`reserve` does.
        """
        return Call(wire.command(b"reserve-job", job_id(id)), Word.RESERVED, self._session.reserved)

    @command
    def delete(self, job: Job[B] | int) -> "Call[None]":
        """Deletes a job that this client holds, or that nobody holds (``delete``).

        Raises NotFoundError if there is none or somebody else holds it.
        """
        id = job.id if isinstance(job, Job) else job
        held = self._session.held
        return Call(wire.with_id(b"delete", id), DELETED, lambda _: held.discard(id))

    @command
    def release(self, job: Job[B] | int, priority: int = limits.PRI_DEFAULT, delay: float = 0) -> "Call[None]":
        """Gives a job back that this client holds; it is ready again after `delay` seconds (``release``).

        Its priority becomes `priority`: the default, not what it was. Raises NotFoundError if this client does not hold
        it, BuriedError if the server had no room and buried it, and UnsupportedError for a fraction of a second that
        the server can't count.
        """
        id = job_id(job)
        forget = self._session.lets_go(id)
        if isinstance(delay, int):
            return Call(wire.command(b"release", id, priority, delay), Word.RELEASED, forget)
        words = (whole(id, ID_MAX, "id"), whole(priority, PRI_MAX, "priority"), seconds(delay, "delay"))
        return Call(line(b"release", *words)[0], Word.RELEASED, forget, needs=FRACTIONS)

    @command
    def bury(self, job: Job[B] | int, priority: int = limits.PRI_DEFAULT) -> "Call[None]":
        """Puts a job that this client holds aside until it is kicked (``bury``).

        Its priority becomes `priority`: the default, not what it was. Raises NotFoundError if this client does not hold
        it.
        """
        id = job_id(job)
        return Call(wire.command(b"bury", id, priority), Word.BURIED, self._session.lets_go(id))

    @command
    def touch(self, job: Job[B] | int) -> "Call[None]":
        """Lets the TTR of a job that this client holds begin again (``touch``).

        Raises NotFoundError if this client does not hold it.
        """
        return Call(wire.with_id(b"touch", job_id(job)), Word.TOUCHED)

    @command
    def watch(self, tube: str) -> "Call[int]":
        """Adds a tube to those that reserve takes jobs from; returns how many these are (``watch``)."""
        session = self._session

        def watched(reply: Reply) -> int:
            session.watching[tube] = None
            return reply.number

        return Call(wire.command(b"watch", tube), Word.WATCHING, watched)

    @command
    def ignore(self, tube: str) -> "Call[int]":
        """Removes a tube from those that reserve takes jobs from; returns how many are left (``ignore``).

        Raises NotIgnoredError if it is the last.
        """
        session = self._session

        def ignored(reply: Reply) -> int:
            session.watching.pop(tube, None)
            return reply.number

        return Call(wire.command(b"ignore", tube), Word.WATCHING, ignored)

    @command
    def peek(self, id: Job[B] | int) -> "Call[Job[B]]":
        """Returns the job with an id, of any tube and in any state, and does not reserve it (``peek``).

        Raises NotFoundError if there is none, and BodyError if its body can't be decoded.
        """
        return Call(wire.command(b"peek", job_id(id)), Word.FOUND, self._session.found)

    @command
    def peek_ready(self, *, tube: str = USED) -> "Call[Job[B]]":
        """Returns the next ready job of the used tube, or of `tube`, and does not reserve it (``peek-ready``).

        Raises NotFoundError if none is ready, and BodyError if its body can't be decoded.
        """
        return Call(wire.command(b"peek-ready"), Word.FOUND, self._session.found, tube=tube)

    @command
    def peek_delayed(self, *, tube: str = USED) -> "Call[Job[B]]":
        """Returns the delayed job of the used tube, or of `tube`, that is ready first (``peek-delayed``).

        Raises NotFoundError if none is delayed, and BodyError if its body can't be decoded.
        """
        return Call(wire.command(b"peek-delayed"), Word.FOUND, self._session.found, tube=tube)

    @command
    def peek_buried(self, *, tube: str = USED) -> "Call[Job[B]]":
        """Returns the job of the used tube, or of `tube`, that was buried first (``peek-buried``).

        Raises NotFoundError if none is buried, and BodyError if its body can't be decoded.
        """
        return Call(wire.command(b"peek-buried"), Word.FOUND, self._session.found, tube=tube)

    @command
    def kick(self, bound: int) -> "Call[int]":
        """Makes up to `bound` buried jobs of the used tube ready, or delayed ones if none is buried (``kick``).

        `bound` is from 0 to 2**32 - 1. Returns how many became ready.
        """
        return Call(wire.command(b"kick", bound), Word.KICKED, number, tube=USED)

    @command
    def kick_job(self, job: Job[B] | int) -> "Call[None]":
        """Makes one buried or delayed job of any tube ready (``kick-job``).

        Raises NotFoundError if there is none, or it is neither buried nor delayed.
        """
        return Call(wire.command(b"kick-job", job_id(job)), Word.KICKED)

    @command
    def pause_tube(self, tube: str, delay: float) -> "Call[None]":
        """Keeps jobs of a tube from being reserved for `delay` seconds; 0 ends a pause (``pause-tube``).

        Raises NotFoundError if there is no such tube, and UnsupportedError for a fraction of a second that the server
        can't count.
        """
        if isinstance(delay, int):
            return Call(wire.command(b"pause-tube", tube, delay), Word.PAUSED)
        data, _ = line(b"pause-tube", wire.tube_name(tube), seconds(delay, "delay"))
        return Call(data, Word.PAUSED, needs=FRACTIONS)

    @command
    def stats(self) -> "Call[Stats]":
        """The statistics of the server (``stats``)."""
        return Call(wire.command(b"stats"), Word.OK, lambda reply: Stats.parse(reply.body))

    @command
    def stats_tube(self, tube: str) -> "Call[StatsTube]":
        """The statistics of a tube (``stats-tube``). Raises NotFoundError if there is no such tube."""
        return Call(wire.command(b"stats-tube", tube), Word.OK, lambda reply: StatsTube.parse(reply.body))

    @command
    def stats_job(self, job: Job[B] | int) -> "Call[StatsJob]":
        """The statistics of a job in any state (``stats-job``). Raises NotFoundError if there is none."""
        data = wire.command(b"stats-job", job_id(job))
        return Call(data, Word.OK, lambda reply: StatsJob.parse(reply.body))

    @command
    def tubes(self) -> "Call[list[str]]":
        """The names of all tubes (``list-tubes``)."""
        return Call(wire.command(b"list-tubes"), Word.OK, names)

    @command
    def watching(self) -> "Call[list[str]]":
        """The names of the tubes that reserve takes jobs from (``list-tubes-watched``)."""
        return Call(wire.command(b"list-tubes-watched"), Word.OK, names)

    @command
    def tube_used(self) -> "Call[str]":
        """The name of the used tube (``list-tube-used``)."""
        return Call(wire.command(b"list-tube-used"), Word.USING, lambda reply: reply.body.decode(), tube=USED)


def number(reply: Reply) -> int:
    return reply.number


def names(reply: Reply) -> list[str]:
    return parse_list(reply.body)
