"""The index of the jobs that hold a key (:mod:`beanpole.engine.policies.uniqueness`).

It is a linear hash table, as the table of jobs is: it grows and shrinks a bucket at a time. A bucket is one line of
memory, in which seven holders have room, because among a million keys each look at memory costs more than all else. A
holder costs about 14 bytes; the key itself lies with the job, and is compared whole, so that two keys are never taken
for one. The hash is Python's of bytes, which has a secret that is new in each process: nobody can choose keys that fall
into one bucket. It decides nothing that can be seen.

While a job is in here its key and its tube stay what they are.
"""

import cython
from cython.cimports.beanpole.engine.state.job import Job, body_of
from cython.cimports.beanpole.engine.state.tags import KeyBit, Tag, find_tag
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcmp, memset

BUCKETS_PER_SEGMENT = cython.declare(uint64_t, 1024)
PLACES = cython.declare(cython.int, 7)
LOAD_MAX = cython.declare(cython.Py_ssize_t, 9)
"""Holders for two buckets, above which there is one bucket more: few have none of their seven places free."""

LOAD_MIN = cython.declare(cython.Py_ssize_t, 4)  # holders for two buckets, below which there is one bucket fewer
POINTER_BITS = cython.declare(cython.int, 48)  # bits of an address; a holder has bits of its hash above them
TAG_SHIFT = cython.declare(cython.int, 10)
"""The lowest of these 16 bits: with as many buckets as they don't tell apart, it is quick to look at the keys."""

POINTER = cython.declare(uint64_t, 0xFFFFFFFFFFFF)


@cython.cfunc
def hash_of(tube: Tube, key: cython.p_const_char, size: cython.Py_ssize_t) -> uint32_t:
    """Return the hash of a key in a tube: Python's of both, so that the same key lies elsewhere in another tube."""
    tube_hash: uint64_t = cython.cast(uint64_t, cython.cast(int64_t, hash(tube.name)))
    key_hash: uint64_t = cython.cast(uint64_t, Py_HashBuffer(key, size))
    mixed: uint64_t = key_hash ^ (tube_hash << 17 | tube_hash >> 47)
    return cython.cast(uint32_t, mixed ^ mixed >> 32)


def key_of(job, size):
    """Return the key of a job that has one, and set its size."""
    text: cython.p_const_char = find_tag(job, Tag.KEY, size)
    if text[0] & KeyBit.BODY:
        size[0] = job.body_bytes
        return body_of(job)
    size[0] -= 1
    return text + 1


def is_body(job):
    """Whether the key of a job that has one is its body."""
    size: cython.Py_ssize_t = 0
    return find_tag(job, Tag.KEY, cython.address(size))[0] & KeyBit.BODY != 0


@cython.cfunc
def mark_of(job: Job) -> uint32_t:
    """Return the hash of a job's key."""
    size: cython.Py_ssize_t = 0
    key: cython.p_const_char = key_of(job, cython.address(size))
    return hash_of(job.tube, key, size)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def tag_of(mark: uint32_t) -> uint64_t:
    """Return the bits of a hash that stand above a pointer, in their place."""
    return cython.cast(uint64_t, mark >> TAG_SHIFT & 0xFFFF) << POINTER_BITS


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def job_of(holder: uint64_t) -> cython.p_void:
    return cython.cast(cython.p_void, holder & POINTER)


@cython.cfunc
def push(bucket: cython.pointer(Bucket), holder: uint64_t) -> cython.int:
    """Put a holder behind the others of a bucket. Raise MemoryError when there is no room."""
    place: cython.int
    while True:
        for place in range(PLACES):
            if bucket.holders[place] == 0:
                bucket.holders[place] = holder
                return 0
        if bucket.more is cython.NULL:
            more = cython.cast(cython.pointer(Bucket), aligned_alloc(64, cython.sizeof(Bucket)))
            if more is cython.NULL:
                raise MemoryError
            memset(more, 0, cython.sizeof(Bucket))
            bucket.more = more
        bucket = bucket.more


@cython.cfunc
@cython.exceptval(check=False)
def pop(bucket: cython.pointer(Bucket)) -> uint64_t:
    """Take out the last holder of a bucket; 0: it has none."""
    before: cython.pointer(Bucket) = cython.NULL
    while bucket.more is not cython.NULL:
        before = bucket
        bucket = bucket.more
    place: cython.int = PLACES - 1
    while place >= 0 and bucket.holders[place] == 0:
        place -= 1
    if place < 0:
        return 0
    holder: uint64_t = bucket.holders[place]
    bucket.holders[place] = 0
    if place == 0 and before is not cython.NULL:
        free(bucket)
        before.more = cython.NULL
    return holder


@cython.cclass
class KeyIndex:
    """The jobs that hold their key, by tube and key."""

    def __cinit__(self):
        self.add_segment()
        self.bucket_count = 1

    def __dealloc__(self):
        i: uint64_t
        for i in range(self.bucket_count):
            more: cython.pointer(Bucket) = self.at(i).more
            while more is not cython.NULL:
                bucket: cython.pointer(Bucket) = more
                more = bucket.more
                free(bucket)
        while self.segment_count:
            self.segment_count -= 1
            free(self.segments[self.segment_count])
        free(self.segments)

    def at(self, number):
        return cython.address(self.segments[number // BUCKETS_PER_SEGMENT][number % BUCKETS_PER_SEGMENT])

    def number_of(self, mark):
        """Return the number of the bucket of a hash."""
        wide: uint64_t = mark & (self.mask * 2 + 1)
        return wide if wide < self.bucket_count else mark & self.mask

    def find(self, tube, key, size, body):
        """Return the job that holds a key, or None; `body`: the key is the body, and no other is meant."""
        return self.find_marked(hash_of(tube, key, size), tube, key, size, body)

    def find_marked(self, mark, tube, key, size, body):
        """Do what `find` does, with the hash of the key."""
        tag: uint64_t = tag_of(mark)
        bucket: cython.pointer(Bucket) = self.at(self.number_of(mark))
        place: cython.int
        while bucket is not cython.NULL:
            for place in range(PLACES):
                holder: uint64_t = bucket.holders[place]
                if holder == 0:
                    return None
                if holder & ~POINTER == tag:
                    job: Job = cython.cast(Job, job_of(holder))
                    there: cython.Py_ssize_t = 0
                    text: cython.p_const_char = key_of(job, cython.address(there))
                    if job.tube is tube and there == size and memcmp(text, key, size) == 0 and is_body(job) == body:
                        return job
            bucket = bucket.more
        return None

    def add(self, job):
        """Add a job; return another one that holds its key, which the caller takes out, or None."""
        if 2 * self.count >= LOAD_MAX * cython.cast(cython.Py_ssize_t, self.bucket_count):
            self.split()
        size: cython.Py_ssize_t = 0
        key: cython.p_const_char = key_of(job, cython.address(size))
        mark: uint32_t = hash_of(job.tube, key, size)
        other: Job = self.find_marked(mark, job.tube, key, size, is_body(job))
        pointer = cython.cast(uint64_t, cython.cast(cython.p_void, job))
        assert pointer & ~POINTER == 0, "an address has more bits than addresses have"
        push(self.at(self.number_of(mark)), pointer | tag_of(mark))
        self.count += 1
        return other

    def remove(self, job):
        """Take out a job that is in here."""
        head: cython.pointer(Bucket) = self.at(self.number_of(mark_of(job)))
        bucket: cython.pointer(Bucket) = head
        place: cython.int = 0
        while job_of(bucket.holders[place]) != cython.cast(cython.p_void, job):
            assert bucket.holders[place], f"job {job.id} is not found by its key"
            place += 1
            if place == PLACES:
                assert bucket.more is not cython.NULL, f"job {job.id} is not found by its key"
                bucket = bucket.more
                place = 0
        gone: uint64_t = bucket.holders[place]
        last: uint64_t = pop(head)
        if last != gone:
            bucket.holders[place] = last
        self.count -= 1
        if 2 * self.count < LOAD_MIN * cython.cast(cython.Py_ssize_t, self.bucket_count) and self.bucket_count > 1:
            self.merge()
        return 0

    def add_segment(self):
        """Make room for more buckets, which are empty. Raise MemoryError when there is none."""
        size: cython.Py_ssize_t = BUCKETS_PER_SEGMENT * cython.sizeof(Bucket)
        segments = cython.cast(
            cython.pointer(cython.pointer(Bucket)),
            realloc(self.segments, (self.segment_count + 1) * cython.sizeof(cython.pointer(Bucket))),
        )
        if segments is cython.NULL:
            raise MemoryError
        self.segments = segments
        fresh = cython.cast(cython.pointer(Bucket), aligned_alloc(64, size))
        if fresh is cython.NULL:
            raise MemoryError
        memset(fresh, 0, size)
        segments[self.segment_count] = fresh
        self.segment_count += 1
        return 0

    def split(self):
        """Add a bucket; its holders come from the one that shares its lower bits."""
        if self.bucket_count == cython.cast(uint64_t, self.segment_count) * BUCKETS_PER_SEGMENT:
            self.add_segment()
        fresh: uint64_t = self.bucket_count
        if fresh > self.mask * 2 + 1:
            self.mask = self.mask * 2 + 1
        source: cython.pointer(Bucket) = self.at(fresh & self.mask)
        self.bucket_count += 1
        is_told: cython.bint = self.mask + 1 >= cython.cast(uint64_t, 1) << TAG_SHIFT
        bit: uint64_t = (self.mask + 1) >> TAG_SHIFT << POINTER_BITS
        stay: Bucket
        memset(cython.address(stay), 0, cython.sizeof(Bucket))
        holder: uint64_t = pop(source)
        while holder:
            if is_told:
                goes: cython.bint = holder & bit != 0
            else:
                goes = self.number_of(mark_of(cython.cast(Job, job_of(holder)))) == fresh
            push(self.at(fresh) if goes else cython.address(stay), holder)
            holder = pop(source)
        source[0] = stay
        return 0

    def merge(self):
        """Take the last bucket away; its holders go to the one that shares its lower bits."""
        self.bucket_count -= 1
        last: uint64_t = self.bucket_count
        if last <= self.mask:
            self.mask //= 2
        holder: uint64_t = pop(self.at(last))
        while holder:
            push(self.at(last & self.mask), holder)
            holder = pop(self.at(last))
        if last % BUCKETS_PER_SEGMENT == 0:
            self.segment_count -= 1
            free(self.segments[self.segment_count])
        return 0

    def check(self) -> None:
        """Raise AssertionError when the invariant is broken."""
        found: cython.Py_ssize_t = 0
        i: uint64_t
        place: cython.int
        for i in range(self.bucket_count):
            bucket: cython.pointer(Bucket) = self.at(i)
            while bucket is not cython.NULL:
                for place in range(PLACES):
                    if bucket.holders[place]:
                        job: Job = cython.cast(Job, job_of(bucket.holders[place]))
                        mark: uint32_t = mark_of(job)
                        assert self.number_of(mark) == i, f"the key of job {job.id} is in a wrong bucket"
                        assert bucket.holders[place] & ~POINTER == tag_of(mark), f"job {job.id} has a wrong tag"
                        assert place == 0 or bucket.holders[place - 1], f"bucket {i} of the keys has a hole"
                        found += 1
                assert bucket.more is cython.NULL or bucket.holders[PLACES - 1], f"bucket {i} of the keys has a hole"
                bucket = bucket.more
        assert found == self.count, f"the index counts {self.count} keys but has {found}"
