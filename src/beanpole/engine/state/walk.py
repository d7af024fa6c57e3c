"""A walk over the jobs of a tube in some of its states, in pieces, while others put, reserve and delete.

A command that concerns many jobs can't go through a heap: between two pieces its entries change their places, so that a
cursor would miss jobs or meet them twice. Ids stay. There are two ways:

- A tube with few jobs in these states: their ids are copied when the walk begins, and then looked up one by one. For
  the smallest ids first the copy is a heap, so that a walk that stops early has not sorted what it never reaches.
- A tube with many: every id is looked up in the job table, but for blocks and whole regions of ids that have no job
  at all.

Either way a job that is in one of the states from the beginning to the end is found exactly once. Jobs that are put
later have a greater id than `upto` and are never found. A job that comes into these states while the walk goes on may
be found or not.
"""

import cython
from cython.cimports.beanpole.engine.state.groupjobs import is_of_group, ready_count
from cython.cimports.beanpole.engine.state.job import Job, State
from cython.cimports.beanpole.engine.state.jobtable import BLOCK_IDS_LOG2, JobTable
from cython.cimports.beanpole.engine.state.tube import Group, Tube
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import free, malloc

from beanpole.engine import limits

WALK_SNAPSHOT_JOBS = 50_000
"""Jobs of a tube whose ids are copied in one go to be looked up; where there are more, the search goes by id."""

BLOCK_MASK = cython.declare(uint64_t, (1 << BLOCK_IDS_LOG2) - 1)
IDS_PER_TURN = cython.declare(cython.Py_ssize_t, limits.WALK_IDS_PER_TURN)
STEPS_PER_MOVE = cython.declare(cython.Py_ssize_t, 10)  # ids that are passed in the time in which a job is moved
COPIES_PER_MOVE = cython.declare(cython.Py_ssize_t, 60)  # ids that are copied, and put in order, in that time
STEPS_PER_BLOCK = cython.declare(cython.Py_ssize_t, 8)
"""What a block that is passed over counts: it may have to be looked for in a dict."""


@cython.no_gc
@cython.cclass
class Walk:
    """Finds jobs one by one. The fields stand in ``walk.pxd``."""

    def __init__(
        self,
        jobs: JobTable,
        tube: Tube,
        states: cython.int,
        after: uint64_t,
        upto: uint64_t,
        down: cython.bint = False,
        snapshot_jobs: cython.Py_ssize_t = WALK_SNAPSHOT_JOBS,
        group: bytes | None = None,
    ):
        """Begin to walk over the jobs, of a group or all, of an id greater than `after` and not greater than `upto`."""
        assert self.jobs is None, "a walk begins once"
        self.jobs = jobs
        self.tube = tube
        self.group = group
        self.states = states
        self.down = down
        self.at = upto if down else after + 1
        self.last = after + 1 if down else upto
        self.done = after >= upto
        named: Group = None
        count: cython.Py_ssize_t = self.count_of_tube()
        if group is not None:
            named = None if tube.groups is None else tube.groups.by_name.get(group)
            self.done |= named is None
            if named is not None and states & (1 << State.READY):
                count += named.counts[cython.cast(cython.int, State.READY)] - ready_count(tube)
        # Held jobs are in the heaps of those who hold them.
        if not self.done and count <= snapshot_jobs and not states & (1 << State.RESERVED):
            self.copied = count
            self.ids = cython.cast(cython.pointer(uint64_t), malloc((count + 2) * cython.sizeof(uint64_t)))
            if self.ids is cython.NULL:
                raise MemoryError
            if states & (1 << State.READY):
                self.copy_ids(tube.ready, after, upto)
                if group is not None:
                    self.copy_ids(named.ready, after, upto)
                elif tube.groups is not None:
                    for each in tube.groups.by_name.values():
                        self.copy_ids(cython.cast(Group, each, typecheck=True).ready, after, upto)
            if states & (1 << State.DELAYED):
                self.copy_ids(tube.delayed, after, upto)
            if states & (1 << State.BURIED):
                self.copy_ids(tube.buried, after, upto)
            if not down:
                hole: cython.Py_ssize_t
                for hole in range((self.id_count - 2) // 2, -1, -1):
                    self.sink(hole, self.ids[hole])

    def __dealloc__(self):
        free(self.ids)

    def begin_piece(self):
        """Let the walk take the steps of one turn."""
        self.steps_left = IDS_PER_TURN
        return 0

    def piece_cost(self):
        """Return what this piece has cost, the first one with the copy: in jobs that could have been moved instead."""
        cost: cython.Py_ssize_t = (IDS_PER_TURN - self.steps_left) // STEPS_PER_MOVE + self.copied // COPIES_PER_MOVE
        self.copied = 0
        return cost

    def next(self):
        """Return the next job. None: there is none left (`done`), or no step is left."""
        if self.done or self.count() == 0:
            self.done = True
            return None
        if self.ids is cython.NULL:
            return self.next_of_all()
        job: Job
        while self.id_count:
            if self.steps_left <= 0:
                return None
            self.steps_left -= 1
            job = self.look_up(self.take_id())
            if job is not None:
                return job
        self.done = True
        return None

    def next_job(self) -> Job | None:
        return self.next()

    def look_up(self, id):
        """Return the job of an id if the walk is about it."""
        job: Job = self.jobs.find(id)
        if job is None or job.tube is not self.tube or not self.states >> job.state & 1:
            return None
        if self.group is not None and not is_of_group(job, self.group):
            return None
        return job

    def next_of_all(self):
        """Look up one id after the other."""
        job: Job
        while self.steps_left > 0:
            if self.at & BLOCK_MASK == (BLOCK_MASK if self.down else 0):
                self.skip_empty()
            if self.at < self.last if self.down else self.at > self.last:
                self.done = True
                return None
            self.steps_left -= 1
            job = self.look_up(self.at)
            if self.at == self.last:
                self.done = True  # the next id may be none: after 2^64 - 1, or before 0
            else:
                self.at += -1 if self.down else 1
            if job is not None or self.done:
                return job
        return None

    def skip_empty(self):
        """Go on from the border of a block to the next block that has jobs, as far as there are steps."""
        last: uint64_t = self.last >> BLOCK_IDS_LOG2
        while self.steps_left > 0 and self.jobs.block_empty(self.at >> BLOCK_IDS_LOG2):
            block: uint64_t = self.at >> BLOCK_IDS_LOG2
            behind: uint64_t = last if block == last else self.jobs.block_behind(block, self.down)
            is_next: cython.bint = behind - block == 1 or block - behind == 1
            self.steps_left -= STEPS_PER_BLOCK if is_next else STEPS_PER_BLOCK + len(self.jobs.regions)
            if block == last or (behind < last if self.down else behind > last):
                self.at = self.last  # which has no job either
                return 0
            self.at = behind << BLOCK_IDS_LOG2 | (BLOCK_MASK if self.down else 0)
        return 0

    def count(self):
        """Return how many jobs the tube, or the group, has in these states."""
        if self.group is None:
            return self.count_of_tube()
        group: Group = None if self.tube.groups is None else self.tube.groups.by_name.get(self.group)
        count: cython.Py_ssize_t = 0
        if group is not None:
            state: cython.int
            for state in range(4):
                count += group.counts[state] if self.states >> state & 1 else 0
        return count

    def count_of_tube(self):
        """Return how many jobs the tube has in these states."""
        count: cython.Py_ssize_t = 0
        if self.states & (1 << State.READY):
            count += ready_count(self.tube)
        if self.states & (1 << State.RESERVED):
            count += self.tube.reserved_count
        if self.states & (1 << State.DELAYED):
            count += self.tube.delayed.count
        if self.states & (1 << State.BURIED):
            count += self.tube.buried.count
        return count

    # --- the copy -----------------------------------------------------------------------------------------------------

    def copy_ids(self, heap, after, upto):
        """Copy the ids of a heap; the last ones of the heap come last, and are taken first on the way down."""
        i: cython.Py_ssize_t
        for i in range(heap.count):
            if after < heap.entries[i].tie <= upto:
                self.ids[self.id_count] = heap.entries[i].tie
                self.id_count += 1
        return 0

    def take_id(self):
        """Take an id: the smallest, or on the way down the last, whose job can leave its heap at no cost."""
        self.id_count -= 1
        if self.down or self.id_count == 0:
            return self.ids[self.id_count]
        smallest: uint64_t = self.ids[0]
        self.sink(0, self.ids[self.id_count])
        return smallest

    def sink(self, hole, id):
        """Put an id into the heap of ids, which is in order below the hole, at the hole or below it."""
        child: cython.Py_ssize_t
        while hole * 2 + 1 < self.id_count:
            child = hole * 2 + 1
            if child + 1 < self.id_count and self.ids[child + 1] < self.ids[child]:
                child += 1
            if id <= self.ids[child]:
                break
            self.ids[hole] = self.ids[child]
            hole = child
        self.ids[hole] = id
