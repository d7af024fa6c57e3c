"""The indexes of all jobs: by their ids (the table owns the jobs), and by when their time to wait is over.

The table is a linear hash table (Litwin, "Linear Hashing: A New Tool for File and Table Addressing", 1980): it grows
and shrinks by one bucket at a time, so there is never a pause to rehash a million jobs. Ids are handed out in order, so
the id is its own hash and neighbours in time are neighbours in memory. Nearly every bucket has one job, and is its
address; of several, each but the last one has a pair of addresses. A job costs 8 to 16 bytes here; an entry of a dict
of ints would cost 100.

So that whoever looks for jobs by their ids can pass over those that are long gone, the table counts the jobs in each
block of ids. Most jobs that come or go belong to a few blocks: their counts stand in an array, the others in dicts, one
for each region of blocks, so that a gap of any size is passed over in one go: the ids of a shard begin far above 1.

Invariants: a job of id ``i`` is in bucket ``i % 2^(n+1)`` if there is one of that number, else in ``i % 2^n``. No entry
of the queue of expiry is over before its parent, by (moment, id), and each job knows its place there.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Timed
from cython.cimports.beanpole.engine.state.job import Flag, Job
from cython.cimports.cpython.mem import PyObject_Free, PyObject_Malloc
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import UINT64_MAX, uint8_t, uint32_t, uint64_t, uintptr_t
from cython.cimports.libc.stdlib import calloc, free, realloc

FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 16)
BUCKETS_AT_ONCE = cython.declare(uint64_t, 8_192)
"""Buckets, each of a job or so, that a search looks at in one piece: half a millisecond, as most are in no cache."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def pair_of(link: cython.p_void) -> cython.pointer(Pair):
    """Return the pair that a link leads to; NULL: it leads to a job, or nowhere."""
    address = cython.cast(uintptr_t, link)
    return cython.cast(cython.pointer(Pair), address - 1 if address & 1 else 0)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def link_to(pair: cython.pointer(Pair)) -> cython.p_void:
    return cython.cast(cython.p_void, cython.cast(uintptr_t, pair) + 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def first_of(link: cython.p_void) -> cython.p_void:
    """Return the first job of a link that leads to one."""
    pair = pair_of(link)
    return link if pair is cython.NULL else pair.job


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def rest_of(link: cython.p_void) -> cython.p_void:
    """Return the link to what follows the first job of a link."""
    pair = pair_of(link)
    return cython.NULL if pair is cython.NULL else pair.rest


@cython.cfunc
@cython.exceptval(check=False)
def new_pair() -> cython.pointer(Pair):
    return cython.cast(cython.pointer(Pair), PyObject_Malloc(cython.sizeof(Pair)))


@cython.cclass
class JobTable:
    """The jobs of an engine by id."""

    def __cinit__(self):
        self.buckets = cython.cast(cython.pointer(cython.p_void), calloc(FIRST_CAPACITY, cython.sizeof(cython.p_void)))
        if self.buckets is cython.NULL:
            raise MemoryError
        self.capacity = FIRST_CAPACITY
        self.bucket_count = 1
        self.mask = 0
        self.regions = {}
        slot: cython.int
        for slot in range(BLOCK_SLOTS):
            self.block_numbers[slot] = slot

    def __dealloc__(self):
        i: uint64_t
        for i in range(self.bucket_count):
            link: cython.p_void = self.buckets[i]
            while link is not cython.NULL:
                following = rest_of(link)
                Py_DECREF(cython.cast(object, first_of(link)))
                PyObject_Free(pair_of(link))
                link = following
        free(self.buckets)

    def bucket(self, id):
        """Return the number of the bucket of an id."""
        wide: uint64_t = id & (self.mask * 2 + 1)
        return wide if wide < self.bucket_count else id & self.mask

    def find(self, id):
        """Return the job of an id, or None."""
        link: cython.p_void = self.buckets[self.bucket(id)]
        while link is not cython.NULL:
            if cython.cast(Job, first_of(link)).id == id:
                return cython.cast(Job, first_of(link))
            link = rest_of(link)
        return None

    def add(self, job):
        """Add a job whose id is in no other job."""
        if self.count >= cython.cast(cython.Py_ssize_t, self.bucket_count):
            self.split()
        block: uint64_t = job.id >> BLOCK_IDS_LOG2
        if self.block_numbers[block % BLOCK_SLOTS] != block:
            self.load_block(block)
        at: cython.pointer(cython.p_void) = cython.address(self.buckets[self.bucket(job.id)])
        link: cython.p_void = cython.cast(cython.p_void, job)
        if at[0] is not cython.NULL:
            pair = new_pair()
            if pair is cython.NULL:
                raise MemoryError
            pair.job = link
            pair.rest = at[0]
            link = link_to(pair)
        at[0] = link
        self.block_counts[block % BLOCK_SLOTS] += 1
        Py_INCREF(job)
        self.count += 1
        return 0

    def remove(self, job):
        """Take out a job of this table."""
        block: uint64_t = job.id >> BLOCK_IDS_LOG2
        if self.block_numbers[block % BLOCK_SLOTS] != block:
            self.load_block(block)
        self.block_counts[block % BLOCK_SLOTS] -= 1
        at: cython.pointer(cython.p_void) = cython.address(self.buckets[self.bucket(job.id)])
        gone: cython.p_void = cython.cast(cython.p_void, job)
        pair = pair_of(at[0])
        if pair is cython.NULL:
            assert at[0] == gone, "a job is taken out of a table that it is not in"
            at[0] = cython.NULL
        else:
            while pair.job != gone and pair.rest != gone:
                at = cython.address(pair.rest)
                pair = pair_of(at[0])
            at[0] = pair.rest if pair.job == gone else pair.job
            PyObject_Free(pair)
        Py_DECREF(job)
        self.count -= 1
        if self.count < cython.cast(cython.Py_ssize_t, self.bucket_count) // 2 and self.bucket_count > 1:
            self.merge()
        return 0

    def load_block(self, number):
        """Put the count of a block into its slot; that of the block which stood there goes into the dict."""
        slot: cython.int = number % BLOCK_SLOTS
        before: uint64_t = self.block_numbers[slot]
        blocks: dict
        if self.block_counts[slot]:
            blocks = self.regions.get(before >> REGION_BLOCKS_LOG2)
            if blocks is None:
                blocks = self.regions[before >> REGION_BLOCKS_LOG2] = {}
            blocks[before] = self.block_counts[slot]
        self.block_counts[slot] = 0
        self.block_numbers[slot] = number
        blocks = self.regions.get(number >> REGION_BLOCKS_LOG2)
        if blocks is not None:
            self.block_counts[slot] = blocks.pop(number, 0)
            if not blocks:
                del self.regions[number >> REGION_BLOCKS_LOG2]
        return 0

    def block_empty(self, number):
        """Whether no job has an id in a block."""
        if self.block_numbers[number % BLOCK_SLOTS] == number:
            return self.block_counts[number % BLOCK_SLOTS] == 0
        blocks: dict = self.regions.get(number >> REGION_BLOCKS_LOG2)
        return blocks is None or number not in blocks

    def block_behind(self, number, down):
        """Return where to look behind an empty block, or before it on the way down: in the next region that has jobs.

        That is the next block, unless no job has an id in the whole region of this one. Behind all regions that have
        jobs it is the greatest number that there is, and before them 0.
        """
        region: uint64_t = number >> REGION_BLOCKS_LOG2
        if not self.region_empty(region):
            return number - 1 if down else number + 1
        found: uint64_t = 0 if down else UINT64_MAX
        other: uint64_t
        slot: cython.int
        for slot in range(BLOCK_SLOTS):
            if self.block_counts[slot]:
                other = self.block_numbers[slot] >> REGION_BLOCKS_LOG2
                if other < region if down else other > region:
                    found = max(found, other + 1) if down else min(found, other)
        for each in self.regions:
            other = each
            if other < region if down else other > region:
                found = max(found, other + 1) if down else min(found, other)
        if down:
            return (found << REGION_BLOCKS_LOG2) - 1 if found else 0
        return found << REGION_BLOCKS_LOG2 if found != UINT64_MAX else UINT64_MAX

    def region_empty(self, region):
        """Whether no job has an id in a region."""
        slot: cython.int
        for slot in range(BLOCK_SLOTS):
            if self.block_counts[slot] and self.block_numbers[slot] >> REGION_BLOCKS_LOG2 == region:
                return False
        return region not in self.regions

    def split(self):
        """Add a bucket; its jobs come from the one that shares its lower bits."""
        if self.bucket_count == cython.cast(uint64_t, self.capacity):
            self.resize(self.capacity * 2)
        fresh: uint64_t = self.bucket_count
        if fresh > self.mask * 2 + 1:
            self.mask = self.mask * 2 + 1
        source: cython.pointer(cython.p_void) = cython.address(self.buckets[fresh & self.mask])
        link: cython.p_void = source[0]
        self.bucket_count += 1
        self.buckets[fresh] = cython.NULL
        if link is not cython.NULL:
            source[0] = cython.NULL
            self.spread(link, cython.NULL)
        return 0

    def merge(self):
        """Take the last bucket away; its jobs go to the one that shares its lower bits."""
        last: uint64_t = self.bucket_count - 1
        pair: cython.pointer(Pair) = cython.NULL
        mask: uint64_t = self.mask // 2 if last <= self.mask else self.mask
        if self.buckets[last] is not cython.NULL and self.buckets[last & mask] is not cython.NULL:
            pair = new_pair()
            if pair is cython.NULL:
                return 0  # there is a bucket too many, until another job goes
        self.bucket_count = last
        self.mask = mask
        self.spread(self.buckets[last], pair)
        if self.capacity > FIRST_CAPACITY and last < cython.cast(uint64_t, self.capacity) // 4:
            self.resize(self.capacity // 2)
        return 0

    def spread(self, link, pair):
        """Put the jobs of a link into their buckets, with the pairs that it has; `pair` is one more, or NULL.

        Whenever a bucket was empty, a pair is left over for the last job, which has none.
        """
        while link is not cython.NULL:
            job: cython.p_void = first_of(link)
            own: cython.pointer(Pair) = pair_of(link)
            link = rest_of(link)
            if own is cython.NULL:
                own = pair
                pair = cython.NULL
            at: cython.pointer(cython.p_void) = cython.address(self.buckets[self.bucket(cython.cast(Job, job).id)])
            if at[0] is not cython.NULL:
                own.job = job
                own.rest = at[0]
                at[0] = link_to(own)
            else:
                at[0] = job
                PyObject_Free(pair)
                pair = own
        PyObject_Free(pair)

    def resize(self, capacity):
        """Give room for `capacity` buckets. Raise MemoryError when there is none."""
        grown = cython.cast(
            cython.pointer(cython.p_void), realloc(self.buckets, capacity * cython.sizeof(cython.p_void))
        )
        if grown is cython.NULL:
            raise MemoryError
        self.buckets = grown
        self.capacity = capacity
        return 0

    def jobs(self) -> list[Job]:
        """Return every job, in no order that means anything."""
        found = []
        i: uint64_t
        for i in range(self.bucket_count):
            link: cython.p_void = self.buckets[i]
            while link is not cython.NULL:
                found.append(cython.cast(Job, first_of(link)))
                link = rest_of(link)
        return found

    def ids_in(self, segment: uint64_t, start: uint64_t) -> tuple[list[int], int]:
        """Return ids of jobs whose records stand in a segment of the log, and where to go on; 0: this was the end.

        It looks at some of the jobs, so that other work can be done between two calls. Jobs that come and go then move
        others, so that one may be passed over or found twice.
        """
        found = []
        i: uint64_t = start
        end: uint64_t = min(self.bucket_count, start + BUCKETS_AT_ONCE)
        while i < end:
            link: cython.p_void = self.buckets[i]
            while link is not cython.NULL:
                if cython.cast(Job, first_of(link)).segment == segment:
                    found.append(cython.cast(Job, first_of(link)).id)
                link = rest_of(link)
            i += 1
        return found, (i if i < self.bucket_count else 0)

    def check(self) -> None:
        """Raise AssertionError when the invariant is broken."""
        found: cython.Py_ssize_t = 0
        blocks = {}
        block: uint64_t
        i: uint64_t
        for i in range(self.bucket_count):
            link: cython.p_void = self.buckets[i]
            while link is not cython.NULL:
                job: Job = cython.cast(Job, first_of(link))
                assert self.bucket(job.id) == i, f"job {job.id} is in a wrong bucket"
                found += 1
                block = job.id >> BLOCK_IDS_LOG2
                blocks[block] = blocks.get(block, 0) + 1
                is_end: cython.bint = rest_of(link) is cython.NULL
                assert is_end == (pair_of(link) is cython.NULL), f"job {job.id} has a pair of its own"
                link = rest_of(link)
        assert found == self.count, f"the job table counts {self.count} jobs but holds {found}"
        counted = {}
        for region, others in self.regions.items():
            assert others, f"region {region} is kept without a block"
            assert {number >> REGION_BLOCKS_LOG2 for number in others} == {region}, (
                f"region {region} has others' blocks"
            )
            counted |= others
        for i in range(BLOCK_SLOTS):
            if self.block_counts[i]:
                assert self.block_numbers[i] not in counted, f"block {self.block_numbers[i]} is counted twice"
                counted[self.block_numbers[i]] = self.block_counts[i]
        assert counted == blocks, "the job table counts the jobs of some ids wrong"


# --- expiry -----------------------------------------------------------------------------------------------------------


CHILDREN = cython.declare(cython.Py_ssize_t, 4)
EXPIRY_CAPACITY = cython.declare(cython.Py_ssize_t, 64)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def less(a: cython.pointer(Expiring), b: cython.pointer(Expiring)) -> cython.bint:
    return a.at_ns < b.at_ns or (a.at_ns == b.at_ns and cython.cast(Job, a.job).id < cython.cast(Job, b.job).id)


@cython.no_gc
@cython.cclass
class ExpiryQueue(Timed):
    """The jobs whose time to wait is limited, by the moment at which it is over, while they are ready or delayed.

    A heap of four children a node, like `Heap`; it is one of the engine's timers. A job stands in the heap of its state
    besides, so that it has a second place, ``Place.slot``.
    """

    def __cinit__(self):
        self.number = UINT64_MAX  # of timers that fire at the same moment it is the last

    def __dealloc__(self):
        free(self.entries)

    def due_job(self, now_ns):
        if self.count and self.entries[0].at_ns <= now_ns:
            return cython.cast(Job, self.entries[0].job)
        return None

    def next_due_ns(self):
        return self.entries[0].at_ns if self.count else -1

    def add(self, job, at_ns):
        """Add a job that is not in here."""
        if self.count == self.capacity:
            self.resize(max(EXPIRY_CAPACITY, self.capacity * 2))
        entry: Expiring
        entry.at_ns = at_ns
        entry.job = cython.cast(cython.p_void, job)
        job.flags |= Flag.COUNTING
        self.count += 1
        self.put_at(self.count - 1, entry)
        return 0

    def remove(self, job):
        """Take out a job that is in here."""
        hole: cython.Py_ssize_t = job.place.slot
        assert hole < self.count, "a job is taken out of the queue of expiry that is not in it"
        job.place.slot = 0
        job.flags &= ~cython.cast(uint8_t, Flag.COUNTING)
        self.count -= 1
        if hole != self.count:
            self.put_at(hole, self.entries[self.count])
        if self.capacity > EXPIRY_CAPACITY and self.count < self.capacity // 4:
            self.resize(self.capacity // 2)
        return 0

    def at_ns_of(self, job):
        return self.entries[job.place.slot].at_ns

    def put_at(self, hole, entry):
        """Put an entry into the heap, which is in order but for the hole, up or down from there."""
        entries: cython.pointer(Expiring) = self.entries
        parent: cython.Py_ssize_t
        while hole > 0:
            parent = (hole - 1) // CHILDREN
            if not less(cython.address(entry), cython.address(entries[parent])):
                break
            entries[hole] = entries[parent]
            cython.cast(Job, entries[hole].job).place.slot = cython.cast(uint32_t, hole)
            hole = parent
        child: cython.Py_ssize_t
        best: cython.Py_ssize_t
        while hole * CHILDREN + 1 < self.count:
            best = hole * CHILDREN + 1
            for child in range(best + 1, min(best + CHILDREN, self.count)):
                if less(cython.address(entries[child]), cython.address(entries[best])):
                    best = child
            if not less(cython.address(entries[best]), cython.address(entry)):
                break
            entries[hole] = entries[best]
            cython.cast(Job, entries[hole].job).place.slot = cython.cast(uint32_t, hole)
            hole = best
        entries[hole] = entry
        cython.cast(Job, entry.job).place.slot = cython.cast(uint32_t, hole)

    def resize(self, capacity):
        """Give room for `capacity` entries. Raise MemoryError when there is none."""
        entries = cython.cast(cython.pointer(Expiring), realloc(self.entries, capacity * cython.sizeof(Expiring)))
        if entries is cython.NULL:
            raise MemoryError
        self.entries = entries
        self.capacity = capacity
        return 0

    def check(self) -> None:
        """Raise AssertionError when the invariant is broken."""
        i: cython.Py_ssize_t
        for i in range(self.count):
            job: Job = cython.cast(Job, self.entries[i].job)
            assert job.place.slot == i, f"job {job.id} does not know when it expires"
            assert job.flags & Flag.COUNTING, f"job {job.id} expires, and does not know"
            smaller: cython.bint = i > 0 and less(
                cython.address(self.entries[i]), cython.address(self.entries[(i - 1) // CHILDREN])
            )
            assert not smaller, f"job {job.id} expires before its parent"
