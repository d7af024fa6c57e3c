"""stats-failures: in which tubes jobs have failed and why, the most frequent reason first."""

from typing import Any

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.state.failures import Group
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.libc.stdint import int64_t

from beanpole.engine.commands.explain import quoted, seconds
from beanpole.engine.state.failures import WHY_WORDS

GROUPS_PER_TURN = cython.declare(cython.Py_ssize_t, 50)
"""Groups that are written at a time: a millisecond, and two if what workers say has to be escaped."""

MOVES_PER_GROUP = cython.declare(cython.Py_ssize_t, 20)
"""Jobs that are moved in the time in which a group is found, and written."""

ENDS = ("buried", *[word.decode() for word in WHY_WORDS.values()])
"""How jobs failed, in the order of `whys`."""


@cython.final
@cython.cclass
class FailurePage(LongCommand):
    """A stats-failures that is under way."""

    total = cython.declare(object)
    """Jobs that have failed."""
    left = cython.declare(list)
    """What is known of the groups that are not written, the last first: as it was when the command came."""
    texts = cython.declare(list)
    """What is written."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Write the next groups."""
        count: cython.Py_ssize_t = min(GROUPS_PER_TURN, cython.cast(cython.Py_ssize_t, len(self.left)))
        for _ in range(count):
            self.texts.append(text_of(self.left.pop(), queue.wall_lead_ns))
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


def place_of(group: Group) -> tuple[int, int]:
    """Return by what groups are sorted: the largest first, and of equal ones the one whose job failed last."""
    return (-group.count, -group.last_id)


def known_of(group: Group) -> tuple[Any, ...]:
    """Return what is known of a group, as :func:`text_of` takes it."""
    return (group.tube, group.error, group.line, group.count, group.ends, group.last_id, group.first_ns, group.last_ns)


def text_of(known: tuple[Any, ...], wall_lead_ns: int) -> str:
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
