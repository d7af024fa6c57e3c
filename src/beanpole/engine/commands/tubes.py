"""The commands that say which tubes a session uses and watches, and pause-tube."""

import cython
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Tube, Watch
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t

SECOND_NS = cython.declare(int64_t, 1_000_000_000)


def use(engine, session, name):
    """use: where put and its like work from now on."""
    if engine.too_many_tubes(name):
        return turn_away(session)
    engine.switch_used(session, engine.open_tube(name))
    return reply_used(session)


@cython.cfunc
@cython.exceptval(-1, check=False)
def turn_away(session: Session) -> cython.int:
    """Refuse a tube, and run nothing of what the client has sent behind: it was meant for that tube.

    It would put jobs into the tube used before, or reserve those of the tubes watched before.
    """
    session.quitting = True
    return session.out.word(Word.OUT_OF_MEMORY)


def reply_used(session):
    """list-tube-used: where put and its like work."""
    return session.out.name(Word.USING, session.used.name)


def watch(engine, session, name):
    """watch: one more tube to reserve from."""
    if engine.too_many_tubes(name):
        return turn_away(session)
    tube: Tube = engine.open_tube(name)
    if tube not in session.watch_of:
        engine.add_watch(session, tube)
    return session.out.number(Word.WATCHING, len(session.watches))


def ignore(engine, session, name):
    """ignore: one tube less to reserve from, but never none."""
    watch: Watch = session.watch_of.get(engine.tube_named(name))
    if watch is not None:
        if len(session.watches) == 1:
            return session.out.word(Word.NOT_IGNORED)
        engine.drop_watch(session, watch)
    return session.out.number(Word.WATCHING, len(session.watches))


def pause(engine, now_ns, session, command):
    """pause-tube: nothing is reserved from the tube for some seconds; 0 ends a pause."""
    tube: Tube = engine.tube_named(command.tube)
    if tube is None:
        return engine.not_found(session)
    size: int64_t = len(tube.name) + (0 if tube.tags is None else len(tube.tags))
    if engine.records.room_for_change(size) != Room.OK:
        return engine.no_room(session, Verb.PAUSE_TUBE, size)
    tube.pause_count += 1
    tube.pause(command.delay_ns // SECOND_NS, now_ns + command.delay_ns if command.delay_ns else 0)
    engine.records.tube_changed(tube)
    session.out.word(Word.PAUSED)
    if tube.paused_until_ns:
        return engine.arm(tube, tube.paused_until_ns)
    return engine.offer(now_ns, tube)
