"""The load generator: drives open, prepared connections as fast as one core can, and counts.

One epoll loop in C over non-blocking sockets. Every connection works in lock step: it sends a batch (puts, then
reserves, then deletes, as its group's programme says), waits until every reply of the batch has arrived, and goes on.
So a reserve never waits for ever (its tube saw at least as many acknowledged puts as reserves), ids are known when
they are deleted, and both servers see the same batches. Batches that are always the same are one text shared by all
connections, and replies are only checked, so that a command costs a small part of what the server pays for it.

The latency of a command is the time from handing its batch to the kernel to reading its reply.

It is strict: another reply than the expected one, a body of another length, a closed connection or a server that
answers nothing for `stall_s` ends the run with `LoadError`.
"""

import time
from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole.posix import (
    EPOLL_CLOEXEC,
    EPOLL_CTL_ADD,
    EPOLL_CTL_MOD,
    EPOLLIN,
    EPOLLOUT,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    epoll_create1,
    epoll_ctl,
    epoll_event,
    epoll_wait,
    recv,
    send,
)
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.beanpole.protocol.wire import Found, ReplyReader
from cython.cimports.benchmarks.bench.connection import Connection, GroupState
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.libc.errno import EAGAIN, EINTR, errno
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import strerror
from cython.cimports.posix.time import CLOCK_MONOTONIC, clock_gettime, timespec
from cython.cimports.posix.types import clockid_t
from cython.cimports.posix.unistd import close

from beanpole.protocol import replies

if TYPE_CHECKING:
    from benchmarks.bench.plan import Group

READ_BYTES_MAX = cython.declare(cython.Py_ssize_t, 262144)
"""Bytes taken from a socket at once."""
EVENTS_MAX = cython.declare(cython.int, 512)
WAIT_MS = cython.declare(cython.int, 200)
"""Longest wait before the stall limit and signals are looked at."""

PUT = cython.declare(cython.int, 112)  # "p", and so on: the letters of a programme
RESERVE = cython.declare(cython.int, 114)
DELETE = cython.declare(cython.int, 100)
USE = cython.declare(cython.int, 117)


class LoadError(Exception):
    """The server did not answer as it should have, or not at all."""


@cython.cfunc
@cython.exceptval(check=False)
def clock_ns(clock: clockid_t) -> cython.longlong:
    """The time of a clock, or -1 when it does not exist any more."""
    now: timespec
    if clock_gettime(clock, cython.address(now)) != 0:
        return -1
    return cython.cast(cython.longlong, now.tv_sec) * 1_000_000_000 + now.tv_nsec


@cython.cclass
class Load:
    """All groups of a scenario, on connections that are open and watch the tubes that they should.

    Owns the sockets from the first `add` on; `close` ends them.
    """

    def __init__(self, stall_s: float = 30.0):
        self.groups = []
        self.connections = []
        self.stall_ns = int(stall_s * 1e9)
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        self.read_buffer = cython.cast(cython.p_char, malloc(READ_BYTES_MAX))
        if self.epoll_fd < 0 or self.read_buffer is cython.NULL:
            raise MemoryError("no epoll descriptor or no memory for the load generator")

    def __dealloc__(self):
        free(self.read_buffer)
        if self.epoll_fd >= 0:
            close(self.epoll_fd)

    def add(self, group: Group, members: Iterable[tuple[socket.socket, Sequence[bytes]]]) -> None:
        """Adds a group; `members` are pairs of a socket and the tubes (bytes) that it names in turn."""
        state = GroupState(group)
        self.groups.append(state)
        for sock, tubes in members:
            sock.setblocking(False)
            connection = Connection(sock, state, len(self.connections), list(tubes))
            self.connections.append(connection)
            state.connections.append(connection)
            self.want(connection, False, EPOLL_CTL_ADD)

    def close(self):
        """Closes every socket."""
        connection: Connection
        for connection in self.connections:
            connection.sock.close()
        self.connections.clear()

    def fill_held(self, limit_s: float):
        """Lets every connection put and reserve until it holds as many jobs as its group says."""
        self.filling = True
        try:
            self.run(limit_s, 0, 0)
        finally:
            self.filling = False
        connection: Connection
        for connection in self.connections:
            if connection.ids_count < connection.state.held:
                raise LoadError(f"over {limit_s:g} s to have {connection.state.held} jobs reserved")

    def run(self, seconds: float, commands_max: int = 0, cpu_pid: int = 0) -> tuple[float, float]:
        """Drives the load; ends at the first batch boundary after `seconds` or `commands_max` (0: no such limit).

        With `cpu_pid`, the CPU time of that process is counted apart for each letter of the programme, which needs
        that only one connection is busy. Returns the time that it took, in seconds, and the CPU time used here.
        """
        connection: Connection
        state: GroupState
        for state in self.groups:
            state.latencies.clear()
        busy = [c for c in self.connections if cython.cast(Connection, c, typecheck=True).state.programme]
        if cpu_pid and len(busy) != 1:
            raise ValueError("CPU time by letter needs exactly one busy connection")
        self.by_letter = cpu_pid != 0
        # The kernel's name for the CPU clock of a process: its id, inverted, and 2 for "all threads, in nanoseconds".
        self.cpu_clock = ~cpu_pid << 3 | 2
        for letter in range(128):
            self.cpu_ns[letter] = self.letter_commands[letter] = 0
        self.commands = 0
        self.commands_max = commands_max
        self.stopping = False
        self.active_count = len(busy)
        used_ns = time.process_time_ns()
        start_ns: cython.longlong = clock_ns(CLOCK_MONOTONIC)
        self.now_ns = start_ns
        self.stop_at_ns = start_ns + int(seconds * 1e9)
        if self.by_letter:
            self.cpu_at_ns = clock_ns(self.cpu_clock)
        for connection in busy:
            connection.step = 0
            self.begin(connection)
        answered_at_ns: cython.longlong = start_ns
        while self.active_count > 0:
            PyErr_CheckSignals()
            if self.turn() > 0:
                answered_at_ns = self.now_ns
            elif self.now_ns - answered_at_ns > self.stall_ns:
                raise LoadError(f"no reply for {self.stall_ns / 1e9:g} s: {self.waiting_for()}")
        return (self.now_ns - start_ns) / 1e9, (time.process_time_ns() - used_ns) / 1e9

    def cpu_by_letter(self) -> dict[str, tuple[int, int]]:
        """After a run with `cpu_pid`: for each letter, the server's CPU time in ns and the number of commands."""
        letters = [i for i in range(128) if self.letter_commands[i]]
        return {chr(i): (self.cpu_ns[i], self.letter_commands[i]) for i in letters}

    def waiting_for(self) -> str:
        """What the connections wait for, in words."""
        connection: Connection
        for connection in self.connections:
            if connection.replies_left > 0:
                state = "" if connection.out_sent == connection.out_size else ", its batch is not sent completely"
                word = replies.Word(connection.expected).name
                return f"connection {connection.index} waits for {connection.replies_left} {word}{state}"
        return "no connection waits"

    def turn(self):
        """Waits for sockets that are ready and serves each once; returns how many."""
        events: epoll_event[512]
        i: cython.int
        connection: Connection
        count: cython.int
        with cython.nogil:
            count = epoll_wait(self.epoll_fd, events, EVENTS_MAX, WAIT_MS)
        self.now_ns = clock_ns(CLOCK_MONOTONIC)
        for i in range(count):
            connection = cython.cast(Connection, self.connections[events[i].data.u32], typecheck=True)
            if events[i].events & EPOLLOUT:
                self.flush(connection)
            if events[i].events & ~EPOLLOUT:
                self.receive(connection)
        return max(count, 0)

    def begin(self, connection: Connection):
        """Makes the next batch of a connection and sends it, or ends the connection's part in the run."""
        state: GroupState = connection.state
        letter: cython.int
        size: cython.int = state.in_flight
        if connection.step == 0:
            if self.now_ns >= self.stop_at_ns or (self.commands_max > 0 and self.commands >= self.commands_max):
                self.stopping = True
            if self.stopping or (self.filling and connection.ids_count >= state.held):
                self.active_count -= 1
                return 0
        if self.filling:
            size = cython.cast(cython.int, min(state.held - connection.ids_count, state.in_flight))
        letter = state.programme[connection.step]
        if letter == PUT and connection.tubes and connection.letter != USE:
            letter = USE  # a batch of its own, for the puts that follow
        else:
            connection.step += 1
        if letter == PUT:
            connection.expected = Word.INSERTED
            connection.out, connection.out_size = state.puts, state.put_bytes * size
        elif letter == RESERVE:
            connection.expected = Word.RESERVED
            connection.out, connection.out_size = state.reserves, state.reserve_bytes * size
        elif letter == DELETE:
            connection.expected = Word.DELETED
            size = 0 if self.filling else connection.deletable()
            connection.write_deletes(size)
        else:
            connection.expected = Word.USING
            size = 1
            connection.write_use()
        connection.letter = letter
        connection.batch = connection.replies_left = size
        if connection.step == len(state.programme):
            connection.step = 0
        if connection.replies_left == 0:
            return self.begin(connection)
        self.commands += connection.replies_left
        connection.out_sent = 0
        connection.sent_at_ns = clock_ns(CLOCK_MONOTONIC)
        return self.flush(connection)

    def count_letter(self, letter, commands):
        """Books the CPU time that the server used since the last batch to this one's letter."""
        at_ns: cython.longlong = clock_ns(self.cpu_clock)
        if at_ns < 0:
            raise LoadError("the CPU time of the server cannot be read")
        self.cpu_ns[letter] += at_ns - self.cpu_at_ns
        self.cpu_at_ns = at_ns
        self.letter_commands[letter] += commands
        return 0

    def flush(self, connection: Connection):
        """Sends what is left of the batch, and asks for writability only while the socket is full."""
        done: cython.Py_ssize_t
        while connection.out_sent < connection.out_size:
            done = send(
                connection.fd,
                connection.out + connection.out_sent,
                connection.out_size - connection.out_sent,
                MSG_NOSIGNAL | MSG_DONTWAIT,
            )
            if done >= 0:
                connection.out_sent += done
            elif errno == EAGAIN:
                break
            elif errno != EINTR:
                raise LoadError(f"sending failed on connection {connection.index}: {strerror(errno).decode()}")
        if (connection.out_sent < connection.out_size) != connection.wants_write:
            self.want(connection, not connection.wants_write, EPOLL_CTL_MOD)
        return 0

    def want(self, connection: Connection, write, operation):
        """Sets the events for which epoll wakes us."""
        event: epoll_event
        event.events = EPOLLIN | EPOLLOUT if write else EPOLLIN
        event.data.u32 = connection.index
        if epoll_ctl(self.epoll_fd, operation, connection.fd, cython.address(event)) != 0:
            raise LoadError(f"epoll_ctl failed: {strerror(errno).decode()}")
        connection.wants_write = write
        return 0

    def receive(self, connection: Connection):
        """Reads once, checks every reply that is complete, and begins the next batch after the last."""
        state: GroupState = connection.state
        reader: ReplyReader = connection.reader
        before: cython.int = connection.replies_left
        got: cython.Py_ssize_t = recv(connection.fd, self.read_buffer, READ_BYTES_MAX, MSG_DONTWAIT)
        if got < 0:
            if errno == EAGAIN or errno == EINTR:
                return 0
            raise LoadError(f"receiving failed on connection {connection.index}: {strerror(errno).decode()}")
        if got == 0:
            raise LoadError(f"the server closed a connection: {self.waiting_for()}")
        found: Found
        reader.append(self.read_buffer, got)
        while reader.next(cython.address(found)):
            self.check(connection, cython.address(found))
            if found.word == state.word_with_id:
                connection.keep_id(found.number)
        if connection.replies_left < before:
            now_ns: cython.longlong = clock_ns(CLOCK_MONOTONIC)
            self.now_ns = now_ns
            state.latencies.add(now_ns - connection.sent_at_ns, before - connection.replies_left)
            if connection.replies_left == 0:
                if self.by_letter:
                    self.count_letter(connection.letter, connection.batch)
                return self.begin(connection)
        return 0

    def check(self, connection: Connection, found):
        """Counts a reply if it is the expected one; otherwise the run is over."""
        body_bytes: cython.longlong = connection.state.body_bytes
        if found.word == connection.expected and connection.replies_left > 0:
            if found.word != Word.RESERVED or found.body_bytes == body_bytes:
                connection.replies_left -= 1
                return 0
        got = replies.Word(found.word).name
        if found.word == Word.RESERVED:
            got += f" with a body of {found.body_bytes} bytes"
        wanted = replies.Word(connection.expected).name if connection.replies_left > 0 else "nothing"
        if connection.expected == Word.RESERVED:
            wanted += f" with a body of {body_bytes}"
        raise LoadError(f"connection {connection.index} got {got}, expected {wanted}")
