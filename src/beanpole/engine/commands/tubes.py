"""The commands that say which tubes a session uses and watches, and pause-tube."""

import cython
from cython.cimports.beanpole.engine.commands.serve import offer
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Tube, Watch
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t

SECOND_NS = cython.declare(int64_t, 1_000_000_000)


def use(queue, now_ns, session, command):
    """use: where put and its like work from now on."""
    name: bytes = command.tube
    if queue.too_many_tubes(name):
        return turn_away(session)
    queue.switch_used(session, queue.open_tube(name))
    return list_tube_used(queue, now_ns, session, command)


@cython.cfunc
@cython.exceptval(-1, check=False)
def turn_away(session: Session) -> cython.int:
    """Refuse a tube, and run nothing of what the client has sent behind: it was meant for that tube.

    It would put jobs into the tube used before, or reserve those of the tubes watched before.
    """
    session.quitting = True
    return session.out.word(Word.OUT_OF_MEMORY)


def list_tube_used(queue, now_ns, session, command):
    """list-tube-used: where put and its like work."""
    return session.out.name(Word.USING, session.used.name)


def watch(queue, now_ns, session, command):
    """watch: one more tube to reserve from."""
    name: bytes = command.tube
    if queue.too_many_tubes(name):
        return turn_away(session)
    tube: Tube = queue.open_tube(name)
    if tube not in session.watch_of:
        queue.add_watch(session, tube)
    return session.out.number(Word.WATCHING, len(session.watches))


def ignore(queue, now_ns, session, command):
    """ignore: one tube less to reserve from, but never none."""
    watch: Watch = session.watch_of.get(queue.tube_named(command.tube))
    if watch is not None:
        if len(session.watches) == 1:
            return session.out.word(Word.NOT_IGNORED)
        queue.drop_watch(session, watch)
    return session.out.number(Word.WATCHING, len(session.watches))


def pause_tube(queue, now_ns, session, command):
    """pause-tube: nothing is reserved from the tube for some seconds; 0 ends a pause."""
    tube: Tube = queue.tube_named(command.tube)
    if tube is None:
        return queue.not_found(session)
    size: int64_t = len(tube.name) + (0 if tube.tags is None else len(tube.tags))
    room: cython.int = queue.records.room_for_change(size)
    if room != Room.OK:
        return queue.no_room(session, room)
    tube.pause_count += 1
    tube.pause(command.delay_ns // SECOND_NS, now_ns + command.delay_ns if command.delay_ns else 0)
    queue.records.tube_changed(tube)
    session.out.word(Word.PAUSED)
    if tube.paused_until_ns:
        return queue.arm(tube, tube.paused_until_ns)
    return offer(queue, now_ns, tube)
