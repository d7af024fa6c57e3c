"""stats-failures: in which tubes jobs have failed and why, the most frequent reason first."""

import cython
from cython.cimports.beanpole.engine.state.failures import Group
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.protocol.extensions import Kind, bit

from beanpole.engine.commands.explain import quoted, seconds
from beanpole.engine.state.failures import WHY_WORDS

MOVES_PER_GROUP = cython.declare(cython.Py_ssize_t, 10)
"""Jobs that are moved in the time in which a group is found, and written."""

ENDS = ("buried", *[word.decode() for word in WHY_WORDS.values()])
"""How jobs failed, in the order of `whys`."""


def stats_failures(queue, now_ns, session, command):
    """stats-failures: the groups of jobs that have failed; there are so few that one turn writes them all."""
    if command.args.given & bit(Kind.TUBE):
        groups: list = queue.failures.groups_of(command.args.tube_at[: command.args.tube_bytes])
        total: object = sum([group.count for group in groups])
    else:
        groups = queue.failures.groups()
        total = queue.failures.total
    groups.sort(key=place_of)
    if command.args.given & bit(Kind.LIMIT):
        groups = groups[: command.args.count]
    session.moved_count += MOVES_PER_GROUP * len(groups)
    session.read_index = queue.records.index
    listed = "groups:\n" + "".join([text_of(queue, group) for group in groups]) if groups else "groups: []\n"
    return session.out.text(f"---\ntotal: {total}\n{listed}".encode())


def place_of(group: Group) -> tuple[int, int]:
    """Return by what groups are sorted: the largest first, and of equal ones the one whose job failed last."""
    return (-group.count, -group.last_id)


@cython.cfunc
def text_of(queue: Queue, group: Group) -> str:
    """Return the item of a group."""
    pairs = []
    if group.tube is not None:
        pairs.append(("tube", group.tube.decode()))
    if group.error is not None:
        pairs += [("error", quoted(group.error.encode())), ("line", quoted(group.line.encode()))]
    pairs.append(("count", str(group.count)))
    pairs += [(name, str(count)) for name, count in zip(ENDS, group.ends, strict=True)]
    pairs.append(("last", str(group.last_id)))
    if group.last_ns:
        pairs.append(("first-died", seconds(group.first_ns + queue.wall_lead_ns)))
        pairs.append(("last-died", seconds(group.last_ns + queue.wall_lead_ns)))
    return "- " + "  ".join([f"{name}: {value}\n" for name, value in pairs])
