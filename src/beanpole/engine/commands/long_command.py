"""A command that takes more than one turn: what is left of it, and how it goes on.

The work hangs on its session (``session.work``), which has no other command until it is done: who feeds the session
calls `Engine.go_on` in one turn after the other. A step does a bounded piece, and counts the jobs that it moved in
``session.moved_count``, by which it is paid for. When all is done, it replies and sets ``session.work`` to None. A
session that is closed forgets its work: what is done is done. What must not stay half done the engine does in its next
ticks, a piece in each (``Engine.unattended``); so it does with the jobs that the session held
(`Leave` of ``engine/engine.py``).
"""

import cython
from cython.cimports.beanpole.engine.state.queue import Outcome, Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.libc.stdint import int64_t


@cython.cclass
class LongCommand:
    """What is left of one command. Subclasses say what a step is."""

    def step(self, queue: Queue, now_ns: int64_t, session: Session):
        """Do the next piece. Return AGAIN when no more can be done in this turn: the log has no room yet."""
        session.work = None
        return 0

    def go_on_alone(self, queue: Queue):
        """Do a piece of what must not stay half done now that the session is closed; False: there is no more of it.

        A piece takes from ``Engine.moves_left``, of which it finds some left.
        """
        return False


def group_given(command):
    """Return the group that a command asks for; None: all jobs."""
    if not command.args.given & bit(Kind.GROUP):
        return None
    return command.args.group_at[: command.args.group_bytes]


def begin(queue, now_ns, session, work):
    """Do the first piece of a command, and leave the rest to the turns that follow.

    The command has begun, so that it can't be run again from the front: a step that has to wait is not repeated here.
    """
    session.work = work
    work.step(queue, now_ns, session)
    return Outcome.DONE


def abandon(queue, session):
    """Forget the command of a session that is closed, but for what must not stay half done."""
    work: LongCommand = cython.cast(LongCommand, session.work, typecheck=True)
    session.work = None
    return leave_to_ticks(queue, work)


def leave_to_ticks(queue, work):
    """Do a piece of what must not stay half done, and leave the rest of it to the next ticks."""
    if work.go_on_alone(queue):
        if queue.unattended is None:
            queue.unattended = []
        queue.unattended.append(work)
    return 0


def attend(queue):
    """Go on with what is left of sessions that are closed, one after the other, as far as that may be in this turn."""
    while queue.unattended is not None and queue.moves_left > 0:
        if not cython.cast(LongCommand, queue.unattended[0], typecheck=True).go_on_alone(queue):
            del queue.unattended[0]
            if not queue.unattended:
                queue.unattended = None
    return 0
