"""Lists of tubes, of failures and of sessions, in YAML, a page of which takes as many turns as it needs.

stats-tubes and stats-histograms say what there is to say of many tubes, in the order of their names. Nothing keeps
tubes in that order, so each page looks at every name; among a million tubes that takes some tens of milliseconds, in
pieces. The list is looked at from its end: a tube that is forgotten gives its place to the last one, which is then
looked at already, and new tubes come at the end.

stats-histograms says the bounds, what is timed over all tubes, and an item for each tube. The bounds stand in a mapping
that is JSON as well as YAML. A histogram is a line: how many were counted, their sum, how many up to the first bound,
how many beyond that one and up to the second, and so on; the last: beyond all bounds.

list-sessions begins each piece where the one before ended, by the number of the session. So a session that is there
throughout is on exactly one page, whoever comes and goes.
"""

import json
from hashlib import blake2b
from typing import Any

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.commands.rights import may_see_all
from cython.cimports.beanpole.engine.policies.keeping import forget, keep, take_over
from cython.cimports.beanpole.engine.state.failures import Group
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session, Want, told_of
from cython.cimports.beanpole.engine.state.times import Bins, JobTime, ServerTimes, Tally, Unit, scale_of, text_of
from cython.cimports.beanpole.engine.state.tube import Tube, Watch
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.protocol.commands import Command
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.beanpole.protocol.rights import Right
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.engine import limits
from beanpole.engine.commands.explain import quoted, seconds, until
from beanpole.engine.commands.stats import sum_pairs, tube_pairs
from beanpole.engine.state.failures import WHY_WORDS
from beanpole.engine.state.times import BOUNDS
from beanpole.protocol.commands import COMMANDS, EXTENSION_VERBS, Verb

TUBES_PER_PAGE = cython.declare(cython.Py_ssize_t, 1_000)  # where no limit is asked for
NAMES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.NAMES_PER_TURN)
TUBES_PER_TURN = cython.declare(cython.Py_ssize_t, 25)  # that are written at a time: a fraction of a millisecond
NAMES_PER_MOVE = cython.declare(cython.Py_ssize_t, 5)  # names that are looked at in the time in which a job is moved
NAMES_PER_SORTED = cython.declare(cython.Py_ssize_t, 4)
"""Names that are looked at in the time in which one is sorted among others."""

MOVES_PER_TUBE = cython.declare(cython.Py_ssize_t, 30)
"""Jobs that are moved in the time in which the statistics of a tube are written."""

MOVES_PER_HISTOGRAMS = cython.declare(cython.Py_ssize_t, 10)  # the same of the histograms of a tube


@cython.final
@cython.cclass
class TubePage(LongCommand):
    """A stats-tubes or stats-histograms that is under way."""

    histograms = cython.declare(cython.bint)  # it is a stats-histograms
    user = cython.declare(User)  # `User | None`: there are only those to which it has a right
    after = cython.declare(bytes)  # the last name of the page before
    limit = cython.declare(cython.Py_ssize_t)  # tubes that the page may have
    at = cython.declare(cython.Py_ssize_t)  # tubes at the front of the engine's list that are not looked at yet
    names = cython.declare(list)  # the smallest names behind `after`, and perhaps others
    bound = cython.declare(bytes)  # a name that is not smaller than `limit` of these; None: there are not so many yet
    sorted = cython.declare(cython.bint)  # `names` is what the page shows, the last first, as far as it is not written
    texts = cython.declare(list)  # what is written of the page

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Look at the next names, or write of the next tubes."""
        if not self.sorted:
            return self.look(queue, session)
        tube: Tube
        count: cython.Py_ssize_t = min(TUBES_PER_TURN, cython.cast(cython.Py_ssize_t, len(self.names)))
        for _ in range(count):
            self.after = self.names.pop()
            tube = queue.tube_named(self.after)
            if tube is not None:
                self.texts.append(item_of(tube) if self.histograms else tube_text(queue, tube, now_ns))
        session.moved_count += count * (MOVES_PER_HISTOGRAMS if self.histograms else MOVES_PER_TUBE)
        if self.names:
            return 0
        if not self.texts and self.bound is not None:
            self.start(queue)  # an empty page would say that there are no more tubes, but all of this one are gone
            return 0
        session.work = None
        if self.histograms:
            times: ServerTimes = queue.server_times if may_see_all(session) else ServerTimes()
            self.texts.insert(0, head_of(times) + (b"tubes:\n" if self.texts else b"tubes: []\n"))
        return session.out.text(b"---\n" + b"".join(self.texts))

    @cython.cfunc
    def start(self, queue: Queue) -> cython.int:
        """Look for the names behind `after`."""
        self.at = len(queue.tube_list)
        self.names = []
        self.texts = []
        self.bound = None
        self.sorted = False
        return 0

    @cython.cfunc
    def look(self, queue: Queue, session: Session) -> cython.int:
        """Look at the next names."""
        name: bytes
        left: cython.Py_ssize_t = NAMES_PER_TURN
        self.at = min(self.at, cython.cast(cython.Py_ssize_t, len(queue.tube_list)))
        while left > 0 and self.at:
            left -= 1
            self.at -= 1
            name = cython.cast(Tube, queue.tube_list[self.at], typecheck=True).name
            if self.user is not None and self.user.rights(name, len(name)) & Right.ANY == 0:
                continue
            if name > self.after and (self.bound is None or name < self.bound):
                self.names.append(name)
                if len(self.names) >= 2 * self.limit:
                    left -= self.cut()
        if self.at == 0:
            left -= self.cut()
            self.names.reverse()
            self.sorted = True
        session.moved_count += (NAMES_PER_TURN - left) // NAMES_PER_MOVE
        return 0

    @cython.cfunc
    def cut(self) -> cython.Py_ssize_t:
        """Forget the names that are not on this page; return what that costs, in names that are looked at.

        One that moved in the list may have been looked at twice.
        """
        count: cython.Py_ssize_t = len(self.names)
        self.names = sorted(set(self.names))[: self.limit]
        if len(self.names) == self.limit:
            self.bound = self.names[self.limit - 1]
        return count * NAMES_PER_SORTED


@cython.cfunc
def tube_text(queue: Queue, tube: Tube, now_ns: int64_t) -> bytes:
    """Return the item of one tube in the list."""
    tally: Tally = queue.tallies.get(tube)
    pairs: list = tube_pairs(tube, now_ns)
    pairs += (Tally() if tally is None else tally).pairs()
    pairs += sum_pairs(tube, now_ns, queue.started_at_ns)
    return ("- " + "  ".join([f"{key}: {value}\n" for key, value in pairs])).encode()


def stats_tubes(queue, now_ns, session, command):
    """stats-tubes: what stats-tube says, and more, of the tubes behind a name."""
    return begin_page(queue, now_ns, session, command, False)


def stats_histograms(queue, now_ns, session, command):
    """stats-histograms: how long jobs took, and what else is timed, over all and of the tubes behind a name."""
    return begin_page(queue, now_ns, session, command, True)


@cython.cfunc
def begin_page(
    queue: Queue, now_ns: int64_t, session: Session, command: Command, histograms: cython.bint
) -> cython.int:
    """Begin a page about tubes."""
    page: TubePage = TubePage()
    page.histograms = histograms
    page.user = session.user
    page.after = command.args.after_at[: command.args.after_bytes] if command.args.after_bytes else b""
    page.limit = command.args.count if command.args.given & bit(Kind.LIMIT) else TUBES_PER_PAGE
    page.start(queue)
    return begin(queue, now_ns, session, page)


NAMES = cython.declare(tuple, (b"job-ready", b"job-held", b"job-late"))  # what each JobTime is called
BOUNDS_LINE = cython.declare(bytes, b"bounds: %b\n" % json.dumps(BOUNDS).encode())


def head_of(times):
    """Return what stands in front of the tubes."""
    what: cython.int
    lines = [BOUNDS_LINE]
    for what in range(JobTime.JOB_TIME_COUNT):
        lines.append(b"%b: %b\n" % (NAMES[what], text_of(scale_of(Unit.JOB_TIME), cython.address(times.jobs[what]))))
    lines.append(b"reserve-wait: %b\n" % times.reserve_wait.text())
    lines.append(b"turn: %b\n" % times.turn.text())
    lines.append(b"turn-commands: %b\n" % times.turn_commands.text())
    lines.append(b"sync: %b\n" % times.sync.text())
    lines.append(b"schedule-late: %b\n" % times.schedule_late.text())
    return b"".join(lines)


def item_of(tube):
    """Return the item of a tube in the list, with the histograms in which anything was counted."""
    what: cython.int
    bins: cython.pointer(Bins)
    lines = [b"- name: %b\n" % tube.name]
    if tube.times is not None:
        for what in range(JobTime.JOB_TIME_COUNT):
            bins = cython.address(tube.times.jobs[what])
            if any_in(bins):
                lines.append(b"  %b: %b\n" % (NAMES[what], text_of(scale_of(Unit.JOB_TIME), bins)))
    return b"".join(lines)


@cython.cfunc
@cython.exceptval(check=False)
def any_in(bins: cython.pointer(Bins)) -> cython.bint:
    """Whether anything was counted."""
    i: cython.Py_ssize_t
    count: uint64_t = 0
    for i in range(scale_of(Unit.JOB_TIME).count + 1):
        count |= bins.counts[i]
    return count != 0


# --- stats-failures ---------------------------------------------------------------------------------------------------


GROUPS_PER_TURN = cython.declare(cython.Py_ssize_t, 50)
"""Groups that are written at a time: a millisecond, and two if what workers say has to be escaped."""

MOVES_PER_GROUP = cython.declare(cython.Py_ssize_t, 20)
"""Jobs that are moved in the time in which a group is found, and written."""

ENDS = ("buried", *[word.decode() for word in WHY_WORDS.values()])  # how jobs failed, in the order of `whys`


@cython.final
@cython.cclass
class FailurePage(LongCommand):
    """A stats-failures that is under way."""

    total = cython.declare(object)  # jobs that have failed
    left = cython.declare(list)
    """What is known of the groups that are not written, the last first: as it was when the command came."""
    texts = cython.declare(list)  # what is written

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Write the next groups."""
        count: cython.Py_ssize_t = min(GROUPS_PER_TURN, cython.cast(cython.Py_ssize_t, len(self.left)))
        for _ in range(count):
            self.texts.append(group_text(self.left.pop(), queue.wall_lead_ns))
        session.moved_count += MOVES_PER_GROUP * count
        if self.left:
            return 0
        session.work = None
        listed = "groups:\n" + "".join(self.texts) if self.texts else "groups: []\n"
        return session.out.text(f"---\ntotal: {self.total}\n{listed}".encode())


def stats_failures(queue, now_ns, session, command):
    """stats-failures: the groups of jobs that have failed, written over as many turns as it takes."""
    page: FailurePage = FailurePage()
    if command.args.given & bit(Kind.TUBE):
        groups: list = queue.failures.groups_of(command.args.tube_at[: command.args.tube_bytes])
        page.total = sum([group.count for group in groups])
    elif session.user is not None:
        groups = [group for group in queue.failures.groups() if may_look(session.user, group)]
        page.total = sum([group.count for group in groups])
    else:
        groups = queue.failures.groups()
        page.total = queue.failures.total
    groups.sort(key=place_of)
    if command.args.given & bit(Kind.LIMIT):
        groups = groups[: command.args.count]
    page.left = [known_of(group) for group in reversed(groups)]
    page.texts = []
    session.read_index = queue.records.index
    return begin(queue, now_ns, session, page)


def may_look(user: User, group: Group) -> bool:
    """Whether a user may see what failed: of the sum over many tubes, only who may look into all."""
    name: bytes = b"*" if group.tube is None else group.tube
    return user.rights(name, len(name)) & Right.LOOK != 0


def place_of(group: Group) -> tuple[int, int]:
    """Return by what groups are sorted: the largest first, and of equal ones the one whose job failed last."""
    return (-group.count, -group.last_id)


def known_of(group: Group) -> tuple[Any, ...]:
    return (group.tube, group.error, group.line, group.count, group.ends, group.last_id, group.first_ns, group.last_ns)


def group_text(known: tuple[Any, ...], wall_lead_ns: int) -> str:
    """Return the item of a group."""
    tube, error, line, count, ends, last_id, first_ns, last_ns = known
    pairs = []
    if tube is not None:
        pairs.append(("tube", tube.decode()))
    if error is not None:
        pairs += [("error", quoted(error.encode())), ("line", quoted(line.encode()))]
    pairs.append(("count", str(count)))
    pairs += [(name, str(number)) for name, number in zip(ENDS, ends, strict=True)]
    pairs.append(("last", str(last_id)))
    if last_ns:
        pairs.append(("first-died", seconds(first_ns + wall_lead_ns)))
        pairs.append(("last-died", seconds(last_ns + wall_lead_ns)))
    return "- " + "  ".join([f"{name}: {value}\n" for name, value in pairs])


# --- list-sessions ----------------------------------------------------------------------------------------------------


SESSIONS_PER_PAGE = cython.declare(cython.Py_ssize_t, 1_000)  # where no limit is asked for
SESSIONS_PER_TURN = cython.declare(cython.Py_ssize_t, limits.SESSIONS_PER_TURN)
WATCHED_SHOWN_MAX = cython.declare(cython.Py_ssize_t, 20)  # tubes that are named of those that a session watches
PAGE_BYTES = cython.declare(cython.Py_ssize_t, limits.BODIES_BYTES_MAX)
HELD_LOOKED_MAX = cython.declare(cython.Py_ssize_t, 1_000)  # jobs among which the one held longest is looked for

MOVES_PER_SESSION = cython.declare(cython.Py_ssize_t, 20)
"""Jobs that are moved in the time in which one session is written without a name, few tubes and no jobs."""

MOVES_PER_TURN = cython.declare(cython.Py_ssize_t, SESSIONS_PER_TURN * MOVES_PER_SESSION)

HELD_PER_MOVE = cython.declare(cython.Py_ssize_t, 3)  # jobs that are looked at in the time in which one is moved
NAME_BYTES_PER_MOVE = cython.declare(cython.Py_ssize_t, 4)
"""Bytes of a name that are written in that time, where each character needs an escape."""

KEPT_JOBS_MAX = cython.declare(cython.Py_ssize_t, limits.KEPT_JOBS_MAX)
TOKEN_HASH_BYTES = 16

VERB_NAMES = {
    0: "none",
    **{
        int(Verb[text]): text.lower().replace("_", "-")
        for text in ("UNKNOWN_COMMAND", "BAD_FORMAT", "JOB_TOO_BIG", "EXPECTED_CRLF")
    },
    **{int(verb): text.strip().decode() for text, verb, _, _, _ in COMMANDS},
    **{int(verb): text.decode() for text, verb in EXTENSION_VERBS.items()},
}
"""What a last command is called: by its verb, or by what was wrong with it."""


@cython.final
@cython.cclass
class SessionPage(LongCommand):
    """A list-sessions that is under way."""

    number = cython.declare(uint64_t)  # the smallest number that the next session may have
    left = cython.declare(cython.Py_ssize_t)  # sessions that the page may still have
    bytes = cython.declare(cython.Py_ssize_t)
    """Bytes of what is written: a page that has many ends before its last session."""
    texts = cython.declare(list)  # what is written of the page

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Write of the next sessions."""
        each: Session
        cost: cython.Py_ssize_t = 0
        places: list = queue.sessions.places
        at: cython.Py_ssize_t = queue.sessions.first_from(self.number)
        while self.left and cost < MOVES_PER_TURN:
            if at == len(places):
                self.left = 0
                break
            at += 1
            if places[at - 1] is None:
                continue
            each = cython.cast(Session, places[at - 1], typecheck=True)
            text = session_text(queue, now_ns, each)
            self.texts.append(text)
            self.bytes += len(text)
            cost += cost_of(each)
            self.number = each.number + 1
            self.left = self.left - 1 if self.bytes < PAGE_BYTES else 0
        session.moved_count += cost
        if self.left:
            return 0
        session.work = None
        return session.out.text(b"---\n" + b"".join(self.texts))


@cython.cfunc
@cython.exceptval(check=False)
def cost_of(session: Session) -> cython.Py_ssize_t:
    """Return how many jobs are moved in the time that a session takes."""
    watched: cython.Py_ssize_t = min(WATCHED_SHOWN_MAX, cython.cast(cython.Py_ssize_t, len(session.watches)))
    held: cython.Py_ssize_t = min(HELD_LOOKED_MAX, session.reserved.count)
    name_bytes: cython.Py_ssize_t = 0 if session.name is None else len(session.name)
    return MOVES_PER_SESSION + watched // 2 + held // HELD_PER_MOVE + name_bytes // NAME_BYTES_PER_MOVE


@cython.cfunc
def session_text(queue: Queue, now_ns: int64_t, session: Session) -> bytes:
    """Return the item of one session in the list."""
    peer = "console" if session.own else queue.describe(session.owner) if session.used is not None else ""
    via: str = queue.via(session.owner) if session.used is not None and not session.own else ""
    watches = session.watches[:WATCHED_SHOWN_MAX]
    watched = [cython.cast(Watch, watch, typecheck=True).tube.name.decode() for watch in watches]
    lines = [
        f"- number: {session.number}",
        f"  name: {quoted(b'' if session.name is None else session.name)}",
        f"  peer: {quoted(peer.encode('utf-8', 'surrogateescape'))}",
        *([] if session.user is None else [f"  user: {session.user.name.decode()}"]),
        *([f"  via: {quoted(via.encode('utf-8', 'surrogateescape'))}"] if via else []),
        f"  since: {seconds(now_ns - session.opened_at_ns)}",
        f"  last-command: {VERB_NAMES[session.last_verb]}",
        f"  last-command-age: {seconds(now_ns - session.heard_at_ns)}",
        f"  used: {'' if session.used is None else session.used.name.decode()}",
        f"  watched: [{', '.join(watched)}]",
        f"  watched-count: {len(session.watches)}",
    ]
    if session.waiting:
        lines.append(f"  waiting: {seconds(now_ns - session.heard_at_ns)}")  # its last command is that reserve
        lines += ["  waits-for: notice"] if session.wants == Want.NOTICE else []
    if session.told_at:
        lines.append(f"  told: {told_of(session).name.decode()}")
    if session.lost:
        lines.append(f"  lost: {seconds(now_ns - session.keep.lost_at_ns)}")
        lines.append(f"  until: {until(queue, now_ns, session)}")
    lines.append(f"  jobs-held: {session.reserved.count}")
    if session.reserved.count:
        lines.append(f"  oldest-held: {seconds(now_ns - oldest_ns(session))}")
    lines.append("")
    return "\n".join(lines).encode()


@cython.cfunc
def oldest_ns(session: Session) -> int64_t:
    """Return since when a session holds the job that it has held longest, among those that time out soonest."""
    i: cython.Py_ssize_t
    oldest: int64_t = cython.cast(Job, session.reserved.entries[0].item).since_ns
    for i in range(1, min(HELD_LOOKED_MAX, session.reserved.count)):
        oldest = min(oldest, cython.cast(Job, session.reserved.entries[i].item).since_ns)
    return oldest


def list_sessions(queue, now_ns, session, command):
    """list-sessions: who is connected, those behind a number."""
    page: SessionPage = SessionPage()
    given: uint64_t = command.args.given
    page.number = 0
    page.left = command.args.count if given & bit(Kind.LIMIT) else SESSIONS_PER_PAGE
    page.texts = []
    if given & bit(Kind.AFTER):
        page.number = command.args.after + 1
        if page.number == 0:  # there is none behind the greatest of all numbers
            page.left = 0
    return begin(queue, now_ns, session, page)


def name_session(queue, now_ns, session, command):
    """name-session: how people shall recognize the session."""
    session.name = command.args.key_at[: command.args.key_bytes]
    return session.out.word(Word.NAMED)


def keep_session(queue, now_ns, session, command):
    """keep-session: the jobs of who has a token wait for it when its connection is lost; whoever says it has returned.

    Of the token only a hash is kept. A session that has it and is still connected is closed, for its client has come
    back: what it did is durable before this one is answered.
    """
    said: bytes = command.args.key_at[: command.args.key_bytes]
    if session.user is not None:  # whose token it is: another user's of the same text is another one
        said += b" " + session.user.name
    token: bytes = blake2b(said, digest_size=TOKEN_HASH_BYTES).digest()
    if session.keep is not None and session.keep.token != token:
        return session.out.word(Word.NOT_KEPT)
    other: Session = None if queue.kept is None else queue.kept.get(token)
    if command.args.count == 0:
        forget(queue, session)
    else:
        keep(queue, session, token, command.args.count, command.args.given & bit(Kind.ENDS) != 0)
    if other is not None and other is not session:
        session.read_index = queue.records.index
        take_over(queue, now_ns, session, other)
    session.out.begin(Word.KEPT)
    held: list = session.reserved.first(KEPT_JOBS_MAX) if session.keep is not None else []
    session.moved_count += len(held)
    session.out.add_number(len(held))
    for each in held:
        session.out.add(b" ", 1)
        session.out.add_number(cython.cast(Job, each, typecheck=True).id)
    return session.out.end()
