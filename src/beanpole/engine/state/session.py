"""A session: what the queue knows of one client. It has no socket and no bytes of input.

While ``waiting`` is set, the session stands in the waiting line of every tube that it watches, and whoever feeds it
commands must hold them back until a reply has come.

The open sessions stand in the order of their numbers, which is that in which they came. One that closes leaves its
place empty; when most places are, they are taken out. So coming and going cost the same however many there are, and a
page of list-sessions finds where it begins by halving.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Heap, Item, Timed, entry_of, sooner
from cython.cimports.beanpole.engine.state.tube import Tube, Watch, can_serve
from cython.cimports.beanpole.protocol.replies import ReplyBuffer
from cython.cimports.libc.stdint import int64_t, uint64_t


@cython.no_gc
@cython.cclass
class Keep:
    """How the jobs of a session wait for it. The fields stand in ``session.pxd``."""


@cython.no_gc
@cython.cclass
class Standing:
    """What a session of a user may do. The fields stand in ``session.pxd``."""

    def __cinit__(self):
        self.hidden = {}


@cython.no_gc
@cython.cclass
class Session(Timed):
    """One client of the engine. The fields stand in ``session.pxd``."""

    def __cinit__(self, number: uint64_t, owner: object):
        self.number = number
        self.owner = owner
        self.out = ReplyBuffer()
        self.watches = []
        self.watch_of = {}
        self.reserved = Heap()
        self.wait_until_ns = -1

    def due_job(self, now_ns):
        if self.reserved.count and (
            self.reserved.entries[0].key <= now_ns or (self.lost and self.keep.until_ns <= now_ns)
        ):
            return cython.cast(Item, self.reserved.entries[0].item)
        return None

    def next_due_ns(self):
        if self.reserved.count == 0:
            return self.wait_until_ns if self.told_at else -1
        due_ns: int64_t = self.reserved.entries[0].key
        if self.told_at:
            return min(due_ns, self.wait_until_ns)
        return min(due_ns, self.keep.until_ns) if self.lost else due_ns

    @property
    def reserved_count(self) -> int:
        return self.reserved.count

    def take_replies(self) -> bytes:
        return self.out.take()


PLACES_MIN = cython.declare(cython.Py_ssize_t, 64)  # places up to which empty ones are left alone


@cython.cclass
class SessionList:
    """Every open session of an engine, each of which knows its place."""

    def __cinit__(self):
        self.places = []

    def add(self, session):
        """Append a session: no number is greater than its own."""
        session.list_index = len(self.places)
        self.places.append(session)
        self.count += 1
        return 0

    def remove(self, session):
        """Remove a session."""
        self.places[session.list_index] = None
        self.count -= 1
        if len(self.places) > PLACES_MIN and len(self.places) > 2 * self.count:
            self.squeeze()
        return 0

    def squeeze(self):
        """Take out the empty places."""
        session: Session
        self.places = [each for each in self.places if each is not None]
        for index, each in enumerate(self.places):
            session = cython.cast(Session, each, typecheck=True)
            session.list_index = index
        return 0

    def first_from(self, number):
        """Return a place before which every number is below this one, and behind which none is."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = len(self.places)
        while low < high:
            middle: cython.Py_ssize_t = (low + high) // 2
            at: cython.Py_ssize_t = middle
            while at < high and self.places[at] is None:
                at += 1
            if at < high and cython.cast(Session, self.places[at], typecheck=True).number < number:
                low = at + 1
            else:
                high = middle
        return low

    def all_sessions(self) -> list[Session]:
        return [each for each in self.places if each is not None]


# --- sessions that watch very many tubes ------------------------------------------------------------------------------
#
# A session with few tubes looks at each of them when it reserves, and waits in the line of each. One that watches more
# than ``Engine.wide_watches`` is wide: it has a heap of its tubes, by the best job of each (``Session.heads``), and
# each of these tubes knows it (``Tube.wide``). So what it reserves costs as much with a hundred thousand tubes as with
# one. In return a tube has to tell its wide sessions of jobs, which others don't ask for.
#
# No tube stands in such a heap behind its best job: when a better one has come, or the tube was opened, its jobs are
# offered, and its wide sessions are told before (`note_best`). But it may stand there before it, or although it has
# nothing to give any more: nobody is told when a job goes. Who finds such a tube at the front puts it where it belongs.


@cython.cfunc
def note_in(heads: Heap, watch: Watch) -> cython.int:
    """Let a watch of a tube that has jobs stand where the best of them says."""
    best = watch.tube.ready.entries
    if watch.heap_index >= 0:
        known = entry_of(heads, watch)
        if known.key == best.key and known.tie == best.tie:
            return 0
        heads.remove(watch)
    return heads.push(watch, best.key, best.tie)


def add_wide(session, watch):
    """Note one more tube of a session that watches many; the first time, all of its tubes."""
    if session.heads is None:
        session.heads = Heap()
        for each in session.watches:
            add_wide(session, cython.cast(Watch, each, typecheck=True))
        return 0
    if watch.tube.wide is None:
        watch.tube.wide = {}
    watch.tube.wide[watch] = None
    return note_in(session.heads, watch) if can_serve(watch.tube) else 0


def drop_wide(session, watch):
    """Forget a tube of a wide session."""
    if watch.heap_index >= 0:
        session.heads.remove(watch)
    del watch.tube.wide[watch]
    if not watch.tube.wide:
        watch.tube.wide = None
    return 0


def note_best(tube):
    """Tell the wide sessions of a tube which its best job is now, before its jobs are offered."""
    if not can_serve(tube):
        return 0
    for each in tube.wide:
        watch: Watch = cython.cast(Watch, each, typecheck=True)
        note_in(cython.cast(Session, watch.session, typecheck=True).heads, watch)
    return 0


def best_of(session, left):
    """Return the ready jobs of the watched tube that has the best one; None: none has any, or nothing is `left`."""
    best: Heap = None
    tube: Tube
    watch: Watch
    if session.heads is not None:
        tube = best_tube(session.heads, left)
        return None if tube is None else tube.ready
    for watch in session.watches:
        if can_serve(watch.tube) and (best is None or sooner(watch.tube.ready, best)):
            best = watch.tube.ready
    return best


def best_tube(heads, left):
    """Return the tube that has the best job, of those in a heap by theirs; None: none has one, or nothing is `left`.

    Each tube that stands at the front and does not belong there takes one of what is left.
    """
    while heads.count and left[0] > 0:
        if is_first_best(heads):
            return cython.cast(Watch, heads.entries[0].item).tube
        left[0] -= 1
    return None


def is_first_best(heads):
    """Whether the first tube belongs to the front of a heap of tubes; one that does not is put where it belongs."""
    if heads.count == 0:
        return False
    watch: Watch = cython.cast(Watch, heads.entries[0].item)
    best = watch.tube.ready.entries
    if not can_serve(watch.tube):
        heads.remove(watch)
    elif heads.entries[0].key == best.key and heads.entries[0].tie == best.tie:
        return True
    else:
        note_in(heads, watch)
    return False


def wide_waiting(tube):
    """Return the wide sessions that wait for a job of a tube."""
    if tube.wide is None:
        return []
    sessions = [cython.cast(Watch, each, typecheck=True).session for each in tube.wide]
    return [session for session in sessions if cython.cast(Session, session, typecheck=True).waiting]


def waiting_in(tube):
    return tube.waiting_count + (0 if tube.wide is None else len(wide_waiting(tube)))


def next_in_line(tube):
    """Return the session that has waited longest for a job of a tube; None: none waits."""
    first: Watch = tube.first_waiting
    found: Session = None if first is None else cython.cast(Session, first.session, typecheck=True)
    if tube.wide is None:
        return found
    for each in tube.wide:
        session: Session = cython.cast(Session, cython.cast(Watch, each, typecheck=True).session, typecheck=True)
        if session.waiting and (found is None or session.wait_number < found.wait_number):
            found = session
    return found
