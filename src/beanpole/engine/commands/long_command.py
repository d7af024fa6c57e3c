"""A command that takes more than one turn: what is left of it, and how it goes on.

The work hangs on its session (``session.work``), which has no other command until it is done: who feeds the session
calls :func:`go_on` in one turn after the other. A step does a bounded piece, and counts the jobs that it moved in
``session.moved_count``, by which it is paid for. When all is done, it replies and sets ``session.work`` to None. A
session that is closed forgets its work: what is done is done. What must not stay half done the engine does in its next
ticks, a piece in each (``Engine.unattended``); so it does with the jobs that the session held
(:mod:`beanpole.engine.commands.close_session`).
"""

import cython
from cython.cimports.beanpole.engine.engine import Engine, Outcome
from cython.cimports.beanpole.engine.policies.throttle import and_opened
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.libc.stdint import int64_t


@cython.cclass
class Work:
    """What is left of one command. Subclasses say what a step is."""

    def step(self, engine: Engine, now_ns: int64_t, session: Session):
        """Do the next piece. Return AGAIN when no more can be done in this turn: the log has no room yet."""
        session.work = None
        return 0

    def go_on_alone(self, engine: Engine):
        """Do a piece of what must not stay half done now that the session is closed; False: there is no more of it.

        A piece takes from ``Engine.moves_left``, of which it finds some left.
        """
        return False


def begin(engine, now_ns, session, work):
    """Do the first piece of a command, and leave the rest to the turns that follow.

    The command has begun, so that it can't be run again from the front: a step that has to wait is not repeated here.
    """
    session.work = work
    work.step(engine, now_ns, session)
    return Outcome.DONE


def abandon(engine, session):
    """Forget the command of a session that is closed, but for what must not stay half done."""
    work: Work = cython.cast(Work, session.work, typecheck=True)
    session.work = None
    return leave_to_ticks(engine, work)


def leave_to_ticks(engine, work):
    """Do a piece of what must not stay half done, and leave the rest of it to the next ticks."""
    if work.go_on_alone(engine):
        if engine.unattended is None:
            engine.unattended = []
        engine.unattended.append(work)
    return 0


def attend(engine):
    """Go on with what is left of sessions that are closed, one after the other, as far as that may be in this turn."""
    while engine.unattended is not None and engine.moves_left > 0:
        if not cython.cast(Work, engine.unattended[0], typecheck=True).go_on_alone(engine):
            del engine.unattended[0]
            if not engine.unattended:
                engine.unattended = None
    return 0


def go_on(engine, now_ns, session):
    """Do the next piece of the command of a session; return AGAIN as :meth:`Work.step` does."""
    engine.now_ns = now_ns
    # A reference of our own: the last step takes the session's away.
    work: Work = cython.cast(Work, session.work, typecheck=True)
    outcome: cython.int = work.step(engine, now_ns, session)
    if engine.opened is not None:
        engine.offer_all(now_ns, and_opened(engine, []))
    return outcome
