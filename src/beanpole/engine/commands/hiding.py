"""Hidden tubes: empty ones, which a session has in the place of those to which its user has no right.

``use`` and ``watch`` never fail for want of a right: a client that pipelines them would put what follows into the tube
used before. Nobody else finds a hidden tube, it stands in no list, and never has a job, so that what reserves need not
ask for rights.

When the rights of a user have changed, each of its sessions finds its tubes again before its next command
(:func:`renew`), and before it is handed a job (:func:`may_be_served`). The ticks go through all sessions as well, a
piece in each: one that waits gets jobs of the tubes to which it has a right now.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, leave_to_ticks
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session, Standing, add_wide, drop_wide, told_of
from cython.cimports.beanpole.engine.state.tube import Tube, Watch
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.protocol.rights import Right
from cython.cimports.libc.stdint import uint64_t

HIDDEN_MAX = cython.declare(cython.Py_ssize_t, 1_000)
"""Tubes to which it has no right that a session may name, of about a kilobyte each."""

WATCHES_PER_PIECE = cython.declare(cython.Py_ssize_t, 1_000)
"""Watched tubes of a session that are found again before others have their turn: a fraction of a millisecond."""

WATCHES_PER_MOVE = cython.declare(cython.Py_ssize_t, 2)  # the same that are in the time in which a job is moved


def tube_for(queue, session, name, right):
    """Return the tube of a name, or a hidden one where a session has none of the bits of `right`; None: too many."""
    if session.user is None or session.user.rights(name, len(name)) & right:
        return open_if_room(queue, name)
    return hide(session, name)


@cython.cfunc
def open_if_room(queue: Queue, name: bytes) -> Tube:
    return None if queue.too_many_tubes(name) else queue.open_tube(name)


@cython.cfunc
def hide(session: Session, name: bytes) -> Tube:
    """Return the hidden tube of a name; None: the session has named too many."""
    hidden: dict = session.standing.hidden
    tube: Tube = hidden.get(name)
    if tube is None and len(hidden) < HIDDEN_MAX:
        tube = hidden[name] = Tube(name, 0)
        tube.hidden = True
        tube.using_count = 1  # so that it is never unused: it stands in no list from which it could be taken
    return tube


def find_used(queue, session, name):
    """Let a session use the tube of a name, and know its rights there; False: there are too many tubes.

    Where the rules split the name of a tube from that of a group, what counts for puts is the tube that gets the job.
    They can change, so such a name is looked at again for each command (``Right.STATS`` says so in ``Standing.rights``,
    where nobody asks for it).
    """
    tube: Tube
    if session.user is None:
        tube = tube_for(queue, session, name, 0)
    else:
        rights: cython.int = session.user.rights(name, len(name)) & Right.EVERYTHING
        home: bytes = name if queue.rules is None else queue.rules.home_of(name)
        if home is not name:
            rights = rights & ~Right.PUT | session.user.rights(home, len(home)) & Right.PUT
        session.standing.rights = rights | (Right.STATS if b";" in name else 0)
        tube = hide(session, name) if rights == 0 else open_if_room(queue, name)
    if tube is None:
        return False
    if tube is not session.used:
        queue.switch_used(session, tube)
    return True


@cython.cfunc
def find_watch(queue: Queue, session: Session, watch: Watch) -> cython.bint:
    """Let a watch be of the tube that the session may reserve from, or of a hidden one; False: there are too many."""
    before: Tube = watch.tube
    has_right: cython.bint = session.user.rights(before.name, len(before.name)) & Right.RESERVE != 0
    if has_right != before.hidden:
        return True
    tube: Tube = tube_for(queue, session, before.name, Right.RESERVE)
    if tube is None:
        return False
    if session.told_at and told_of(session) is before:
        queue.end_told(session)
    in_line: cython.bint = session.waiting and session.heads is None
    if in_line:
        before.leave_waiting(watch)
    if session.heads is not None:
        drop_wide(session, watch)
    del session.watch_of[before]
    before.watching_count -= 1
    watch.tube = tube
    tube.watching_count += 1
    session.watch_of[tube] = watch
    session.standing.hidden_count += tube.hidden - before.hidden
    if session.heads is not None:
        add_wide(session, watch)
    if in_line:
        tube.join_waiting(watch)
    if session.waiting and not tube.hidden:
        queue.note_opened(tube)
    queue.drop_if_unused(before)
    return True


def renew(queue, session):
    """Find again what a session may use and watch, or a piece of it; return how many jobs could be moved in that time.

    When all is found, ``Standing.version`` is that of its user. One with too many tubes has to end: it is ``quitting``.
    """
    user: User = session.user
    standing: Standing = session.standing
    count: cython.Py_ssize_t = len(session.watches)
    if standing.begun_version != user.version:
        standing.begun_version = user.version
        standing.found_count = 0
    begin: cython.Py_ssize_t = standing.found_count
    standing.found_count = min(count, begin + WATCHES_PER_PIECE)
    for at in range(begin, standing.found_count):
        if not find_watch(queue, session, cython.cast(Watch, session.watches[at], typecheck=True)):
            session.quitting = True
            return 0
    if standing.found_count == count:
        session.quitting = not find_used(queue, session, session.used.name)
        standing.version = user.version
    return 1 + (standing.found_count - begin) // WATCHES_PER_MOVE


def is_stale(session):
    """Whether the rights of a session's user have changed since it found what it may do."""
    return session.standing.version != session.user.version


def begin_standing(queue, session, user, served):
    """Let a session that has run no command yet be a user's; what only its user's are told of is `served` to it."""
    session.user = user
    if session.standing is None:
        session.standing = Standing()
    session.standing.served = served
    session.standing.found_count = 0
    session.standing.begun_version = user.version
    return renew(queue, session)


def may_be_served(queue, session, tube):
    """Whether a session that waits may have a job of a tube after its rights changed; else it waits there no more."""
    if session.user.rights(tube.name, len(tube.name)) & Right.RESERVE:
        return True
    if not find_watch(queue, session, cython.cast(Watch, session.watch_of[tube], typecheck=True)):
        dismiss(queue, session)
    return False


@cython.cfunc
def dismiss(queue: Queue, session: Session) -> cython.int:
    """Let whoever serves a session close it."""
    queue.stop_waiting(session)
    session.quitting = True
    queue.woken.append(session)
    return 0


@cython.final
@cython.cclass
class Renewal(LongCommand):
    """What the ticks do after rights have changed: all sessions find their tubes again."""

    number = cython.declare(uint64_t)  # the smallest number that the next session may have

    @cython.cfunc
    def go_on_alone(self, queue: Queue) -> cython.bint:
        """Go on with the next sessions, as far as that goes in this turn."""
        places: list = queue.sessions.places
        at: cython.Py_ssize_t = queue.sessions.first_from(self.number)
        while at < len(places) and queue.moves_left > 0:
            session: Session = places[at]
            at += 1
            queue.moves_left -= 1
            if session is None:
                continue
            self.number = session.number
            while session.user is not None and session.used is not None and is_stale(session) and not session.quitting:
                if queue.moves_left <= 0:
                    return True
                queue.moves_left -= renew(queue, session)
                if session.quitting:
                    dismiss(queue, session)
            self.number += 1
        return at < len(places)


def begin_renewal(queue):
    """Let all sessions find their tubes again, a piece in each of the next ticks."""
    return leave_to_ticks(queue, Renewal())
