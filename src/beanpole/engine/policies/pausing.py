"""pause-group: nothing is reserved from a group for some time.

The pauses of all groups stand in a heap by their ends. A group that is paused is there until then, and so is its tube,
whether or not they have jobs.
"""

import cython
from cython.cimports.beanpole.engine.state.groups import add_group, close_groups, mark_pause, open_groups, recall
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.tube import Group, GroupPause, Tube


def set_pause(queue, tube, name, pause_s, until_ns):
    """Pause a group until a moment, in place of the pause that it has; make it and its tube where there is none."""
    paused: Tube = queue.open_tube(tube)
    if paused.groups is None:
        open_groups(paused, queue.buckets, queue.now_ns, queue.started_at_ns)
    had_next: cython.bint = paused.ready.count != 0
    recall(paused)
    group: Group = paused.groups.by_name.get(name)
    if group is None:
        group = add_group(paused, name, queue.now_ns, queue.started_at_ns)
    if queue.group_pauses is None:
        queue.group_pauses = Heap()
    pause: GroupPause = group.pause
    if pause is None:
        pause = group.pause = GroupPause(tube, name)
        paused.groups.paused_count += 1
    else:
        queue.group_pauses.remove(pause)
    pause.pause_s = pause_s
    pause.until_ns = until_ns
    queue.group_pauses_count += 1
    queue.group_pauses.push(pause, until_ns, queue.group_pauses_count)
    mark_pause(paused, group, queue.now_ns)
    queue.settle_next(paused, had_next)
    return pause


def end_pause(queue, pause):
    """End the pause of a group; return its tube, which may be unused now."""
    tube: Tube = queue.tube_named(pause.tube)
    group: Group = tube.groups.by_name[pause.group]
    had_next: cython.bint = tube.ready.count != 0
    recall(tube)
    queue.group_pauses.remove(pause)
    pause.pause_s = pause.until_ns = 0
    group.pause = None
    tube.groups.paused_count -= 1
    mark_pause(tube, group, queue.now_ns)
    queue.settle_next(tube, had_next)
    close_groups(tube)
    queue.note_told(tube)
    return tube


def first_over(queue, now_ns):
    """Return the first pause of a group that is over; None: there is none."""
    heap: Heap = queue.group_pauses
    if heap is None or heap.count == 0 or heap.entries[0].key > now_ns:
        return None
    return cython.cast(GroupPause, heap.entries[0].item)


def end_pauses(queue, now_ns, most):
    """End the pauses of groups that are over, `most` of them; return how many these were."""
    count: cython.Py_ssize_t = 0
    pause: GroupPause = first_over(queue, now_ns)
    while pause is not None and count < most:
        queue.records.group_dropped(pause)
        queue.drop_if_unused(end_pause(queue, pause))
        count += 1
        pause = first_over(queue, now_ns)
    return count
