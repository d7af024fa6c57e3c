"""stats-groups and pause-group.

stats-groups lists the jobs of the groups of a tube, those first of which most are ready, in as many turns as it takes.
"""

import heapq

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.policies.pausing import end_pause, set_pause
from cython.cimports.beanpole.engine.state.groupjobs import first_of_group
from cython.cimports.beanpole.engine.state.groups import count_of
from cython.cimports.beanpole.engine.state.job import Job, State
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Closed, Group, GroupPause, Tube
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits
from beanpole.engine.commands.explain import quoted, seconds
from beanpole.engine.commands.stats import STATE_NAMES

GROUPS_SHOWN = cython.declare(cython.Py_ssize_t, 1_000)  # where no limit is asked for
GROUPS_PER_TURN = cython.declare(cython.Py_ssize_t, 50)  # groups that are written at a time
MOVES_PER_GROUP = cython.declare(cython.Py_ssize_t, 20)  # jobs that are moved in the time in which one is written
LOOKED_PER_TURN = cython.declare(cython.Py_ssize_t, 1_000)  # groups that are looked at: a fraction of a millisecond
LOOKED_PER_MOVE = cython.declare(cython.Py_ssize_t, 1)  # groups that are looked at in the time in which a job is moved

GROUPS_PAUSED_MAX = cython.declare(cython.Py_ssize_t, limits.GROUPS_PAUSED_MAX)
SECOND_NS = cython.declare(int64_t, 1_000_000_000)

CLOSED_BY = {
    Closed.PAUSED: "pause",
    Closed.RATE: "group-rate",
    Closed.CONCURRENCY: "group-concurrency",
    Closed.ORDER: "group-order",
    Closed.BREAKER: "breaker",
}
"""What a group is closed by, by the bit that says so."""


@cython.final
@cython.cclass
class GroupPage(LongCommand):
    """A stats-groups that is under way."""

    tube = cython.declare(bytes)  # its name
    left = cython.declare(cython.Py_ssize_t)  # groups at the front of the tube's list that are not looked at yet
    limit = cython.declare(cython.Py_ssize_t)  # groups that are shown
    by_held = cython.declare(cython.bint)  # those of which most is held come first, not those of which most is ready
    found = cython.declare(list)  # of those that were looked at the first: (ready, held, name) or (held, ready, name)
    names = cython.declare(set)  # of the same
    least = cython.declare(cython.Py_ssize_t)  # the first number of the last of them, once there are enough
    at = cython.declare(cython.Py_ssize_t)  # of the sorted ones those that are written
    texts = cython.declare(list)  # what is written

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Look at the next groups, or write of the next of those that are shown."""
        tube: Tube = queue.tube_named(self.tube)
        groups: dict = {} if tube is None or tube.groups is None else tube.groups.by_name
        if self.left:
            session.moved_count += LOOKED_PER_TURN // LOOKED_PER_MOVE
            self.look([] if tube is None or tube.groups is None else tube.groups.all)
            return 0
        for _, _, name in self.found[self.at : self.at + GROUPS_PER_TURN]:
            if name in groups:
                self.texts.append(group_item(queue, now_ns, tube, cython.cast(Group, groups[name], typecheck=True)))
        session.moved_count += MOVES_PER_GROUP * min(GROUPS_PER_TURN, len(self.found) - self.at)
        self.at += GROUPS_PER_TURN
        if self.at < len(self.found):
            return 0
        session.work = None
        session.read_index = queue.records.index
        return session.out.text(b"---\n" + b"".join(self.texts))

    @cython.cfunc
    def look(self, groups: list) -> cython.int:
        """Look at the next groups of a list; one that is forgotten gives its place to the last, which comes again."""
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t = min(self.left, cython.cast(cython.Py_ssize_t, len(groups)))
        self.left = max(end - LOOKED_PER_TURN, 0)
        for at in range(self.left, end):
            self.note(cython.cast(Group, groups[at], typecheck=True))
        if self.left == 0:
            self.found.sort(reverse=True)
        return 0

    @cython.cfunc
    def note(self, group: Group) -> cython.int:
        """Note a group that has a job or is paused, if not enough of those that are known have more."""
        if (count_of(group) == 0 and group.pause is None) or group.name in self.names:
            return 0
        first: cython.Py_ssize_t = group.counts[cython.cast(cython.int, State.READY)]
        second: cython.Py_ssize_t = group.counts[cython.cast(cython.int, State.RESERVED)]
        if self.by_held:
            first, second = second, first
        if len(self.found) < self.limit:
            heapq.heappush(self.found, (first, second, group.name))
        elif first >= self.least:
            _, _, last = heapq.heappushpop(self.found, (first, second, group.name))
            self.names.discard(last)
            self.least = self.found[0][0]
            if last is group.name:
                return 0
        else:
            return 0
        self.names.add(group.name)
        return 0


@cython.cfunc
def group_item(queue: Queue, now_ns: int64_t, tube: Tube, group: Group) -> bytes:
    """Return the item of one group in the list."""
    closed = [CLOSED_BY[bit] for bit in CLOSED_BY if group.closed & bit]
    first: Job = first_of_group(tube, group)
    lines = [
        f"- group: {quoted(group.name)}",
        f"  weight: {group.weight}",
        *[f"  {name}: {group.counts[state]}" for state, name in enumerate(STATE_NAMES)],
        *([] if first is None else [f"  next: {first.id}", f"  next-age: {seconds(now_ns - first.created_at_ns)}"]),
        f"  closed: [{', '.join(closed)}]",
        *([] if group.pause is None else [f"  pause-time-left: {seconds(group.pause.until_ns - now_ns)}"]),
        "",
    ]
    return "\n".join(lines).encode()


def stats_groups(queue, now_ns, session, command):
    """stats-groups: the jobs of the groups of a tube, or of one of them; those of which most is ready come first."""
    page: GroupPage = GroupPage()
    page.tube = command.args.tube_at[: command.args.tube_bytes]
    tube: Tube = queue.tube_named(page.tube)
    if tube is None:
        return queue.not_found(session)
    page.limit = command.args.count if command.args.given & bit(Kind.LIMIT) else GROUPS_SHOWN
    page.by_held = command.args.by_held
    page.found = []
    page.names = set()
    page.texts = []
    if command.args.given & bit(Kind.GROUP):
        name: bytes = command.args.group_at[: command.args.group_bytes]
        if tube.groups is not None and name in tube.groups.by_name:
            page.note(cython.cast(Group, tube.groups.by_name[name], typecheck=True))
    elif tube.groups is not None:
        page.left = len(tube.groups.all)
    return begin(queue, now_ns, session, page)


def pause_group(queue, now_ns, session, command):
    """pause-group: nothing is reserved from a group for some seconds, and it is there until then; 0 ends a pause."""
    tube: Tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    name: bytes = command.args.group_at[: command.args.group_bytes]
    group: Group = None if tube is None or tube.groups is None else tube.groups.by_name.get(name)
    if group is None or (count_of(group) == 0 and group.pause is None):
        return queue.not_found(session)
    pause: GroupPause = group.pause
    delay_ns: int64_t = command.args.delay_ns
    if delay_ns and pause is None and queue.group_pauses is not None and queue.group_pauses.count >= GROUPS_PAUSED_MAX:
        return session.out.word(Word.OUT_OF_MEMORY)
    room: cython.int = queue.records.room_for_change(len(tube.name) + len(name))
    if room != Room.OK:
        return queue.no_room(session, room)
    if delay_ns:
        queue.records.group_changed(set_pause(queue, tube.name, name, delay_ns // SECOND_NS, now_ns + delay_ns))
    elif pause is not None:
        queue.drop_if_unused(end_pause(queue, pause))
        queue.records.group_changed(pause)
    session.read_index = queue.records.index
    return session.out.word(Word.PAUSED)
