"""One connection of the load generator, and what the connections of a group share. No I/O.

`GroupState` holds the batches that are always the same (puts, reserves); a `Connection` writes those that differ each
time (deletes, `use`) into its own buffer. `Load` sends them and books the replies.
"""

from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole.protocol.replies import ReplyBuffer, Word
from cython.cimports.beanpole.protocol.wire import ReplyReader
from cython.cimports.benchmarks.bench.histogram import Histogram
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.libc.stdlib import free, malloc

if TYPE_CHECKING:
    from benchmarks.bench.plan import Group


@cython.cclass
class GroupState:
    """What all connections of a group share: the texts of its batches and the histogram of its latencies."""

    def __init__(self, group: Group):
        if not set(group.programme) <= set("prd") or group.in_flight < 1 or group.held < 0:
            raise ValueError(f"not a load that can be driven: {group}")
        if "d" in group.programme and "p" not in group.programme:
            raise ValueError(f"a programme that deletes has to put first: {group.programme!r}")
        self.group = group
        self.latencies = Histogram()
        self.connections = []
        self.programme = group.programme.encode()
        self.in_flight = group.in_flight
        self.body_bytes = group.body_bytes
        self.held = group.held
        self.word_with_id = Word.RESERVED if "r" in group.programme else Word.INSERTED
        body = b"x" * group.body_bytes
        put = b"put 1024 0 86400 %d\r\n%s\r\n" % (group.body_bytes, body)
        self.put_bytes, self.puts = len(put), put * group.in_flight
        self.reserve_bytes, self.reserves = 9, b"reserve\r\n" * group.in_flight


@cython.cclass
class Connection:
    """One socket, and where it stands in its group's programme.

    - `replies_left` replies to the current batch are to come, each with the word `expected`;
    - `ids_count` never exceeds `held` + `in_flight` of its group.
    """

    def __init__(self, sock: socket.socket, state: GroupState, index: int, tubes: Sequence[bytes]):
        self.sock = sock
        self.state = state
        self.reader = ReplyReader()
        self.fd = sock.fileno()
        self.index = index
        self.tubes = tubes
        self.ids_capacity = state.held + state.in_flight
        self.ids = cython.cast(cython.pointer[uint64_t], malloc(self.ids_capacity * cython.sizeof(uint64_t)))
        self.text = ReplyBuffer()
        if self.ids is cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.ids)

    def keep_id(self, job_id):
        """Appends an id to the ring; a full ring (a programme without deletes) keeps what it has."""
        at: cython.Py_ssize_t = self.ids_first + self.ids_count
        if self.ids_count < self.ids_capacity:
            self.ids[at if at < self.ids_capacity else at - self.ids_capacity] = job_id
            self.ids_count += 1

    def deletable(self):
        """How many jobs its next batch of deletes takes: what is above the number to hold."""
        return cython.cast(cython.int, max(min(self.ids_count - self.state.held, self.state.in_flight), 0))

    def write_deletes(self, count):
        """Makes deletes of the oldest `count` ids the batch, and forgets them."""
        self.text.buffer.size = 0
        for _ in range(count):
            self.text.add(b"delete ", 7)
            self.text.add_number(self.ids[self.ids_first])
            self.text.end()
            self.ids_first += 1
            if self.ids_first == self.ids_capacity:
                self.ids_first = 0
        self.ids_count -= count
        return self.send_text()

    def write_use(self):
        """Makes a `use` of its next tube the batch."""
        self.text.buffer.size = 0
        self.text.add_bytes(b"use %s\r\n" % self.tubes[self.tube_at])
        self.tube_at = (self.tube_at + 1) % len(self.tubes)
        return self.send_text()

    def send_text(self):
        """Makes its own text the batch."""
        self.out, self.out_size = self.text.buffer.data, self.text.buffer.size
        return 0
