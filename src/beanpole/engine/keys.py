"""The index of the jobs that hold a key (:mod:`beanpole.engine.keyed`).

It is a linear hash table, as the table of jobs is. A holder costs 16 bytes, and 4 to 8 of its bucket; the key
itself lies with the job, and is compared whole, so that two keys are never taken for one. Python's hash of bytes is
keyed at random in each process: nobody can choose keys that fall into one bucket. It decides nothing that can be seen.
"""

import cython
from cython.cimports.beanpole.engine.job import Job
from cython.cimports.beanpole.engine.tags import Tag, find_tag
from cython.cimports.beanpole.engine.tube import Tube
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc
from cython.cimports.libc.string import memcmp

FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 16)
SPREAD = cython.declare(uint64_t, 0x9E3779B97F4A7C15)
"""An odd number that lets one hash change all bits of the other."""

SLOTS_PER_BLOCK = cython.declare(uint32_t, 4096)


@cython.cfunc
def hash_of(tube: Tube, key: cython.p_const_char, size: cython.Py_ssize_t) -> uint32_t:
    """Return the hash of a key in a tube."""
    text: bytes = key[:size]
    text_hash: int64_t = hash(text)
    tube_hash: int64_t = hash(tube.name)
    mixed: uint64_t = cython.cast(uint64_t, text_hash) ^ cython.cast(uint64_t, tube_hash) * SPREAD
    return cython.cast(uint32_t, mixed ^ mixed >> 32)


def key_of(job, size):
    """Return the key of a job that has one, and set its size."""
    text: cython.p_const_char = find_tag(job, Tag.KEY, size)
    size[0] -= 1
    return text + 1


@cython.cclass
class KeyIndex:
    """The jobs that hold their key, by tube and key."""

    def __cinit__(self):
        self.buckets = cython.cast(cython.pointer(uint32_t), calloc(FIRST_CAPACITY, cython.sizeof(uint32_t)))
        if self.buckets is cython.NULL:
            raise MemoryError
        self.capacity = FIRST_CAPACITY
        self.bucket_count = 1
        self.slot_count = 1

    def __dealloc__(self):
        self.free_blocks()
        free(self.buckets)

    def at(self, slot):
        """Return what is in a slot."""
        return cython.address(self.blocks[slot // SLOTS_PER_BLOCK][slot % SLOTS_PER_BLOCK])

    def bucket(self, mark):
        """Return the number of the bucket of a hash."""
        wide: uint64_t = mark & (self.mask * 2 + 1)
        return wide if wide < self.bucket_count else mark & self.mask

    def find(self, tube, key, size):
        """Return the job that holds a key, or None."""
        mark: uint32_t = hash_of(tube, key, size)
        slot: uint32_t = self.buckets[self.bucket(mark)]
        while slot:
            holder: cython.pointer(Holder) = self.at(slot)
            if holder.hash == mark:
                job: Job = cython.cast(Job, holder.job)
                there: cython.Py_ssize_t = 0
                text: cython.p_const_char = key_of(job, cython.address(there))
                if job.tube is tube and there == size and memcmp(text, key, size) == 0:
                    return job
            slot = holder.next
        return None

    def add(self, job):
        """Add a job whose key no other job of its tube holds."""
        if self.count >= cython.cast(cython.Py_ssize_t, self.bucket_count):
            self.split()
        size: cython.Py_ssize_t = 0
        key: cython.p_const_char = key_of(job, cython.address(size))
        mark: uint32_t = hash_of(job.tube, key, size)
        bucket: uint64_t = self.bucket(mark)
        job.holder_slot = self.take_slot()
        holder: cython.pointer(Holder) = self.at(job.holder_slot)
        holder.job = cython.cast(cython.p_void, job)
        holder.hash = mark
        holder.next = self.buckets[bucket]
        self.buckets[bucket] = job.holder_slot
        self.count += 1
        return 0

    def remove(self, job):
        """Take out a job that is in here."""
        slot: uint32_t = job.holder_slot
        holder: cython.pointer(Holder) = self.at(slot)
        place: cython.pointer(uint32_t) = cython.address(self.buckets[self.bucket(holder.hash)])
        while place[0] != slot:
            place = cython.address(self.at(place[0]).next)
        place[0] = holder.next
        holder.next = self.free_slot
        self.free_slot = slot
        job.holder_slot = 0
        self.count -= 1
        if self.count == 0:
            self.free_blocks()
        if self.count < cython.cast(cython.Py_ssize_t, self.bucket_count) // 2 and self.bucket_count > 1:
            self.merge()
        return 0

    def take_slot(self):
        """Return a free slot."""
        slot: uint32_t = self.free_slot
        if slot:
            self.free_slot = self.at(slot).next
            return slot
        slot = self.slot_count
        block: cython.Py_ssize_t = slot // SLOTS_PER_BLOCK
        if self.blocks is cython.NULL or slot % SLOTS_PER_BLOCK == 0:
            grown = cython.cast(
                cython.pointer(cython.pointer(Holder)),
                realloc(self.blocks, (block + 1) * cython.sizeof(cython.pointer(Holder))),
            )
            if grown is cython.NULL:
                raise MemoryError
            self.blocks = grown
            fresh = cython.cast(cython.pointer(Holder), malloc(SLOTS_PER_BLOCK * cython.sizeof(Holder)))
            if fresh is cython.NULL:
                raise MemoryError
            self.blocks[block] = fresh
        self.slot_count += 1
        return slot

    def free_blocks(self):
        """Give back the slots, of which none is used."""
        i: cython.Py_ssize_t
        if self.blocks is not cython.NULL:
            for i in range((cython.cast(cython.Py_ssize_t, self.slot_count) - 1) // SLOTS_PER_BLOCK + 1):
                free(self.blocks[i])
            free(self.blocks)
        self.blocks = cython.NULL
        self.slot_count = 1
        self.free_slot = 0
        return 0

    def split(self):
        """Add a bucket; its holders come from the one that shares its lower bits."""
        if self.bucket_count == cython.cast(uint64_t, self.capacity):
            self.resize(self.capacity * 2)
        fresh: uint64_t = self.bucket_count
        if fresh > self.mask * 2 + 1:
            self.mask = self.mask * 2 + 1
        source: cython.pointer(uint32_t) = cython.address(self.buckets[fresh & self.mask])
        self.bucket_count += 1
        self.buckets[fresh] = 0
        while source[0]:
            slot: uint32_t = source[0]
            holder: cython.pointer(Holder) = self.at(slot)
            if self.bucket(holder.hash) == fresh:
                source[0] = holder.next
                holder.next = self.buckets[fresh]
                self.buckets[fresh] = slot
            else:
                source = cython.address(holder.next)
        return 0

    def merge(self):
        """Take the last bucket away; its holders go to the one that shares its lower bits."""
        self.bucket_count -= 1
        last: uint64_t = self.bucket_count
        if last <= self.mask:
            self.mask //= 2
        target: cython.pointer(uint32_t) = cython.address(self.buckets[last & self.mask])
        while target[0]:
            target = cython.address(self.at(target[0]).next)
        target[0] = self.buckets[last]
        if self.capacity > FIRST_CAPACITY and last < cython.cast(uint64_t, self.capacity) // 4:
            self.resize(self.capacity // 2)
        return 0

    def resize(self, capacity):
        """Give room for `capacity` buckets. Raise MemoryError when there is none."""
        grown = cython.cast(cython.pointer(uint32_t), realloc(self.buckets, capacity * cython.sizeof(uint32_t)))
        if grown is cython.NULL:
            raise MemoryError
        self.buckets = grown
        self.capacity = capacity
        return 0

    def check(self) -> None:
        """Raise AssertionError when the invariant is broken."""
        found: cython.Py_ssize_t = 0
        i: uint64_t
        for i in range(self.bucket_count):
            slot: uint32_t = self.buckets[i]
            while slot:
                holder: cython.pointer(Holder) = self.at(slot)
                job: Job = cython.cast(Job, holder.job)
                assert self.bucket(holder.hash) == i, f"the key of job {job.id} is in a wrong bucket"
                assert job.holder_slot == slot, f"job {job.id} does not know the slot of its key"
                found += 1
                slot = holder.next
        assert found == self.count, f"the index counts {self.count} keys but has {found}"
