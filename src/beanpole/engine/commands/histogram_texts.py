"""The texts of stats-histograms: the bounds, what is timed over all tubes, and an item for each tube.

The bounds stand in a mapping that is JSON as well as YAML. A histogram is a line: how many were counted, their sum, how
many up to the first bound, how many beyond that one and up to the second, and so on; the last: beyond all bounds.
"""

import json

import cython
from cython.cimports.beanpole.engine.state.histogram import Bins, Unit, scale_of, text_of
from cython.cimports.beanpole.engine.state.times import JobTime
from cython.cimports.libc.stdint import uint64_t

from beanpole.engine.state.histogram import BOUNDS

NAMES = cython.declare(tuple, (b"job-ready", b"job-held", b"job-late"))
"""What each JobTime is called."""

BOUNDS_LINE = cython.declare(bytes, b"bounds: %b\n" % json.dumps(BOUNDS).encode())


def head_of(times):
    """Return what stands in front of the tubes."""
    what: cython.int
    lines = [BOUNDS_LINE]
    for what in range(JobTime.JOB_TIME_COUNT):
        lines.append(b"%b: %b\n" % (NAMES[what], text_of(scale_of(Unit.JOB_TIME), cython.address(times.jobs[what]))))
    lines.append(b"reserve-wait: %b\n" % times.reserve_wait.text())
    lines.append(b"turn: %b\n" % times.turn.text())
    lines.append(b"turn-commands: %b\n" % times.turn_commands.text())
    lines.append(b"sync: %b\n" % times.sync.text())
    return b"".join(lines)


def item_of(tube):
    """Return the item of a tube in the list, with the histograms in which anything was counted."""
    what: cython.int
    bins: cython.pointer(Bins)
    lines = [b"- name: %b\n" % tube.name]
    if tube.times is not None:
        for what in range(JobTime.JOB_TIME_COUNT):
            bins = cython.address(tube.times.jobs[what])
            if any_in(bins):
                lines.append(b"  %b: %b\n" % (NAMES[what], text_of(scale_of(Unit.JOB_TIME), bins)))
    return b"".join(lines)


@cython.cfunc
@cython.exceptval(check=False)
def any_in(bins: cython.pointer(Bins)) -> cython.bint:
    """Whether anything was counted."""
    i: cython.Py_ssize_t
    count: uint64_t = 0
    for i in range(scale_of(Unit.JOB_TIME).count + 1):
        count |= bins.counts[i]
    return count != 0
