"""The commands that beanstalkd does not know, as methods. No I/O.

Each asks a connection once what its server has (``list-extensions``). What a server lacks is done with the commands of
beanstalkd where that is safe, see :mod:`~beanpole.client.fallback`; else it raises
:class:`~beanpole.errors.UnsupportedError`, which names the feature. No option is ever dropped.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, Literal, TypeVar, Unpack, get_args

from beanpole.client import fallback, limits, scheduling
from beanpole.client.commands import command, number
from beanpole.client.explanation import Explanation
from beanpole.client.extensions import (
    ID_MAX,
    RESTING,
    STATES,
    choice,
    fields_of,
    key_bytes,
    line,
    name_bytes,
    optional,
    seconds,
    size_of,
    unix_seconds,
    whole,
    with_body,
)
from beanpole.client.job import Job, JobInfo, job_id
from beanpole.client.putting import Inserted, PutOptions, inserted, put_call
from beanpole.client.rights import Rights
from beanpole.client.ruling import Rules, pattern_bytes, rules_bytes
from beanpole.client.scheduling import NOTHING, Schedule, ScheduleOptions
from beanpole.client.session import CANCEL_RESERVE, USED, Session
from beanpole.client.stats import FailureCounts, GroupStats, Histograms, SessionInfo, StatsTube
from beanpole.errors import ArgumentError
from beanpole.limits import PRI_MAX
from beanpole.protocol import wire
from beanpole.protocol.limits import FRAMES_MAX, KEEP_S_MAX, TEXT_BYTES_MAX
from beanpole.protocol.replies import Word
from beanpole.protocol.wire import Call, Reply

WORK_S = 600  # seconds that a server may take for a command that goes through all jobs of a tube

B = TypeVar("B")
T = TypeVar("T")

JobField = Literal["session", "peer", "left", "reason", "history"]
"""What a list says of jobs when it is asked to."""

FIELDS: tuple[JobField, ...] = get_args(JobField)


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs of a list."""

    jobs: list[JobInfo]
    next: int | None
    """What to give as `after` for the next page; None: this is the last."""


def page(reply: Reply) -> Page:
    after = fields_of(reply.fields).get("next")
    return Page([JobInfo.parse(frame) for frame in reply.frames], int(after) if after is not None else None)


def page_size(limit: int | None) -> bytes | None:
    return optional(limit, whole, FRAMES_MAX, "limit", 1)


def reads(made: tuple[bytes, tuple[str, ...]], parse: Callable[[bytes], T]) -> "Call[T]":
    """A command that is answered with a text."""
    return Call(made[0], Word.OK, lambda reply: parse(reply.body), needs=made[1])


class Extended(Generic[B]):
    """The commands that an older server does not know. Each may raise UnsupportedError besides what it says."""

    _session: Session[B]

    @command
    def put_job(
        self,
        body: B,
        priority: int = limits.PRI_DEFAULT,
        delay: float = 0,
        ttr: int = limits.TTR_S_DEFAULT,
        *,
        tube: str = USED,
        **options: Unpack[PutOptions],
    ) -> "Call[Inserted]":
        """Puts a job as :meth:`put` does, and says whether it was put (``put-job``).

        At most one job of a tube holds a `key`, while it is ready, delayed or reserved, or until it is first reserved
        (`until` is ``reserve``). Another put with it leaves the job as it is, or replaces its body and its other
        options unless it is reserved (`taken` is ``replace``). A job that is still there `expire` seconds after it was
        due is deleted, unless somebody works on it.

        Instead of a `delay` it can be said when the job is ready: `at`, a datetime with a time zone or seconds since
        1970, by the server's clock; a server that does not know that gets a delay, counted by this machine's clock and
        rounded up to a second. What is replaced again and again is ready `within` so many seconds since it was put
        first.

        The `group` says whose the job is: the groups of a tube take turns, and have limits of their own by its rules.
        `meta` are its headers: up to 16 names with values, which the server carries for who gets the job.

        With a token, `once`, a put is done once in `once_for` seconds (300): the same one again changes nothing, and
        says the id of then. `retry` draws a token, so that the put is sent again when its reply is lost.
        """
        return put_call(self._session, body, (priority, delay, ttr), tube, inserted, **options)

    @command
    def find_job(self, tube: str, key: str) -> "Call[Job[B]]":
        """Returns the job of a tube that has a key, and does not reserve it (``find-job``).

        Raises NotFoundError if there is none, and BodyError if its body can't be decoded.
        """
        data, needs = line(b"find-job", wire.tube_name(tube), key_bytes(key))
        return Call(data, Word.FOUND, self._session.found, needs=needs)

    @command
    def change_job(
        self,
        job: Job[B] | int,
        *,
        tube: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        ttr: int | None = None,
        expire: float | None = None,
    ) -> "Call[None]":
        """Gives a job another tube, priority, delay, TTR or expiry; what is None stays (``change-job``).

        A buried job has no delay, and one that this client holds can only have another TTR, from the next touch on, and
        expiry. Raises NotFoundError if there is no such job in a state that allows this, ExistsError if its key is
        taken in the other tube, OutOfMemoryError if that is full, ElsewhereError if that is on another shard.
        """
        data, needs = line(
            b"change-job",
            whole(job_id(job), ID_MAX, "id"),
            tube=optional(tube, wire.tube_name),
            pri=optional(priority, whole, PRI_MAX, "priority"),
            delay=optional(delay, seconds, "delay"),
            ttr=optional(ttr, whole, PRI_MAX, "ttr"),
            expire=optional(expire, seconds, "expire"),
        )
        return Call(data, Word.CHANGED, needs=needs)

    @command
    def change_body(self, job: Job[B] | int, body: B) -> "Call[None]":
        """Gives a job another body that is ready, delayed or buried (``change-body``).

        Raises NotFoundError if there is none, JobTooBigError, OutOfMemoryError, and what the codec raises.
        """
        data = self._session.codec.encode(body)
        sent, needs = with_body(line(b"change-body", whole(job_id(job), ID_MAX, "id"), size_of(data)), data)
        return Call(sent, Word.CHANGED, needs=needs)

    @command
    def snooze_job(self, job: Job[B] | int, delay: float = 0, priority: int | None = None) -> "Call[None]":
        """Gives a job back that this client holds, for later: that is no failed attempt (``snooze-job``).

        Its priority stays unless there is one. Raises NotFoundError if this client does not hold it.
        """
        id = job_id(job)
        data, needs = line(
            b"snooze-job",
            whole(id, ID_MAX, "id"),
            seconds(delay, "delay"),
            pri=optional(priority, whole, PRI_MAX, "priority"),
        )
        return Call(data, Word.RELEASED, self._session.lets_go(id), needs=needs)

    @command
    def cancel_reserve(self) -> "Call[bool]":
        """Ends the waiting of the reserve before it (``cancel-reserve``), which another task has begun.

        That one raises TimedOutError then. Returns False if nothing waited any more: the job that came is reserved, as
        it is with a client that does not share its connection with other tasks.
        """
        return Call(
            CANCEL_RESERVE,
            Word.CANCELLED,
            lambda reply: reply.word == Word.CANCELLED,
            needs=("cancel-reserve",),
            also=(Word.NOT_WAITING,),
        )

    @command
    def cancel_job(self, job: Job[B] | int) -> "Call[None]":
        """Deletes a job that is not to be done any more, also one that a worker has at the moment (``cancel-job``).

        The worker hears of it when it touches the job, or says what came of it. Raises NotFoundError if there is no
        such job: it may be done.
        """
        id = job_id(job)
        data, needs = line(b"cancel-job", whole(id, ID_MAX, "id"))
        return Call(data, Word.CANCELLED, self._session.lets_go(id), needs=needs)

    @command
    def cancel_key(self, tube: str, key: str) -> "Call[int]":
        """Does the same to the job of a tube that has a key, and returns its id (``cancel-key``).

        Raises NotFoundError if none has.
        """
        data, needs = line(b"cancel-key", wire.tube_name(tube), key_bytes(key))
        return Call(data, Word.CANCELLED, number, needs=needs)

    @command
    def fail_job(
        self,
        job: Job[B] | int,
        reason: str = "",
        *,
        priority: int | None = None,
        delay: float | None = None,
        dead: bool = False,
    ) -> "Call[bool]":
        """Gives a job back on which this client has failed, and says why (``fail-job``).

        The rules of the tube say what follows. Returns whether the job is dead now, that is in the tube for the dead or
        buried; with `dead` it is, whatever the rules. The reason is cut after 1 024 bytes. Raises NotFoundError if this
        client does not hold the job.
        """
        if dead and delay is not None:
            raise ArgumentError("a job that is dead has no delay")
        id = job_id(job)
        text = reason.encode("utf-8", "surrogateescape")[:TEXT_BYTES_MAX]
        made = line(
            b"fail-job",
            whole(id, ID_MAX, "id"),
            b"%d" % len(text),
            pri=optional(priority, whole, PRI_MAX, "priority"),
            delay=optional(delay, seconds, "delay"),
            dead=b"now" if dead else None,
        )
        forget = self._session.lets_go(id)

        def failed(reply: Reply) -> bool:
            forget(reply)
            return reply.word == Word.BURIED

        sent, needs = with_body(made, text)
        return Call(sent, Word.RELEASED, failed, needs=needs, also=(Word.BURIED,))

    @command
    def clear_tube(self, tube: str, *states: str, group: str | None = None) -> "Call[int]":
        """Deletes the jobs of a tube that are in some states, or all that nobody holds; returns how many.

        The states are ``ready``, ``delayed`` and ``buried``; with `group` it is about the jobs of that. Jobs that are
        put while this runs stay (``clear-tube``). A server that does not know the command is asked for job after job,
        unless there is a group.
        """
        words = [choice(each, RESTING, "state") for each in dict.fromkeys(states)]
        data, needs = line(b"clear-tube", wire.tube_name(tube), *words, group=optional(group, key_bytes, "a group"))
        instead = partial(fallback.clear, self._session, tube, states or RESTING) if group is None else None
        return Call(data, Word.CLEARED, number, needs=needs, instead=instead, wait_s=WORK_S)

    @command
    def move_jobs(
        self, tube: str, state: str, to: str | None = None, bound: int = PRI_MAX, *, group: str | None = None
    ) -> "Call[int]":
        """Moves up to `bound` jobs of a tube in a state into the tube `to`; returns how many (``move-jobs``).

        Without `to`, each goes back to the tube in which it died; with `group` only jobs of that are moved. A job keeps
        its id, priority and age; a buried one becomes ready. A key that is taken there stays behind, and a full tube
        ends it.

        On a server that does not know the command, a copy of each job is put, with a new id, and the job is deleted
        then: if that is interrupted, one job may be in both tubes. Then `to` must be given, and no `group`.
        """
        return self._moving(tube, state, to, bound, group)

    def _moving(self, tube: str, state: str, to: str | None, bound: int, group: str | None) -> "Call[int]":
        data, needs = line(
            b"move-jobs",
            wire.tube_name(tube),
            choice(state, RESTING, "state"),
            whole(bound, PRI_MAX, "bound"),
            to=optional(to, wire.tube_name),
            group=optional(group, key_bytes, "a group"),
        )
        instead = (
            None if to is None or group is not None else partial(fallback.move, self._session, tube, state, to, bound)
        )
        return Call(data, Word.MOVED, number, needs=needs, instead=instead, wait_s=WORK_S)

    @command
    def redrive(
        self, tube: str, state: str = "ready", bound: int = PRI_MAX, *, group: str | None = None
    ) -> "Call[int]":
        """Moves up to `bound` jobs that have died back to the tubes in which they did; returns how many.

        `tube` is where the dead are: jobs of it that have not died stay. It is :meth:`move_jobs` without a target.
        """
        return self._moving(tube, state, None, bound, group)

    @command
    def list_jobs(
        self,
        tube: str,
        state: str,
        limit: int = FRAMES_MAX,
        *,
        after: int = 0,
        bodies: int | None = None,
        order: Literal["next"] | None = None,
        fields: Collection[JobField] = (),
        group: str | None = None,
    ) -> "Call[Page]":
        """Lists up to `limit` jobs of a tube in a state by their ids, those behind the id `after` (``list-jobs``).

        `bodies` is how many bytes of each body the list has; with `order` ``next`` the jobs come in the order in which
        they are handed out, and there is no next page. Each job that is there throughout is in one page. `fields` is
        what else the list says: the ``session`` that holds a job and its ``peer``, how long it has ``left``, and the
        ``reason`` of its last failure, with which come how it died (`why`) and after how many attempts. With `group` it
        is about the jobs of that, in `order` about its ready ones.

        A server that does not know the command is asked for id after id, about 10 000 in one call: a page may then
        have fewer jobs, or none, and still a next one. Bodies, `order`, `fields` and `group` need the command.
        """
        data, needs = line(
            b"list-jobs",
            wire.tube_name(tube),
            choice(state, STATES, "state"),
            whole(limit, FRAMES_MAX, "limit", 1),
            after=whole(after, ID_MAX, "after") if after else None,
            bodies=optional(bodies, whole, PRI_MAX, "bodies"),
            order=optional(order, choice, ("next",), "order"),
            fields=b",".join([choice(each, FIELDS, "field") for each in fields]) or None,
            group=optional(group, key_bytes, "a group"),
        )
        instead = None
        if bodies is None and order is None and group is None and not fields:
            instead = partial(fallback.listed, self._session, tube, state, limit, after, Page)
        return Call(data, Word.JOBS, page, needs=needs, instead=instead)

    @command
    def stats_tubes(self, after: str | None = None, limit: int | None = None) -> "Call[list[StatsTube]]":
        """The statistics of tubes, in the order of their names, of those behind `after` (``stats-tubes``)."""
        made = line(b"stats-tubes", after=optional(after, wire.tube_name), limit=page_size(limit))
        return reads(made, StatsTube.parse_many)

    @command
    def stats_histograms(self, after: str | None = None, limit: int | None = None) -> "Call[Histograms]":
        """How long jobs waited and were held, and what else the server times, since its start (``stats-histograms``).

        Over all tubes, and of those behind `after` in the order of their names. A page without tubes is the last.
        """
        made = line(b"stats-histograms", after=optional(after, wire.tube_name), limit=page_size(limit))
        return reads(made, Histograms.parse)

    @command
    def rights(self) -> "Call[Rights]":
        """Who the user of the connection is, what it may do, and what of its limits is used (``list-rights``).

        Raises UnsupportedError if the server has no users.
        """
        return Call(b"list-rights\r\n", Word.OK, lambda reply: Rights.parse(reply.body), needs=("list-rights",))

    @command
    def stats_groups(
        self,
        tube: str,
        group: str | None = None,
        limit: int | None = None,
        order: Literal["held", "ready"] | None = None,
    ) -> "Call[list[GroupStats]]":
        """What the groups of a tube have, those first of which most is ready, or `held`; or one (``stats-groups``).

        Raises NotFoundError if there is no such tube.
        """
        made = line(
            b"stats-groups",
            wire.tube_name(tube),
            group=optional(group, key_bytes, "a group"),
            limit=page_size(limit),
            order=optional(order, choice, ("held", "ready"), "order"),
        )
        return reads(made, GroupStats.parse_many)

    @command
    def pause_group(self, tube: str, group: str, delay: float) -> "Call[None]":
        """Keeps jobs of a group from being reserved for `delay` seconds; 0 ends a pause (``pause-group``).

        Raises NotFoundError if the group has no job and is not paused, OutOfMemoryError if too many are.
        """
        data, needs = line(b"pause-group", wire.tube_name(tube), key_bytes(group, "a group"), seconds(delay, "delay"))
        return Call(data, Word.PAUSED, needs=needs)

    @command
    def list_sessions(self, after: int | None = None, limit: int | None = None) -> "Call[list[SessionInfo]]":
        """Who is connected, in the order in which they came, of those behind the number `after` (``list-sessions``).

        A page without sessions is the end.
        """
        made = line(b"list-sessions", after=optional(after, whole, ID_MAX, "after"), limit=page_size(limit))
        return reads(made, SessionInfo.parse_many)

    @command
    def name_session(self, name: str) -> "Call[None]":
        """Names this connection, and later ones of this client, for people who look at the server (``name-session``).

        Without that it is named by the argument `name` of the client, as soon as it asks the server for its `features`.
        """
        data, needs = line(b"name-session", name_bytes(name))
        return Call(data, Word.NAMED, self._session.renamed(name), needs=needs)

    @command
    def keep(self, seconds: int, *, always: bool = False) -> "Call[None]":
        """Keeps the jobs of this client for 1 to 600 seconds when its connection is lost (``keep-session``).

        So it is when the server is stopped, killed or fails over: the client connects again and goes on with the jobs
        that it holds, and nobody else has had them. It says the same over each later connection. What the client's side
        ends (it is closed, or its process ends) gives them back at once; with `always` only :meth:`close` does, for
        clients behind a proxy that is restarted. 0 ends it.
        """
        keep = self._session.keep
        data, needs = keep.line(int(whole(seconds, KEEP_S_MAX, "seconds")), always)

        def kept(reply: Reply) -> None:
            keep.seconds, keep.always = seconds, always
            keep.begun = seconds > 0 and reply.word == Word.KEPT

        return Call(data, Word.KEPT, kept, needs=needs)

    # --- The rules of tubes ---

    @command
    def set_rules(self, pattern: str, rules: str | Mapping[str, object]) -> "Call[None]":
        """Sets the rules of a tube, of all whose names begin so (``mail-*``), or of all (``*``) (``set-rules``).

        They are lines, ``attempts: 5`` for example, or a dictionary, and take the place of those that the pattern had.
        For a tube those of its own name apply, else those of the longest pattern that fits; nothing is merged.

        Raises RulesError if a line is wrong, which most often is found before anything is sent, and UnsupportedError
        if the server lacks one of the rules: then none is set.
        """
        text, names = rules_bytes(rules)
        made, needs = line(b"set-rules", pattern_bytes(pattern), size_of(text))
        sent, needs = with_body((made, (*needs, *(f"rule.{each}" for each in names))), text)
        return Call(sent, Word.RULES_SET, needs=needs, wait_s=WORK_S)

    @command
    def get_rules(self, tube: str) -> "Call[Rules]":
        """The rules that apply to a tube, which need not exist (``get-rules``). Raises NotFoundError if none do."""
        return reads(line(b"get-rules", wire.tube_name(tube)), Rules.parse)

    @command
    def drop_rules(self, pattern: str) -> "Call[None]":
        """Drops the rules of a pattern (``drop-rules``). Raises NotFoundError if it has none."""
        data, needs = line(b"drop-rules", pattern_bytes(pattern))
        return Call(data, Word.DROPPED, needs=needs, wait_s=WORK_S)

    # --- Schedules ---

    @command
    def set_schedule(self, name: str, body: B = NOTHING, **options: Unpack[ScheduleOptions]) -> "Call[datetime | None]":
        """Sets a schedule, which puts a job with this body at each of its times (``set-schedule``).

        It is named as tubes are, and takes the place of the one of that name. The same again changes nothing. Returns
        its next time, in UTC; None: it has none left.

        The options are the lines of a schedule: exactly one of `cron`, `every` and `at`, and what else is not as it is
        by default; ``except`` is `except_`. A duration is seconds or a timedelta. A time is a datetime with its zone,
        or text as ``"2026-03-29T02:30:00"``, which is local in `zone`: a datetime without a zone is refused.

        Raises ScheduleError if a line is wrong, which most often is found before anything is sent, UnsupportedError if
        the server lacks one of them, DrainingError, JobTooBigError, and what the codec raises.
        """
        data = b"" if body is NOTHING else self._session.codec.encode(body)
        return self._setting(name, scheduling.document_of(options, data))

    @command
    def set_schedule_text(self, name: str, document: bytes | str) -> "Call[datetime | None]":
        """Sets a schedule by its document: lines ``name: value``, an empty line, and the body of its jobs.

        Returns and raises what :meth:`set_schedule` does.
        """
        text = document.encode("utf-8", "surrogateescape") if isinstance(document, str) else document
        return self._setting(name, text)

    def _setting(self, name: str, text: bytes) -> "Call[datetime | None]":
        data, needs = scheduling.set_line(name, text)
        return Call(data, Word.SCHEDULED, lambda reply: scheduling.time_of(reply.body), needs=needs)

    @command
    def schedule(self, name: str) -> "Call[Schedule]":
        """A schedule, with its document (``get-schedule``). Raises NotFoundError if there is none of that name."""
        data, needs = line(b"get-schedule", wire.tube_name(name))
        return Call(data, Word.SCHEDULE, Schedule.parse, needs=needs)

    @command
    def schedules(
        self,
        after: str = "",
        limit: int | None = None,
        *,
        bodies: int | None = None,
        order: Literal["next"] | None = None,
    ) -> "Call[list[Schedule]]":
        """Up to `limit` schedules, 1 000 at most, in the order of their names, behind `after` (``list-schedules``).

        A page without schedules is the end. `bodies` is how many bytes of each document it has: none, if that is None.
        With `order` ``next`` they are those that fire first, and there is no `after`.
        """
        data, needs = line(
            b"list-schedules",
            after=optional(after or None, wire.tube_name),
            limit=page_size(limit),
            bodies=optional(bodies, whole, PRI_MAX, "bodies"),
            order=optional(order, choice, ("next",), "order"),
        )
        return Call(data, Word.SCHEDULES, scheduling.schedules_of, needs=needs)

    @command
    def drop_schedule(self, name: str) -> "Call[None]":
        """Drops a schedule; its jobs stay (``drop-schedule``). Raises NotFoundError if there is none of that name."""
        data, needs = line(b"drop-schedule", wire.tube_name(name))
        return Call(data, Word.DROPPED, needs=needs)

    @command
    def pause_schedule(self, name: str) -> "Call[None]":
        """Lets a schedule put no more jobs; its times are neither missed nor made up for (``pause-schedule``).

        Raises NotFoundError if there is none of that name.
        """
        return self._switching(name, b"on")

    @command
    def resume_schedule(self, name: str) -> "Call[None]":
        """Lets a schedule that is paused go on (``pause-schedule``). Raises NotFoundError if there is none."""
        return self._switching(name, b"off")

    def _switching(self, name: str, paused: bytes) -> "Call[None]":
        data, needs = line(b"pause-schedule", wire.tube_name(name), paused)
        return Call(data, Word.PAUSED, needs=needs)

    @command
    def fire_schedule(self, name: str, at: datetime | float | None = None) -> "Call[int]":
        """Puts the job of a schedule now, whatever its times and a pause say, and returns its id (``fire-schedule``).

        `at` is the time that the job is told it was scheduled for, with its zone, or Unix seconds; None: now. Raises
        NotFoundError if there is none of that name, ExistsError if a job has its key (`id` is that job's),
        DrainingError and OutOfMemoryError.
        """
        data, needs = line(b"fire-schedule", wire.tube_name(name), at=optional(at, unix_seconds, "at"))
        return Call(data, Word.INSERTED, number, needs=needs)

    # --- Why jobs have failed, and why one does not run ---

    @command
    def stats_failures(self, tube: str | None = None, limit: int | None = None) -> "Call[FailureCounts]":
        """How many jobs are dead or buried, by the tube in which they failed and by why (``stats-failures``)."""
        made = line(b"stats-failures", tube=optional(tube, wire.tube_name), limit=page_size(limit))
        return reads(made, FailureCounts.parse)

    @command
    def explain(self, job: Job[B] | int) -> "Call[Explanation]":
        """Why a job does not run: its state, its place in the line, and every reason that holds (``explain``).

        Raises NotFoundError if there is no such job.
        """
        return reads(line(b"explain", whole(job_id(job), ID_MAX, "id")), Explanation.parse)

    @command
    def explain_tube(self, tube: str) -> "Call[Explanation]":
        """Why a tube hands out no jobs (``explain-tube``). Raises NotFoundError if there is no such tube."""
        return reads(line(b"explain-tube", wire.tube_name(tube)), Explanation.parse)
