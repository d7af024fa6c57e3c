"""What compaction moves: the jobs and pauses of a segment that are alive, written anew at the end of the log."""

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.job import Job
from cython.cimports.beanpole.engine.tube import Tube
from cython.cimports.beanpole.wal.encoder import Encoder
from cython.cimports.beanpole.wal.format import pause_bytes, whole_bytes
from cython.cimports.libc.stdint import int64_t, uint64_t


def move_jobs(
    engine: Engine, records: Encoder, segment: uint64_t, ids: list, start: cython.Py_ssize_t, bytes_max: int64_t
) -> int:
    """Write the jobs of `ids` from `start` on that live in `segment`, about `bytes_max`; return where it stopped."""
    job: Job
    i: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = len(ids)
    while i < end and bytes_max > 0:
        job = engine.jobs.find(ids[i])
        if job is not None and job.segment == segment:
            if not records.room_to_move(whole_bytes(job)):
                break
            bytes_max -= whole_bytes(job)
            records.whole(job)
        else:
            bytes_max -= 16
        i += 1
    return i


def move_pauses(engine: Engine, records: Encoder, segment: uint64_t) -> bool:
    """Write the pauses that stand in `segment`; False: there is no room for all."""
    tube: Tube
    for each in engine.tube_list:
        tube = each
        if tube.segment == segment and tube.paused_until_ns:
            if not records.room_to_move(pause_bytes(tube)):
                return False
            records.tube(tube)
    return True
