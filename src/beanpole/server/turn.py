"""A turn: what happens between two waits for the outside world, whatever the clients are connected through.

1. Read the clock, once; from here on the time is an argument. Who runs the turn does it: nothing in here has a clock.
   It tells the engine by how much the wall clock is ahead, too, so a wall clock that is set is seen by the next turn.
2. Let the engine do what is due (:meth:`Turn.begin`).
3. Serve the connections that have something to run: for half of the turn those to which something has just happened
   and that used little when they were last served, then those that used more. Where connections have users, this goes
   for each user's part of the turn. Sessions that others woke go on with what they have buffered.
4. Give the log the records of the turn.
5. Send what is durable, once for each connection; the rest is held until the log says so (:meth:`Turn.send_held`).
6. Read the clock again, which shows how long the turn took; who runs the turn does that, too (:meth:`Turn.note_end`).

A turn is bounded: each command has a cost in nanoseconds, measured once and fixed (``server/limits.py``), a connection
has a share of it, and so has the turn over all connections. Who was not served keeps its place for the next turn. So a
client that asks for little now and then waits for about one turn, however many others flood the server.

A turn knows no descriptor. A connection is fed and emptied by its :class:`~beanpole.server.connection.Transport`.
"""

from typing import TYPE_CHECKING

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.server.connection import Connection, Transport
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memcpy

from beanpole.protocol.commands import COMMAND_KEYS, EXTENSION_KEYS
from beanpole.server import limits
from beanpole.server.observer import SlowTurn

if TYPE_CHECKING:
    from beanpole.log.log import Log

TURN_COST_NS = cython.declare(int64_t, limits.TURN_COST_NS)
SHARE_COST_NS = cython.declare(int64_t, limits.SHARE_COST_NS)
PART_COST_NS = cython.declare(int64_t, limits.PART_COST_NS)
SHARED_TURNS = cython.declare(cython.int, limits.SHARED_TURNS)
LIGHT_COST_NS = cython.declare(int64_t, limits.LIGHT_COST_NS)
SEND_BYTE_COST_NS = cython.declare(int64_t, limits.SEND_BYTE_COST_NS)
MOVED_COST_NS = cython.declare(int64_t, limits.MOVED_COST_NS)
SERVE_COST_NS = cython.declare(int64_t, limits.SERVE_COST_NS)
SLOW_TURN_NS = cython.declare(int64_t, limits.SLOW_TURN_NS)


def nothing() -> None:
    """Do nothing: whoever runs the turns looks at :attr:`Turn.busy`."""


@cython.cclass
class Line:
    """Connections of a user that have something to run, where connections have users. See ``turn.pxd``."""


@cython.cclass
class Turn:
    """The turns of one server, one after the other. The fields stand in ``turn.pxd``."""

    def __init__(self, engine: Engine, log: Log, one_reply_per_send: cython.bint = False):
        self.engine = engine
        self.log = log
        engine.describe = self.describe
        engine.via = self.via
        log.on_pause = self.note_pause
        self.waited_ns = {}
        self.lines = {}
        self.share_ns = SHARE_COST_NS
        self.one_reply_per_send = one_reply_per_send
        self.run_soon = nothing
        self.arrived = []
        self.queue = []
        self.sending = []
        self.held = []
        self.stalled = []
        self.leaving = []

    # --- for transports that are not compiled -------------------------------------------------------------------------

    def open(
        self,
        now_ns: int64_t,
        transport: Transport,
        own: cython.bint = False,
        user: User = None,
        served: cython.int = 0,
    ) -> Connection:
        """Open a connection; one of the server's own is not counted among those of clients.

        Where connections have users, it is that of `user`, and serves what `served` adds (`ACCESS_FORMATS`).
        """
        return Connection(self.engine, now_ns, self.one_reply_per_send, transport, own, user, served)

    def ready(self, connection: Connection) -> None:
        """Serve a connection in the next turn: its transport has input, or can take output again."""
        self.add_arrived(connection)
        self.request()

    def end(self, now_ns: int64_t, connection: Connection) -> None:
        """Close a connection whose client is gone, whatever it has left. Closing again does nothing."""
        self.drop(now_ns, connection)
        self.request()

    def run(self, now_ns: int64_t) -> None:
        """Run one turn."""
        if not self.stopped:
            self.begin(now_ns)
            self.finish(now_ns)

    def describe(self, owner: object) -> str:
        """Return what the engine can't know: who a session's connection leads to; of None, what the log waits for."""
        if owner is None:
            return self.log.obstacle()
        return cython.cast(Connection, owner, typecheck=True).transport.peer()

    def via(self, owner: object) -> str:
        """Return the link over which a session's connection has come; empty: none."""
        return cython.cast(Connection, owner, typecheck=True).transport.via()

    @property
    def busy(self) -> bool:
        return self.has_waiting()

    def stop(self) -> None:
        """Run no more turns and send nothing more: something failed, and nothing can be promised."""
        self.stopped = True

    # --- a turn -------------------------------------------------------------------------------------------------------

    def begin(self, now_ns):
        """Begin a turn: the engine does what is due."""
        self.requested = False
        self.number += 1
        self.began_ns = now_ns
        self.due_count = self.engine.tick(now_ns)
        # What became due leaves at least the other half of the turn, which those have that use little.
        self.cost_left_ns = TURN_COST_NS - min(self.due_count * MOVED_COST_NS, TURN_COST_NS // 2)
        self.cost_before_ns = self.cost_left_ns
        while self.leaving:
            connection: Connection = cython.cast(Connection, self.leaving[0], typecheck=True)
            if connection.session.reserved.count:
                break
            connection.transport.close()
            del self.leaving[0]
        return 0

    def finish(self, now_ns):
        """Serve the connections that have something to run, and send what is durable."""
        if self.has_waiting():
            self.serve_waiting(now_ns)
        if self.engine.woken:
            self.serve_woken(now_ns)
        self.commit(now_ns)
        if self.has_waiting():
            self.request()
        return 0

    def has_waiting(self):
        """Whether connections have something to run."""
        return len(self.arrived) > 0 or len(self.queue) > 0 or len(self.lines) > 0

    def serve_waiting(self, now_ns):
        """Serve those who use little for half of the turn, then those who use more, then the rest of the first."""
        if self.by_user and (self.lines or self.shared_turns_left or self.are_several_users()):
            return self.serve_users(now_ns)
        arrived = self.arrived
        queue = self.queue
        self.arrived = []
        self.queue = []
        # What became due is paid for by those who use more.
        arrived = self.serve_list(now_ns, arrived, self.cost_left_ns - TURN_COST_NS // 2)
        queue = self.serve_list(now_ns, queue, 0)
        arrived = self.serve_list(now_ns, arrived, 0)
        if arrived:
            self.arrived = arrived + self.arrived
        if queue:
            self.queue = queue + self.queue
        return 0

    def serve_users(self, now_ns):
        """Do the same for each user in its part of the turn, which is equal: a deficit round robin.

        So a thousand connections of one weigh as much as one of another. Beside others a part is short, as who waits
        for answers has little to run in each turn; what is taken beyond it counts in the next. Who was not reached is
        the first in the next turn.
        """
        arrived = self.arrived
        queue = self.queue
        self.arrived = []
        self.queue = []
        self.line_up(arrived, True)
        self.line_up(queue, False)
        if len(self.lines) > 1:
            self.shared_turns_left = SHARED_TURNS
        elif self.shared_turns_left:
            self.shared_turns_left -= 1
        part_ns: int64_t = PART_COST_NS if self.shared_turns_left else TURN_COST_NS
        self.share_ns = min(part_ns, SHARE_COST_NS)
        before_ns: int64_t
        stop_ns: int64_t
        for user, each in list(self.lines.items()):
            if self.cost_left_ns <= 0:
                break
            line: Line = cython.cast(Line, each, typecheck=True)
            del self.lines[user]
            before_ns = self.cost_left_ns
            line.left_ns = min(line.left_ns + part_ns, part_ns)
            stop_ns = max(before_ns - line.left_ns, 0)
            line.arrived = self.serve_list(now_ns, line.arrived, max(before_ns - part_ns // 2, stop_ns))
            line.queue = self.serve_list(now_ns, line.queue, stop_ns)
            line.arrived = self.serve_list(now_ns, line.arrived, stop_ns)
            line.left_ns -= before_ns - self.cost_left_ns
            if line.arrived or line.queue or line.left_ns < 0:
                self.lines[user] = line
        return 0

    def are_several_users(self):
        """Whether connections of more than one user have something to run."""
        connection: Connection
        first: Connection = None
        for waiting in (self.arrived, self.queue):
            for connection in waiting:
                if first is None:
                    first = connection
                elif connection.session.user is not first.session.user:
                    return True
        return False

    def line_up(self, waiting, uses_little):
        """Put connections into the lines of their users; a user that has nothing to run yet gets one."""
        connection: Connection
        line: Line = None
        user: User = None
        for connection in waiting:
            if line is None or connection.session.user is not user:
                user = connection.session.user
                line = self.lines.get(user)
                if line is None:
                    line = self.lines[user] = Line()
                    line.arrived = []
                    line.queue = []
            (line.arrived if uses_little else line.queue).append(connection)
        return 0

    def serve_list(self, now_ns, waiting, until_ns):
        """Serve connections until no more than `until_ns` is left of the turn; return those that were not served."""
        at: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = len(waiting)
        while at < count and self.cost_left_ns > until_ns:
            self.serve(now_ns, cython.cast(Connection, waiting[at], typecheck=True))
            at += 1
        del waiting[:at]  # a copy of the rest would touch each of thousands
        return waiting

    def serve(self, now_ns, connection):
        """Run what a connection has buffered, then what its transport has for it."""
        if connection.closed:
            return 0
        connection.queued = False
        transport = connection.transport
        if connection.turn != self.number:
            connection.turn = self.number
            # A burst of clients that nobody knows yet must not take a whole share each before a quiet one has its turn.
            connection.share_ns = LIGHT_COST_NS if connection.light else self.share_ns
        share_ns: int64_t = connection.share_ns
        if not connection.hungry and not connection.finished:
            connection.run(now_ns)
        takes: cython.bint = connection.hungry or (transport.reads_ahead and connection.session.waiting)
        if takes and transport.readable and not connection.finished:
            transport.wake(now_ns, connection)
        if not transport.blocked:
            # What is unsent leaves in this turn; clients that read a megabyte each at the same time must not make one
            # turn of that.
            out = connection.session.out
            connection.share_ns -= (out.buffer.size - out.buffer.start) * SEND_BYTE_COST_NS
        cost_ns: int64_t = share_ns - connection.share_ns
        self.cost_left_ns -= SERVE_COST_NS + cost_ns
        connection.light = cost_ns < LIGHT_COST_NS
        if cost_ns > self.heaviest_cost_ns:
            self.heaviest_cost_ns = cost_ns
            self.heaviest = connection
        if transport.gone or (connection.finished and connection.session.out.buffer.size == 0):
            # Other connections of a worker that is killed wait for jobs until their ends arrive, too: each would be
            # given the jobs of this one, and lose them.
            session = connection.session
            lingers: cython.bint = session.keep is not None and not session.keep.always and session.reserved.count > 0
            if lingers and not session.quitting and not transport.cut and transport.linger(connection):
                connection.finished = True
                return 0
            # At once: whoever is served behind it in this turn sees that its jobs are ready.
            return self.drop(now_ns, connection)
        if connection.stalled:
            connection.queued = True
            self.stalled.append(connection)
        elif connection.pending or (connection.hungry and transport.readable and not connection.finished):
            self.add_queue(connection)
        return self.add_sending(connection)

    def serve_woken(self, now_ns):
        """Let the sessions that got a reply from others go on, and those that they wake.

        This ends: a session that goes on uses up its share of the turn, and when the turn has done enough, those that
        remain go on in the next one.
        """
        connection: Connection
        while self.engine.woken:
            for session in self.engine.take_woken():
                owner = cython.cast(Session, session, typecheck=True).owner
                if owner is None:
                    continue
                connection = cython.cast(Connection, owner, typecheck=True)
                connection.end_reply()
                connection.finished |= connection.session.quitting  # its client has come back by another one
                if self.cost_left_ns > 0 and not self.by_user:
                    self.serve(now_ns, connection)
                    continue
                if not connection.hungry or connection.transport.readable or not self.by_user:
                    self.add_arrived(connection)  # in its user's part of the next turn
                self.add_sending(connection)
        return 0

    def add_arrived(self, connection):
        """Serve a connection to which something has happened, before the others if it used little when last served."""
        if not connection.queued:
            connection.queued = True
            (self.arrived if connection.light else self.queue).append(connection)
        return 0

    def add_queue(self, connection):
        """Serve a connection again in a later turn: it has used up its share."""
        if not connection.queued:
            connection.queued = True
            self.queue.append(connection)
        return 0

    def add_sending(self, connection):
        if not connection.sending:
            connection.sending = True
            self.sending.append(connection)
        return 0

    def request(self):
        """Ask for another turn, once."""
        if not self.requested and not self.stopped:
            self.requested = True
            self.run_soon()
        return 0

    # --- persist, then send -------------------------------------------------------------------------------------------

    def commit(self, now_ns):
        """Give the log the turn's records, and send what is durable."""
        records = self.engine.records
        if records.index != self.appended_index or records.loose or records.waits:
            self.appended_index = records.index
            self.log.append_turn()
        if self.stalled and not self.engine.records.waits:
            self.queue += self.stalled
            self.stalled = []
        sending = self.sending
        if sending:
            if self.durable_index < records.index:
                self.durable_index = self.log.durable()
            # Asked after the commands ran: what they read was true while nobody else could lead.
            floor_index: uint64_t = self.log.read_floor if records.wants_reservations else 0
            self.sending = []
            for each in sending:
                connection: Connection = cython.cast(Connection, each, typecheck=True)
                connection.sending = False
                if not connection.session.own:  # which may show what a leader sees that can't prove that it leads
                    connection.depends_on = max(connection.depends_on, floor_index)
                self.flush(now_ns, connection)
        return 0

    def send_held(self, now_ns: int64_t) -> None:
        """Send what was held, as far as it is durable now. The log asks for this when its durable index moves."""
        if self.stopped:
            return
        self.began_ns = now_ns
        self.cost_before_ns = self.cost_left_ns
        self.durable_index = self.log.durable()
        held = self.held
        self.held = []
        for each in held:
            connection: Connection = cython.cast(Connection, each, typecheck=True)
            connection.in_held = False
            self.flush(now_ns, connection)
        if self.engine.woken:
            self.serve_woken(now_ns)
        self.commit(now_ns)
        if self.has_waiting():
            self.request()

    def flush(self, now_ns, connection):
        """Send what a connection may send; then hold the rest, close, or go on with commands that waited for room."""
        if connection.closed:
            return 0
        transport = connection.transport
        out = connection.session.out
        left: cython.Py_ssize_t = connection.sendable(self.durable_index)
        size: cython.Py_ssize_t
        asked: cython.Py_ssize_t
        while left and not transport.blocked:
            asked = left
            if connection.reply_ends:
                asked = min(asked, connection.reply_ends[0] - connection.sent_bytes)
            size = transport.send(out.buffer.data + out.buffer.start, asked)
            if size < 0:
                return self.drop(now_ns, connection)
            connection.sent(size)
            left -= size
            if size < asked:
                transport.blocked = True
            elif connection.reply_ends:
                connection.reply_ends.pop(0)
        if connection.held is not None and not connection.in_held:
            connection.in_held = True
            self.held.append(connection)
        if connection.finished and out.buffer.size == 0:
            return self.drop(now_ns, connection)
        if connection.choked and not transport.blocked and connection.held is None:
            self.add_queue(connection)
        return 0

    def drop(self, now_ns, connection):
        """Close a connection and forget it. Nothing happens when that is done already."""
        if connection.closed:
            return 0
        moves_left: cython.Py_ssize_t = self.engine.moves_left
        connection.close(now_ns)
        self.cost_left_ns -= (moves_left - self.engine.moves_left) * MOVED_COST_NS
        if connection.session.reserved.count and not connection.session.lost:
            self.leaving.append(connection)  # who sees the end of the connection finds its jobs back
            self.request()
        else:
            connection.transport.close()
        if self.engine.woken:
            self.request()
        return 0

    # --- what took how long -------------------------------------------------------------------------------------------

    def note_pause(self, what: str, took_ns: int64_t) -> None:
        """Note for how long the log has held up the loop: what it does between two turns counts to the second."""
        if not self.began_ns:
            self.held_up_ns += took_ns
        self.waited_ns[what] = self.waited_ns.get(what, 0) + took_ns

    def note_end(self, ended_ns):
        """Note when the turn ended; return what is known of it if it was slow, else None."""
        took_ns: int64_t = ended_ns - self.began_ns + self.held_up_ns
        total: uint64_t = self.engine.command_count
        times = self.engine.server_times
        times.turn.add(took_ns // 1_000)
        slow: object = self.slow_turn(took_ns) if took_ns >= SLOW_TURN_NS else None
        if total != self.command_count:
            # With a log, about half of all turns only send what is durable now: they say nothing of load.
            times.turn_commands.add(total - self.command_count)
            self.command_count = total
            memcpy(self.command_counts, self.engine.command_counts, cython.sizeof(self.command_counts))
        self.began_ns = self.held_up_ns = self.heaviest_cost_ns = self.due_count = 0
        self.heaviest = None
        if self.waited_ns:
            self.waited_ns = {}
        return slow

    def slow_turn(self, took_ns):
        """Return what is known of this turn."""
        connection: str = ""
        client: str = ""
        if self.heaviest is not None:
            connection = "closed by now" if self.heaviest.closed else self.describe(self.heaviest)
            client = (self.heaviest.session.name or b"").decode()
        commands: dict = {}
        for verb, key in COMMAND_KEYS + EXTENSION_KEYS:
            count: uint64_t = self.engine.command_counts[verb] - self.command_counts[verb]
            if count:
                commands[key.removeprefix("cmd-")] = count
        return SlowTurn(
            took_ns=took_ns,
            commands=commands,
            cost_ns=self.cost_before_ns - self.cost_left_ns,
            connection=connection,
            connection_cost_ns=self.heaviest_cost_ns,
            jobs_due_count=self.due_count,
            waited_ns=self.waited_ns,
            client=client,
        )
