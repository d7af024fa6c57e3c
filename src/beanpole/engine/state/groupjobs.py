"""Which group a job is of, and which jobs a group has: looked up, nothing is changed."""

import cython
from cython.cimports.beanpole.engine.state.heap import Heap, sooner
from cython.cimports.beanpole.engine.state.job import Flag, Job
from cython.cimports.beanpole.engine.state.tags import Tag, find_tag
from cython.cimports.beanpole.engine.state.tube import Group
from cython.cimports.libc.string import memcmp

CLOSED_LOOKED_AT = cython.declare(cython.int, 1_000)  # closed groups among which the first ready job is looked for


def group_name(job):
    """Return the group of a job; empty: it has none."""
    if not job.flags & Flag.GROUPED:
        return b""
    size: cython.Py_ssize_t = 0
    name: cython.p_const_char = find_tag(job, Tag.GROUP, cython.address(size))
    return name[:size]


def group_of(job):
    """Return the group of a job that is in a tube with groups, or has just left it."""
    return job.tube.groups.by_name[group_name(job)]


def is_of_group(job, name):
    """Whether a job is of the group of a name, which is not empty."""
    size: cython.Py_ssize_t = 0
    if not job.flags & Flag.GROUPED:
        return False
    found: cython.p_const_char = find_tag(job, Tag.GROUP, cython.address(size))
    wanted: cython.p_const_char = name
    return size == len(name) and memcmp(found, wanted, size) == 0


def first_jobs(tube, name, count):
    """Return the first ready jobs of a group in the order in which it hands them out, up to so many, from 1."""
    group: Group = None if tube.groups is None else tube.groups.by_name.get(name)
    if group is None:
        return []
    if tube.groups.next is group:
        return [first_of_group(tube, group), *group.ready.first(count - 1)]
    return group.ready.first(count)


def ready_count(tube):
    return tube.ready.count if tube.groups is None else tube.groups.ready_count


def is_next(job):
    """Whether a ready job of a tube with groups is the one that is handed out next."""
    ready: Heap = job.tube.ready
    return ready.count != 0 and ready.entries[0].item == cython.cast(cython.p_void, job)


def first_ready(tube):
    """Return the heap of the ready jobs of a tube, or with groups one whose first job is next, or of a closed group.

    That is the first of many closed groups, not of all: others wait for it.
    """
    if tube.groups is None or tube.ready.count or tube.groups.ready_count == 0:
        return tube.ready
    found: Heap = tube.ready
    left: cython.int = CLOSED_LOOKED_AT
    for each in tube.groups.by_name.values():
        group: Group = cython.cast(Group, each, typecheck=True)
        if group.ready.count and (found.count == 0 or sooner(group.ready, found)):
            found = group.ready
        left -= 1
        if left <= 0 and found.count:
            break
    return found


def first_of_group(tube, group):
    """Return the ready job that a group hands out first; None: it has none."""
    if tube.groups.next is group:
        return cython.cast(Job, tube.ready.entries[0].item)
    return cython.cast(Job, group.ready.entries[0].item) if group.ready.count else None


def next_of_group(tube, name):
    """Return the job that a group hands out next, in a tube from which jobs may be reserved; None: it is closed."""
    if tube.groups is None:
        return cython.cast(Job, tube.ready.entries[0].item)
    group: Group = tube.groups.by_name[name]
    return None if group.closed else first_of_group(tube, group)
