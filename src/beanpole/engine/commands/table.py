"""The commands: what runs each, and what it costs, a row for each verb.

Whose counter a command raises says its row in ``protocol/commands.py``: the decoder knows before the engine that a put
went wrong behind its numbers (``Command.counted``).
"""

import cython
from cython.cimports.beanpole.engine.commands.change import change_body, change_job, move_jobs
from cython.cimports.beanpole.engine.commands.explain import explain
from cython.cimports.beanpole.engine.commands.groups import pause_group, stats_groups
from cython.cimports.beanpole.engine.commands.jobs import (
    bury,
    cancel_job,
    cancel_key,
    clear_tube,
    delete,
    delete_many,
    fail_job,
    kick,
    kick_job,
    release,
    snooze_job,
    touch,
    touch_many,
)
from cython.cimports.beanpole.engine.commands.list_jobs import list_jobs
from cython.cimports.beanpole.engine.commands.pages import (
    keep_session,
    list_sessions,
    name_session,
    stats_failures,
    stats_histograms,
    stats_tubes,
)
from cython.cimports.beanpole.engine.commands.put import find_job, put, put_job
from cython.cimports.beanpole.engine.commands.reserve import (
    cancel_reserve,
    reserve,
    reserve_job,
    reserve_many,
    reserve_with_timeout,
)
from cython.cimports.beanpole.engine.commands.rights import auth, list_rights
from cython.cimports.beanpole.engine.commands.schedules import (
    drop_schedule,
    fire_schedule,
    get_schedule,
    list_schedules,
    pause_schedule,
    set_schedule,
)
from cython.cimports.beanpole.engine.commands.stats import (
    list_tubes,
    list_tubes_watched,
    mistake,
    peek,
    peek_first,
    stats,
    stats_job,
    stats_tube,
)
from cython.cimports.beanpole.engine.commands.tubes import (
    drop_rules,
    get_rules,
    ignore,
    list_rules,
    list_tube_used,
    pause_tube,
    set_rules,
    use,
    watch,
)
from cython.cimports.beanpole.protocol.commands import VERB_COUNT, Verb
from cython.cimports.beanpole.protocol.extensions import HEARS_FORBIDDEN
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits
from beanpole.protocol.extensions import ACCESS_FORMATS, FEATURE_NAMES, FORMAT_FIRST, FORMAT_NEWEST, format_of

COMMAND_COST_NS = cython.declare(int64_t, limits.COMMAND_COST_NS)

ADDING = {
    *(Verb.PUT, Verb.USE, Verb.WATCH, Verb.PUT_JOB, Verb.CHANGE_JOB, Verb.CHANGE_BODY, Verb.MOVE_JOBS),
    Verb.FIRE_SCHEDULE,
}
"""What may add jobs or bytes of them to a tube, or a tube."""

LISTED = {
    served: b"---\n" + b"".join([b"- %b\n" % name for name in FEATURE_NAMES if format_of(name) <= served])
    for served in range(FORMAT_FIRST, FORMAT_NEWEST + 1)
}
"""The text of list-extensions, by the format of a cluster's log; a server without one serves what the newest does."""


@cython.cfunc
def add(
    verb: Verb, run: Run, cost_ns: int64_t = COMMAND_COST_NS, reserves: cython.bint = False, looks: cython.bint = False
) -> cython.int:
    """Add the row of a command."""
    row = cython.address(rows[cython.cast(cython.int, verb)])
    row.run = run
    row.cost_ns = cost_ns
    row.reserves = reserves
    row.looks = looks
    row.adds = verb in ADDING
    return 0


def list_extensions(queue, now_ns, session, command):
    """list-extensions: which commands and options beyond beanstalkd's there are."""
    if session.user is None and (queue.users is None or not session.own):
        return session.out.text(LISTED[min(queue.extensions, FORMAT_NEWEST)])
    names: list = [name for name in FEATURE_NAMES if format_of(name) <= queue.extensions]
    if session.user is None:
        names.append(b"list-rights")
    else:
        session.standing.served |= HEARS_FORBIDDEN
        names += [b"forbidden", *[name for name in ACCESS_FORMATS if ACCESS_FORMATS[name] & session.standing.served]]
    names.sort()
    return session.out.text(b"---\n" + b"".join([b"- %b\n" % name for name in names]))


def quit_session(queue, now_ns, session, command):
    """quit: the connection is closed when all replies are sent."""
    session.quitting = True
    return 0


def fill_rows():
    """Fill in the table.

    What costs more than most builds a text, or touches jobs: with a hundred clients none of a job's memory is in the
    processor's cache, which makes these cost twice what one client measures.
    """
    add(Verb.NONE, mistake)
    add(Verb.PUT, put, 700)
    add(Verb.PEEK, peek)
    add(Verb.PEEK_READY, peek_first)
    add(Verb.PEEK_DELAYED, peek_first)
    add(Verb.PEEK_BURIED, peek_first)
    add(Verb.RESERVE, reserve, 700, True, True)
    add(Verb.RESERVE_WITH_TIMEOUT, reserve_with_timeout, 700, True, True)
    add(Verb.DELETE, delete, 700)
    add(Verb.RELEASE, release)
    add(Verb.USE, use)
    add(Verb.WATCH, watch)
    add(Verb.IGNORE, ignore)
    add(Verb.BURY, bury)
    add(Verb.KICK, kick)
    add(Verb.TOUCH, touch, COMMAND_COST_NS, True)
    add(Verb.STATS, stats, 25_000)
    add(Verb.STATS_JOB, stats_job, 5_000)
    add(Verb.STATS_TUBE, stats_tube, 5_000)
    add(Verb.LIST_TUBES, list_tubes, 20_000)
    add(Verb.LIST_TUBE_USED, list_tube_used)
    add(Verb.LIST_TUBES_WATCHED, list_tubes_watched, 1_000)
    add(Verb.PAUSE_TUBE, pause_tube)
    add(Verb.RESERVE_JOB, reserve_job, COMMAND_COST_NS, True)
    add(Verb.KICK_JOB, kick_job)
    add(Verb.QUIT, quit_session)
    add(Verb.UNKNOWN_COMMAND, mistake)
    add(Verb.BAD_FORMAT, mistake)
    add(Verb.JOB_TOO_BIG, mistake)
    add(Verb.EXPECTED_CRLF, mistake)
    fill_extensions()
    verb: cython.int
    for verb in range(VERB_COUNT):
        assert rows[verb].run is not cython.NULL, f"verb {verb} has no row"


def fill_extensions():
    """Fill in the rows of what beanstalkd does not know."""
    add(Verb.LIST_EXTENSIONS, list_extensions)
    add(Verb.PUT_JOB, put_job, 700)
    add(Verb.FIND_JOB, find_job, 700)
    add(Verb.RESERVE_MANY, reserve_many, 700, True, True)
    add(Verb.DELETE_MANY, delete_many)
    add(Verb.TOUCH_MANY, touch_many, COMMAND_COST_NS, True)
    add(Verb.FAIL_JOB, fail_job, 700)
    add(Verb.SNOOZE_JOB, snooze_job)
    add(Verb.CHANGE_JOB, change_job, 700)
    add(Verb.CHANGE_BODY, change_body, 700)
    add(Verb.CLEAR_TUBE, clear_tube)
    add(Verb.MOVE_JOBS, move_jobs)
    add(Verb.LIST_JOBS, list_jobs)
    add(Verb.STATS_TUBES, stats_tubes)
    add(Verb.LIST_SESSIONS, list_sessions)
    add(Verb.NAME_SESSION, name_session)
    add(Verb.KEEP_SESSION, keep_session, 2_000)
    add(Verb.EXPLAIN, explain, 16_000)
    add(Verb.EXPLAIN_TUBE, explain, 25_000)
    add(Verb.CANCEL_RESERVE, cancel_reserve)
    add(Verb.CANCEL_JOB, cancel_job, 700)
    add(Verb.CANCEL_KEY, cancel_key, 700)
    add(Verb.SET_RULES, set_rules)
    add(Verb.GET_RULES, get_rules)
    add(Verb.LIST_RULES, list_rules)
    add(Verb.DROP_RULES, drop_rules)
    add(Verb.STATS_HISTOGRAMS, stats_histograms)
    add(Verb.STATS_FAILURES, stats_failures, 10_000)
    add(Verb.PAUSE_GROUP, pause_group, 700)
    add(Verb.STATS_GROUPS, stats_groups, 2_000)
    add(Verb.SET_SCHEDULE, set_schedule)
    add(Verb.GET_SCHEDULE, get_schedule, 1_000)
    add(Verb.LIST_SCHEDULES, list_schedules)
    add(Verb.DROP_SCHEDULE, drop_schedule, 2_000)
    add(Verb.PAUSE_SCHEDULE, pause_schedule)
    add(Verb.FIRE_SCHEDULE, fire_schedule, 2_000)
    add(Verb.AUTH, auth)
    add(Verb.LIST_RIGHTS, list_rights, 3_000)


fill_rows()


def cost_ns_of(verb: int) -> int:
    """Return what a command costs, in nanoseconds, apart from its output and the jobs that it moves."""
    return rows[verb].cost_ns
