"""The commands that beanstalkd does not know: each verb of the table goes to the module that serves it."""

import cython
from cython.cimports.beanpole.engine.commands.change import change_body, change_job, fail_job, snooze_job
from cython.cimports.beanpole.engine.commands.clear import clear_tube
from cython.cimports.beanpole.engine.commands.explain import explain
from cython.cimports.beanpole.engine.commands.list_jobs import list_jobs
from cython.cimports.beanpole.engine.commands.list_sessions import list_sessions, name_session
from cython.cimports.beanpole.engine.commands.many import delete_many, reserve_many, touch_many
from cython.cimports.beanpole.engine.commands.move import move_jobs
from cython.cimports.beanpole.engine.commands.put import find_job, put_job
from cython.cimports.beanpole.engine.commands.set_rules import drop_rules, get_rules, list_rules, set_rules
from cython.cimports.beanpole.engine.commands.stats_tubes import stats_histograms, stats_tubes
from cython.cimports.beanpole.engine.engine import Outcome
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.beanpole.protocol.replies import Word

from beanpole.protocol.extensions import FEATURE_NAMES

LISTED = cython.declare(bytes, b"---\n" + b"".join([b"- %b\n" % name for name in FEATURE_NAMES]))
"""The text of list-extensions."""


def apply(engine, now_ns, session, command):
    """Run a command that is counted already; where nothing has happened, it is not counted."""
    outcome: cython.int = run(engine, now_ns, session, command)
    if outcome == Outcome.AGAIN:
        engine.command_counts[cython.cast(cython.int, command.verb)] -= 1
    return outcome


def run(engine, now_ns, session, command):
    """Run a command by its verb."""
    verb: Verb = command.verb
    if verb == Verb.PUT_JOB:
        return put_job(engine, now_ns, session, command)
    if verb == Verb.FIND_JOB:
        return find_job(engine, session, command)
    if verb == Verb.FAIL_JOB:
        return fail_job(engine, now_ns, session, command)
    if verb == Verb.SNOOZE_JOB:
        return snooze_job(engine, now_ns, session, command)
    if verb == Verb.CHANGE_JOB:
        return change_job(engine, now_ns, session, command)
    if verb == Verb.CHANGE_BODY:
        return change_body(engine, now_ns, session, command)
    if verb == Verb.LIST_EXTENSIONS:
        return list_extensions(session)
    if verb == Verb.RESERVE_MANY:
        return reserve_many(engine, now_ns, session, command.args.count, command.args.timeout_ns)
    if verb == Verb.DELETE_MANY:
        return delete_many(engine, now_ns, session, command)
    if verb == Verb.TOUCH_MANY:
        return touch_many(engine, now_ns, session, command)
    if verb == Verb.CANCEL_RESERVE:
        return session.out.word(Word.NOT_WAITING)
    if verb == Verb.CLEAR_TUBE:
        return clear_tube(engine, now_ns, session, command)
    if verb == Verb.LIST_JOBS:
        return list_jobs(engine, now_ns, session, command)
    if verb == Verb.MOVE_JOBS:
        return move_jobs(engine, now_ns, session, command)
    if verb == Verb.STATS_TUBES:
        return stats_tubes(engine, now_ns, session, command)
    if verb == Verb.STATS_HISTOGRAMS:
        return stats_histograms(engine, now_ns, session, command)
    if verb == Verb.LIST_SESSIONS:
        return list_sessions(engine, now_ns, session, command)
    if verb == Verb.NAME_SESSION:
        return name_session(session, command)
    if verb == Verb.EXPLAIN or verb == Verb.EXPLAIN_TUBE:
        return explain(engine, now_ns, session, command)
    if verb == Verb.SET_RULES:
        return set_rules(engine, now_ns, session, command)
    if verb == Verb.GET_RULES:
        return get_rules(engine, session, command)
    if verb == Verb.LIST_RULES:
        return list_rules(engine, session, command)
    if verb == Verb.DROP_RULES:
        return drop_rules(engine, now_ns, session, command)
    return session.out.word(Word.UNKNOWN_COMMAND)


def list_extensions(session):
    """list-extensions: which commands and options beyond beanstalkd's there are."""
    return session.out.text(LISTED)
