"""What compaction moves: the jobs and pauses of a segment that are alive, written anew at the end of the log."""

import cython
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.job import Job
from cython.cimports.beanpole.engine.tube import Tube
from cython.cimports.beanpole.log.encoder import Encoder
from cython.cimports.beanpole.log.format import pause_bytes, whole_bytes
from cython.cimports.libc.stdint import int64_t, uint64_t

PASSED_COST = cython.declare(int64_t, 16)
"""What it counts in bytes to look at what is not in the segment any more."""


def move_jobs(
    engine: Engine, records: Encoder, segment: uint64_t, ids: list[int], start: cython.Py_ssize_t, bytes_max: int64_t
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
            records.job_put(job)
        else:
            bytes_max -= PASSED_COST
        i += 1
    return i


def paused_in(engine: Engine, segment: uint64_t) -> list[Tube]:
    """Return the tubes whose pauses stand in `segment`."""
    tube: Tube
    found: list = []
    for each in engine.tube_list:
        tube = each
        if tube.segment == segment:
            found.append(tube)
    return found


def move_pauses(
    records: Encoder, segment: uint64_t, tubes: list[Tube], start: cython.Py_ssize_t, bytes_max: int64_t
) -> int:
    """Write the pauses of `tubes` from `start` on that stand in `segment`, as :func:`move_jobs` does jobs."""
    tube: Tube
    i: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = len(tubes)
    while i < end and bytes_max > 0:
        tube = tubes[i]
        if tube.segment == segment:
            if not records.room_to_move(pause_bytes(tube)):
                break
            bytes_max -= pause_bytes(tube)
            records.tube_changed(tube)
        else:
            bytes_max -= PASSED_COST
        i += 1
    return i
