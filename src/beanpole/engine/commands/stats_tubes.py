"""stats-tubes and stats-histograms: what there is to say of many tubes at once, a page in the order of their names.

Nothing keeps tubes in that order, so each page looks at every name; among a million tubes that takes some tens of
milliseconds, in pieces. The list is looked at from its end: a tube that is forgotten gives its place to the last one,
which is then looked at already, and new tubes come at the end.

stats-histograms says the bounds, what is timed over all tubes, and an item for each tube. The bounds stand in a mapping
that is JSON as well as YAML. A histogram is a line: how many were counted, their sum, how many up to the first bound,
how many beyond that one and up to the second, and so on; the last: beyond all bounds.
"""

import json

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.times import Bins, JobTime, Tally, Unit, scale_of, text_of
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.protocol.commands import Command
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.engine import limits
from beanpole.engine.commands.stats import sum_pairs, tube_pairs
from beanpole.engine.state.times import BOUNDS

TUBES_PER_PAGE = cython.declare(cython.Py_ssize_t, limits.TUBES_PER_PAGE)
NAMES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.NAMES_PER_TURN)
TUBES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.TUBES_PER_TURN)
NAMES_PER_MOVE = cython.declare(cython.Py_ssize_t, 5)
"""Names that are looked at in the time in which a job is moved."""

NAMES_PER_SORTED = cython.declare(cython.Py_ssize_t, 4)
"""Names that are looked at in the time in which one is sorted among others."""

MOVES_PER_TUBE = cython.declare(cython.Py_ssize_t, 30)
"""Jobs that are moved in the time in which the statistics of a tube are written."""

MOVES_PER_HISTOGRAMS = cython.declare(cython.Py_ssize_t, 10)
"""The same of the histograms of a tube."""


@cython.final
@cython.cclass
class TubePage(LongCommand):
    """A stats-tubes or stats-histograms that is under way."""

    histograms = cython.declare(cython.bint)
    """It is a stats-histograms."""
    after = cython.declare(bytes)
    """The last name of the page before."""
    limit = cython.declare(cython.Py_ssize_t)
    """Tubes that the page may have."""
    at = cython.declare(cython.Py_ssize_t)
    """Tubes at the front of the engine's list that are not looked at yet."""
    names = cython.declare(list)
    """The smallest names behind `after`, and perhaps others."""
    bound = cython.declare(bytes)
    """A name that is not smaller than `limit` of these; None: there are not so many yet."""
    sorted = cython.declare(cython.bint)
    """`names` is what the page shows, the last first, as far as it is not written."""
    texts = cython.declare(list)
    """What is written of the page."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
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
            self.texts.insert(0, head_of(queue.server_times) + (b"tubes:\n" if self.texts else b"tubes: []\n"))
        return session.out.text(b"---\n" + b"".join(self.texts))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def start(self, queue: Queue) -> cython.int:
        """Look for the names behind `after`."""
        self.at = len(queue.tube_list)
        self.names = []
        self.texts = []
        self.bound = None
        self.sorted = False
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def look(self, queue: Queue, session: Session) -> cython.int:
        """Look at the next names."""
        name: bytes
        left: cython.Py_ssize_t = NAMES_PER_TURN
        self.at = min(self.at, cython.cast(cython.Py_ssize_t, len(queue.tube_list)))
        while left > 0 and self.at:
            left -= 1
            self.at -= 1
            name = cython.cast(Tube, queue.tube_list[self.at], typecheck=True).name
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
    @cython.exceptval(-1, check=False)
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
@cython.exceptval(-1, check=False)
def begin_page(
    queue: Queue, now_ns: int64_t, session: Session, command: Command, histograms: cython.bint
) -> cython.int:
    """Begin a page about tubes."""
    page: TubePage = TubePage()
    page.histograms = histograms
    page.after = command.args.after_at[: command.args.after_bytes] if command.args.after_bytes else b""
    page.limit = command.args.count if command.args.given & bit(Kind.LIMIT) else TUBES_PER_PAGE
    page.start(queue)
    return begin(queue, now_ns, session, page)


NAMES = cython.declare(tuple, (b"job-ready", b"job-held", b"job-late"))
"""What each JobTime is called."""

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
