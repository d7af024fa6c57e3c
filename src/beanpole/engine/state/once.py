"""The tokens of puts that are done once (:mod:`beanpole.engine.policies.once`), by their hashes.

A linear hash table, as the table of jobs is: it grows and shrinks by a bucket at a time. The tokens lie in chunks one
behind the other, and the last one takes the place of one that goes: so they can be looked through from any number on.
A token costs 36 bytes and half a bucket of four, however many there are.

Whoever goes through them from the last to the first, and takes some out on the way, passes over none that was there.
"""

import cython
from cython.cimports.libc.stdint import uint32_t, uint64_t
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc

FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 16)


@cython.cclass
class OnceTable:
    """Tokens by their hashes."""

    def __cinit__(self):
        self.buckets = cython.cast(cython.pointer(uint32_t), calloc(FIRST_CAPACITY, cython.sizeof(uint32_t)))
        if self.buckets is cython.NULL:
            raise MemoryError
        self.capacity = FIRST_CAPACITY
        self.bucket_count = 1

    def __dealloc__(self):
        while self.chunk_count:
            self.chunk_count -= 1
            free(self.chunks[self.chunk_count])
        free(self.chunks)
        free(self.buckets)

    def at(self, number):
        return cython.address(self.chunks[number // CHUNK].tokens[number % CHUNK])

    def link(self, number):
        return cython.address(self.chunks[number // CHUNK].links[number % CHUNK])

    def bucket(self, lower):
        """Return the number of the bucket of a hash."""
        wide: uint64_t = lower & (self.mask * 2 + 1)
        return wide if wide < self.bucket_count else lower & self.mask

    def read(self, number, mark):
        """Set `mark` to the hash of a token."""
        mark[0] = self.at(number).high
        mark[1] = cython.cast(uint64_t, self.at(number).upper) << 32 | self.link(number).lower

    def find(self, high, low):
        """Return the number of the token of a hash; -1: there is none."""
        lower = cython.cast(uint32_t, low)
        found_at: uint32_t = self.buckets[self.bucket(lower)]
        while found_at:
            link: cython.pointer(Link) = self.link(found_at - 1)
            if link.lower == lower:
                token: cython.pointer(Token) = self.at(found_at - 1)
                if token.high == high and token.upper == low >> 32:
                    return found_at - 1
            found_at = link.chained
        return -1

    def next_ended(self, now_s, most):
        """Return the number of the next of `most` tokens that has ended, or -1; `most` is what is still to look at."""
        while most[0] > 0:
            most[0] -= 1
            if self.looked_at >= self.count:
                self.looked_at = 0
            if self.at(self.looked_at).end_s <= now_s:
                return self.looked_at
            self.looked_at += 1
        return -1

    def make_room(self):
        """Make room for one more token. Raise MemoryError when there is none."""
        if self.count == self.chunk_count * CHUNK:
            chunks = cython.cast(
                cython.pointer(cython.pointer(Chunk)),
                realloc(self.chunks, (self.chunk_count + 1) * cython.sizeof(cython.pointer(Chunk))),
            )
            if chunks is cython.NULL:
                raise MemoryError
            self.chunks = chunks
            chunks[self.chunk_count] = cython.cast(cython.pointer(Chunk), malloc(cython.sizeof(Chunk)))
            if chunks[self.chunk_count] is cython.NULL:
                raise MemoryError
            self.chunk_count += 1
        if self.count >= 2 * cython.cast(cython.Py_ssize_t, self.bucket_count):
            self.split()
        return 0

    def add(self, high, low):
        """Add a token of a hash that no other has, and return it. Raise MemoryError when there is no room."""
        self.make_room()
        token: cython.pointer(Token) = self.at(self.count)
        token.high = high
        token.upper = low >> 32
        token.segment = 0
        link: cython.pointer(Link) = self.link(self.count)
        link.lower = cython.cast(uint32_t, low)
        bucket: uint64_t = self.bucket(link.lower)
        link.chained = self.buckets[bucket]
        self.count += 1
        self.buckets[bucket] = cython.cast(uint32_t, self.count)
        return token

    def remove(self, number):
        """Take out a token; the last one gets its number."""
        self.link_to(number)[0] = self.link(number).chained
        self.count -= 1
        if number != self.count:
            self.link_to(self.count)[0] = cython.cast(uint32_t, number + 1)
            self.at(number)[0] = self.at(self.count)[0]
            self.link(number)[0] = self.link(self.count)[0]
        if self.count < cython.cast(cython.Py_ssize_t, self.bucket_count) and self.bucket_count > 1:
            self.merge()
        if self.count <= (self.chunk_count - 2) * CHUNK:  # one that is empty stays, for the next
            self.chunk_count -= 1
            free(self.chunks[self.chunk_count])
        return 0

    def link_to(self, number):
        """Return where it is said which token comes before the others of its bucket, or behind another: this one."""
        link: cython.pointer(uint32_t) = cython.address(self.buckets[self.bucket(self.link(number).lower)])
        while link[0] != cython.cast(uint32_t, number + 1):
            link = cython.address(self.link(link[0] - 1).chained)
        return link

    def split(self):
        """Add a bucket; its tokens come from the one that shares its lower bits."""
        if self.bucket_count == cython.cast(uint64_t, self.capacity):
            self.resize(self.capacity * 2)
        fresh: uint64_t = self.bucket_count
        if fresh > self.mask * 2 + 1:
            self.mask = self.mask * 2 + 1
        source: cython.pointer(uint32_t) = cython.address(self.buckets[fresh & self.mask])
        self.buckets[fresh] = 0
        self.bucket_count += 1
        while source[0]:
            link: cython.pointer(Link) = self.link(source[0] - 1)
            if self.bucket(link.lower) == fresh:
                number: uint32_t = source[0]
                source[0] = link.chained
                link.chained = self.buckets[fresh]
                self.buckets[fresh] = number
            else:
                source = cython.address(link.chained)
        return 0

    def merge(self):
        """Take the last bucket away; its tokens go to the one that shares its lower bits."""
        self.bucket_count -= 1
        last: uint64_t = self.bucket_count
        if last <= self.mask:
            self.mask //= 2
        target: cython.pointer(uint32_t) = cython.address(self.buckets[last & self.mask])
        while target[0]:
            target = cython.address(self.link(target[0] - 1).chained)
        target[0] = self.buckets[last]
        if self.capacity > FIRST_CAPACITY and last < cython.cast(uint64_t, self.capacity) // 4:
            self.resize(self.capacity // 2)
        return 0

    def resize(self, capacity):
        """Give room for `capacity` buckets. Raise MemoryError when there is none."""
        buckets = cython.cast(cython.pointer(uint32_t), realloc(self.buckets, capacity * cython.sizeof(uint32_t)))
        if buckets is cython.NULL:
            raise MemoryError
        self.buckets = buckets
        self.capacity = capacity
        return 0

    def tokens(self) -> list[tuple[bytes, int, int, int]]:
        """Return of every token its hash, its number, the id and the end, in the order of their numbers."""
        found: list = []
        number: cython.Py_ssize_t
        for number in range(self.count):
            token: cython.pointer(Token) = self.at(number)
            mark: uint64_t[2]
            self.read(number, mark)
            found.append((cython.cast(cython.p_const_char, mark)[:16], number, token.id, token.end_s))
        return found

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that it has."""
        chunk_bytes: cython.Py_ssize_t = cython.sizeof(Chunk) + cython.sizeof(cython.p_void)
        return self.chunk_count * chunk_bytes + self.capacity * cython.sizeof(uint32_t)

    def check(self) -> None:
        """Raise AssertionError when the invariant is broken."""
        found: cython.Py_ssize_t = 0
        i: uint64_t
        for i in range(self.bucket_count):
            found_at: uint32_t = self.buckets[i]
            while found_at:
                assert self.bucket(self.link(found_at - 1).lower) == i, f"token {found_at - 1} is in a wrong bucket"
                found += 1
                found_at = self.link(found_at - 1).chained
        assert found == self.count, f"the table counts {self.count} tokens but holds {found}"
