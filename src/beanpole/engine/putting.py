"""put-job: a put that says by name what differs from what most jobs have."""

import cython
from cython.cimports.beanpole.engine.changing import no_room
from cython.cimports.beanpole.engine.job import Job, new_job
from cython.cimports.beanpole.engine.records import Room
from cython.cimports.beanpole.engine.tube import Tube
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import uint32_t

from beanpole.engine import limits

PRI_DEFAULT = cython.declare(uint32_t, limits.PRI_DEFAULT)
TTR_S_DEFAULT = cython.declare(uint32_t, limits.TTR_S_DEFAULT)


def put_job(engine, now_ns, session, command):
    """put-job: a new job. Its tube is made only when nothing refuses it any more."""
    tube: Tube = session.used
    name: bytes = tube.name
    if command.args.given & bit(Kind.TUBE):
        name = command.args.tube_at[: command.args.tube_bytes]
        tube = engine.tube_named(name)
    room: cython.int = Room.OK
    if not engine.draining:
        room = engine.records.room_for_put(len(name) + command.body_bytes)
        if room == Room.WAIT:
            return no_room(session, room)
    engine.count_producer(session)
    if engine.draining:
        return session.out.word(Word.DRAINING)
    if room == Room.FULL or (tube is None and engine.too_many_tubes(name)):
        return session.out.word(Word.OUT_OF_MEMORY)
    if tube is None:
        tube = engine.open_tube(name)
    job: Job = new_job(engine.next_job_id, tube, command.body_at, command.body_bytes)
    if job is None:
        engine.drop_if_unused(tube)
        return session.out.word(Word.OUT_OF_MEMORY)
    job.pri = command.args.pri if command.args.given & bit(Kind.PRI) else PRI_DEFAULT
    job.ttr_s = command.args.ttr_s if command.args.given & bit(Kind.TTR) else TTR_S_DEFAULT
    engine.add_job(now_ns, job, command.args.delay_ns)
    session.out.number(Word.INSERTED, job.id)
    return engine.offer(now_ns, tube)
