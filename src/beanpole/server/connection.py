"""A connection: a decoder, a session, and which of its output may leave. It has no socket but a transport.

A transport has two verbs: it is woken when the connection takes input again, and it sends. A socket of the epoll is
one; a TLS stream, or what a client of another node sends, can be one as well. Commands run one after the other until
one of these holds: input is used up, the session waits, the connection's share of the turn is used up, or so much
output is unsent that a client that does not read would fill our memory.

Output is held until it is durable (:meth:`Connection.sendable`): a reply is a promise, so it leaves when the records
that its own command wrote are on disk, and all that was recorded before it if it names a job or says that there is
none: nobody may see what a crash could take back. Output of a turn is held as a whole; what comes behind it waits
with it.
"""

import cython
from cython.cimports.beanpole.engine.commands.reserve import cancel
from cython.cimports.beanpole.engine.commands.table import rows
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.state.queue import Outcome
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.protocol.commands import Command
from cython.cimports.beanpole.protocol.decoder import Decoder
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.server import limits

SHARE_COST_NS = cython.declare(int64_t, limits.SHARE_COST_NS)
WATCH_COST_NS = cython.declare(int64_t, limits.WATCH_COST_NS)
CANCEL_COST_NS = cython.declare(int64_t, limits.CANCEL_COST_NS)
MOVED_COST_NS = cython.declare(int64_t, limits.MOVED_COST_NS)
INPUT_BYTE_COST_NS = cython.declare(int64_t, limits.INPUT_BYTE_COST_NS)
OUTPUT_COST_SHIFT = cython.declare(cython.int, limits.OUTPUT_COST_SHIFT)
FIRST_LINE_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.FIRST_LINE_BYTES_MAX)
OUTPUT_BYTES_PAUSE = cython.declare(cython.Py_ssize_t, limits.OUTPUT_BYTES_PAUSE)

current = cython.declare(Command, Command())
"""The command that is being run. Nobody keeps it, so one serves every connection."""


@cython.cclass
class Transport:
    """The way to one client: this one leads nowhere, so that the output stays until somebody takes it.

    A compiled transport overrides ``send``, one in Python ``send_bytes``. The fields stand in ``connection.pxd``.
    """

    def wake(self, now_ns, connection):
        """Give the connection input, if there is some: it has used up what it had, and waits for nothing else."""
        return 0

    def send(self, data, size):
        """Send bytes; return how many were taken, or -1 when nobody is at the other end."""
        return self.send_bytes(data[:size])

    def send_bytes(self, data):
        """Do what `send` does."""
        return 0

    def peer(self) -> str:
        """Return who is at the other end, for people; empty: nobody knows."""
        return ""

    def via(self) -> str:
        """Return by which link it has come, for people; empty: by none."""
        return ""

    def meet(self, connection):
        """Look at what has come first where there are users, and take an `auth` out of it; return whether it is a link.

        A command that is not all there stays for the decoder.
        """
        decoder = connection.decoder
        there: cython.Py_ssize_t
        taken: cython.Py_ssize_t = 1
        while taken > 0 and decoder.at < decoder.end:  # behind an `auth` may come a link
            there = min(decoder.end - decoder.at, FIRST_LINE_BYTES_MAX + 1)
            taken = self.entry.first_line(connection, decoder.input[decoder.at : decoder.at + there])
            decoder.at += max(taken, 0)
        if connection.session.quitting:
            self.fresh = False
            decoder.at = decoder.end
            return False
        self.fresh = taken != 0
        return taken < 0 and self.entry.is_link

    def linger(self, connection):
        """Let the end of a worker's connection wait for the ends of its others; False: there is nothing to wait for."""
        return False

    def close(self):
        """Close: the session has ended, and all of its output that could be sent is sent."""
        return 0


@cython.cclass
class Connection:
    """One client. The fields stand in ``connection.pxd``."""

    def __init__(
        self,
        engine: Engine,
        now_ns: int64_t,
        one_reply_per_send: cython.bint = False,
        transport: Transport = None,
        own: cython.bint = False,
        user: User = None,
        served: cython.int = 0,
    ):
        self.engine = engine
        self.transport = Transport() if transport is None else transport
        self.session = engine.open_session(now_ns, self, own, user, served)
        self.decoder = Decoder(engine.body_bytes_max, engine.extensions | served)
        self.hungry = True
        self.light = True
        self.share_ns = SHARE_COST_NS
        self.reply_ends = [] if one_reply_per_send else None

    def run(self, now_ns):
        """Run what has arrived, as far as it may run in this turn."""
        session = self.session
        records = self.engine.records
        index_before: uint64_t = records.index
        self.pending = False
        self.stalled = False
        self.choked = False
        self.hungry = False
        # A large body alone can cost more than a share to receive: one command runs all the same, while its bytes lie
        # where they arrived.
        ran: cython.bint = False
        while not session.quitting and (not session.waiting or self.take_cancel()):
            unsent_bytes: cython.Py_ssize_t = session.out.buffer.size - session.out.buffer.start
            if unsent_bytes >= OUTPUT_BYTES_PAUSE:
                self.choked = True
                break
            unfinished: cython.bint = session.work is not None
            if ran and self.share_ns <= 0 and (unfinished or self.decoder.at < self.decoder.end):
                self.pending = True
                break
            outcome: cython.int
            if unfinished:
                outcome = self.engine.go_on(now_ns, session)
            else:
                if not self.decoder.next(current):
                    self.hungry = True
                    break
                row = cython.address(rows[cython.cast(cython.int, current.verb)])
                self.share_ns -= row.cost_ns
                if row.looks and session.heads is None:
                    self.share_ns -= len(session.watches) * WATCH_COST_NS
                outcome = self.engine.apply(now_ns, session, current)
                if outcome == Outcome.AGAIN:
                    self.decoder.unread()
            if session.moved_count:
                self.share_ns -= session.moved_count * MOVED_COST_NS
                session.moved_count = 0
            if outcome == Outcome.AGAIN:
                self.pending = self.stalled = True
                break
            self.share_ns -= (session.out.buffer.size - session.out.buffer.start - unsent_bytes) >> OUTPUT_COST_SHIFT
            if self.reply_ends is not None:
                self.end_reply()
            ran = True
        self.decoder.settle()
        if records.index != index_before:
            self.depends_on = records.index
        self.finished = session.quitting or (self.input_ended and self.hungry)
        return 0

    def take_cancel(self):
        """End the waiting of the session if a cancel-reserve comes next; False: it waits on.

        Nothing else is decoded while it waits. Input is taken until it is clear that it is something else.
        """
        taken: cython.int = self.decoder.take_cancel()
        if taken <= 0:
            self.hungry = taken < 0
            return False
        if self.session.heads is None:
            self.share_ns -= len(self.session.watches) * CANCEL_COST_NS
        cancel(self.engine, self.session)
        self.end_reply()
        self.session.out.word(Word.CANCELLED)
        self.end_reply()
        return True

    def end_reply(self):
        """Remember where a reply ends, where replies are to be sent one by one."""
        if self.reply_ends is None:
            return 0
        end: uint64_t = self.sent_bytes + (self.session.out.buffer.size - self.session.out.buffer.start)
        count: cython.Py_ssize_t = len(self.reply_ends)
        last: uint64_t = self.reply_ends[count - 1] if count else self.sent_bytes
        if last != end:
            self.reply_ends.append(end)
        return 0

    def stop_input(self, now_ns):
        """Note that no more bytes come: a session can't wait any more, and the end comes when all input has run."""
        self.input_ended = True
        self.engine.half_close(now_ns, self.session)
        return self.run(now_ns)

    def sendable(self, durable_index):
        """Return how many bytes at the front of ``session.out`` may be sent, now that the log is durable so far."""
        out = self.session.out
        self.depends_on = max(self.depends_on, self.session.read_index)
        end: uint64_t = self.sent_bytes + (out.buffer.size - out.buffer.start)
        if self.held is None and self.depends_on <= durable_index:
            self.free_to = end
            return out.buffer.size - out.buffer.start
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
        self.sent_bytes += size
        self.session.out.consume(size)

    # --- for who decides whose it is ----------------------------------------------------------------------------------

    def belong_to(self, user: User) -> None:
        """Be this user's from here on, and say so: the client has shown who it is, and has run no command yet."""
        self.engine.assign(self.session, user)
        self.session.out.name(Word.AUTHENTICATED, user.name)

    def refuse(self, *, knows_word: bool) -> None:
        """Answer that the client has not shown who it is, in an old word for an old client, and run nothing of its."""
        self.session.out.word(Word.NOT_AUTHENTICATED if knows_word else Word.UNKNOWN_COMMAND)
        self.session.quitting = True

    # --- for those who have bytes -------------------------------------------------------------------------------------

    def feed(self, now_ns: int64_t, data: bytes) -> None:
        """Take input from a transport that was woken, and run it within the share of the turn."""
        self.decoder.receive(data)
        self.share_ns -= len(data) * INPUT_BYTE_COST_NS
        if not self.finished and not self.closed:
            self.run(now_ns)

    def receive(self, now_ns: int64_t, data: bytes) -> None:
        """Take input and run it."""
        self.share_ns = SHARE_COST_NS
        self.decoder.receive(data)
        if not self.finished and not self.closed:
            self.run(now_ns)

    def resume(self, now_ns: int64_t) -> None:
        """Go on after a reply came, in the next turn, or when output was taken."""
        self.share_ns = SHARE_COST_NS
        self.end_reply()
        if not self.finished and not self.closed:
            self.run(now_ns)

    def half_close(self, now_ns: int64_t) -> None:
        if not self.closed:
            self.stop_input(now_ns)

    def close(self, now_ns: int64_t) -> None:
        """Close the session: what it holds becomes ready. Closing again does nothing."""
        if not self.closed:
            self.closed = True
            self.engine.close_session(now_ns, self.session, self.transport.cut)

    def take_output(self, durable_index: uint64_t = 2**63) -> bytes:
        """Return the output that may be sent, as if it had been."""
        size: cython.Py_ssize_t = self.sendable(durable_index)
        out = self.session.out
        taken: bytes = out.buffer.data[out.buffer.start : out.buffer.start + size] if size else b""
        self.sent(size)
        return taken
