"""A connection: a decoder, a session, and which of its output may leave. It has no socket.

The poller feeds it what a socket receives and sends what it lets go; tests and other transports do the same with bytes.
Commands run one after the other until one of these holds: input is used up, the session waits, the turn's share of
commands is used up, or so much output is unsent that a client that does not read would fill our memory.

Output is held until it is durable (:meth:`Connection.sendable`): a reply is a promise, so it leaves when the records
that its own command wrote are on disk, and all that was recorded before it if it tells of a job or that there is none:
nobody may see what a crash could take back. Output of a turn is held as a whole; what comes behind it waits with it.
"""

import cython
from cython.cimports.beanpole.engine.engine import Engine, Outcome
from cython.cimports.beanpole.protocol.commands import Command, Verb
from cython.cimports.beanpole.protocol.decoder import Decoder
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t

from beanpole import limits

COMMANDS_PER_TURN = cython.declare(cython.int, limits.COMMANDS_PER_TURN)
TUBES_PER_COMMAND = cython.declare(cython.int, limits.TUBES_PER_COMMAND)
JOBS_PER_COMMAND = cython.declare(uint32_t, limits.JOBS_PER_COMMAND)
OUTPUT_BYTES_PAUSE = cython.declare(cython.Py_ssize_t, limits.OUTPUT_BYTES_PAUSE)

current = cython.declare(Command, Command())
"""The command that is being run. Nobody keeps it, so one serves every connection."""


@cython.cclass
class Connection:
    """One client. The fields stand in ``connection.pxd``."""

    def __init__(self, engine: Engine, now_ns: int64_t, one_reply_per_send: cython.bint = False):
        self.engine = engine
        self.session = engine.open_session(now_ns, self)
        self.decoder = Decoder(engine.body_bytes_max)
        self.hungry = True
        self.commands_left = COMMANDS_PER_TURN
        self.fd = -1
        self.reply_ends = [] if one_reply_per_send else None

    def run(self, now_ns):
        """Run what has arrived, as far as it may run in this turn."""
        session = self.session
        records = self.engine.records
        index_before: uint64_t = records.index
        self.pending = False
        self.choked = False
        self.hungry = False
        if session.kick_left:
            self.engine.go_on(now_ns, session)
            self.commands_left = 0
            self.end_reply()
        while not session.waiting and not session.quitting:
            if session.kick_left:
                self.pending = True
                break
            if session.out.size - session.out.sent >= OUTPUT_BYTES_PAUSE:
                self.choked = True
                break
            if self.commands_left <= 0 and self.decoder.at < self.decoder.end:
                self.pending = True
                break
            if not self.decoder.next(current):
                self.hungry = True
                break
            self.commands_left -= self.cost()
            kicked: uint32_t = session.kicked_count
            if self.engine.apply(now_ns, session, current) == Outcome.AGAIN:
                self.decoder.unread_put()
                self.pending = True
                break
            if session.kicked_count != kicked:
                self.commands_left -= session.kicked_count // JOBS_PER_COMMAND
            self.end_reply()
        self.decoder.settle()
        if records.index != index_before:
            self.depends_on = records.index
        self.finished = session.quitting or (self.input_ended and self.hungry)
        return 0

    def cost(self):
        """Return what the current command costs of the turn's share: a reserve looks at every tube that is watched."""
        if current.verb == Verb.RESERVE or current.verb == Verb.RESERVE_WITH_TIMEOUT:
            return 1 + cython.cast(cython.int, len(self.session.watches)) // TUBES_PER_COMMAND
        return 1

    def end_reply(self):
        """Remember where a reply ends, where replies are to be sent one by one."""
        if self.reply_ends is None:
            return 0
        end: uint64_t = self.sent_bytes + (self.session.out.size - self.session.out.sent)
        count: cython.Py_ssize_t = len(self.reply_ends)
        last: uint64_t = self.reply_ends[count - 1] if count else self.sent_bytes
        if last != end:
            self.reply_ends.append(end)
        return 0

    def stop_input(self, now_ns):
        """Tell that no more bytes come: a session can't wait any more, and the end comes when all input has run."""
        self.input_ended = True
        self.engine.half_close(now_ns, self.session)
        return self.run(now_ns)

    def sendable(self, durable_index):
        """Return how many bytes at the front of ``session.out`` may be sent, now that the log is durable so far."""
        out = self.session.out
        self.depends_on = max(self.depends_on, self.session.read_index)
        end: uint64_t = self.sent_bytes + (out.size - out.sent)
        if self.held is None and self.depends_on <= durable_index:
            self.free_to = end
            return out.size - out.sent
        if self.held is None:
            self.held = []
        last_index: uint64_t = 0
        if self.held:
            last_index, last_end = self.held.pop()
            self.held.append((last_index, end if self.depends_on == last_index else last_end))
        if self.depends_on > last_index:
            self.held.append((self.depends_on, end))
        while self.held and self.held[0][0] <= durable_index:
            self.free_to = self.held.pop(0)[1]
        if not self.held:
            self.held = None
            self.free_to = end
        return self.free_to - self.sent_bytes

    def sent(self, size):
        """Forget `size` bytes of output: they are sent."""
        self.sent_bytes += size
        self.session.out.consume(size)

    # --- the same for those who have bytes and no socket --------------------------------------------------------------

    def receive(self, now_ns: int64_t, data: bytes) -> None:
        """Take input and run it."""
        self.commands_left = COMMANDS_PER_TURN
        self.decoder.receive(data)
        if not self.finished and not self.closed:
            self.run(now_ns)

    def resume(self, now_ns: int64_t) -> None:
        """Go on after a reply came, in the next turn, or when output was taken."""
        self.commands_left = COMMANDS_PER_TURN
        self.end_reply()
        if not self.finished and not self.closed:
            self.run(now_ns)

    def half_close(self, now_ns: int64_t) -> None:
        """Tell that no more input comes."""
        if not self.closed:
            self.stop_input(now_ns)

    def close(self, now_ns: int64_t) -> None:
        """Close the session: what it holds becomes ready. Closing again does nothing."""
        if not self.closed:
            self.closed = True
            self.engine.close_session(now_ns, self.session)

    def take_output(self, durable_index: uint64_t = 2**63) -> bytes:
        """Return the output that may be sent, as if it had been."""
        size: cython.Py_ssize_t = self.sendable(durable_index)
        out = self.session.out
        taken: bytes = out.data[out.sent : out.sent + size] if size else b""
        self.sent(size)
        return taken
