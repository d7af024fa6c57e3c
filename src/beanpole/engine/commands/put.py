"""put; put-job, which says by name what differs from what most jobs have; and find-job, which finds it by its key."""

import cython
from cython.cimports.beanpole.engine.commands.serve import is_over, offer
from cython.cimports.beanpole.engine.commands.stats import reply_found
from cython.cimports.beanpole.engine.policies.attempts import add_new, begin_count, forget_death, rule_tags
from cython.cimports.beanpole.engine.policies.expiry import begin_expiry, give_expiry, take_expiry
from cython.cimports.beanpole.engine.policies.once import done_before, has_room, hash_of, note_put
from cython.cimports.beanpole.engine.policies.throttle import is_full, lacks_room, refuse_put, refuses
from cython.cimports.beanpole.engine.policies.uniqueness import end_key, give_body_key, give_key, key_holder
from cython.cimports.beanpole.engine.state.groups import is_group_full
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, new_job, replace_body
from cython.cimports.beanpole.engine.state.queue import Outcome
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.tags import (
    EXPIRY_BYTES,
    TAG_FRAME_BYTES,
    ExpireBit,
    KeyBit,
    Tag,
    put_tag,
    read_flags,
)
from cython.cimports.beanpole.engine.state.times import Count
from cython.cimports.beanpole.engine.state.tube import RULE_TAGS_BYTES, Tube, is_awaited
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t

PRI_DEFAULT = cython.declare(uint32_t, 65_536)  # the priority of a put-job that names none
TTR_S_DEFAULT = cython.declare(uint32_t, 60)


KEY_TAG_BYTES = cython.declare(cython.Py_ssize_t, 4)  # bytes of the tag of a key beside the key
WIDE_PER_MOVE = cython.declare(cython.Py_ssize_t, 2)
"""Wide sessions that are told of a job in the time in which one is moved: their heaps are in no cache."""

ONCE_BYTES = cython.declare(cython.Py_ssize_t, 41)  # bytes that a log keeps of the token of a put
DELAY_NS_END = cython.declare(int64_t, 2**32 * 1_000_000_000)  # no delay is as long as this
OF_A_KEY = cython.declare(uint64_t, bit(Kind.TAKEN) | bit(Kind.UNTIL))  # options that say something only of a key


def put(queue, now_ns, session, command):
    """put: add a job, and offer it to the sessions that wait. A put that is refused takes no id."""
    job: Job
    tube: Tube = session.used
    room: cython.int = Room.OK
    full: cython.bint = False
    size: int64_t = len(tube.name) + command.body_bytes
    if tube.rules is not None:
        if tube.rules.unique or (tube.rules.groups_split and b";" in tube.name):
            return put_plainly(queue, now_ns, session, command)
        full = is_full(tube, 1, command.body_bytes) or is_group_full(tube, None)
        size += RULE_TAGS_BYTES
    if tube.space is not None and lacks_room(tube.space, 1, command.body_bytes):
        full = True
    if not queue.draining and not full:
        room = queue.records.room_for_put(size)
        if room == Room.WAIT:
            return Outcome.AGAIN
    queue.count_producer(session)
    if queue.draining:
        return session.out.word(Word.DRAINING)
    if full:
        refuse_put(queue, tube)
    if full or room == Room.FULL:
        return session.out.word(Word.OUT_OF_MEMORY)
    job = new_job(queue.next_job_id, tube, command.body_at, command.body_bytes, rule_tags(tube.rules))
    if job is None:
        return session.out.word(Word.OUT_OF_MEMORY)
    job.pri = command.pri
    job.ttr_s = command.ttr_s
    add_job(queue, now_ns, job, command.delay_ns)
    session.out.number(Word.INSERTED, job.id)
    if tube.wide is not None:
        session.moved_count += len(tube.wide) // WIDE_PER_MOVE
    return offer(queue, now_ns, tube) if is_awaited(tube) else 0


def add_job(queue, now_ns, job, delay_ns):
    """Add a new job as :func:`add_new` does, and record it."""
    add_new(queue, now_ns, job, delay_ns)
    return queue.records.job_put(job)


def put_job(queue, now_ns, session, command):
    """put-job: a new job, unless its key is taken. Its tube is made only when nothing refuses it any more."""
    given: uint64_t = command.args.given
    if not is_format(queue, now_ns, command):
        return session.out.word(Word.BAD_FORMAT)
    tube: Tube = session.used
    name: bytes = tube.name
    if given & bit(Kind.TUBE):
        name = command.args.tube_at[: command.args.tube_bytes]
        tube = queue.tube_named(name)
    group: bytes = group_for(queue, command, name)
    if group is not None and not given & bit(Kind.GROUP):
        name = name[: len(name) - len(group) - 1]
        tube = queue.tube_named(name)
    hashed: uint64_t[2]
    token: cython.pointer(uint64_t) = hash_of(name, command, hashed) if given & bit(Kind.ONCE) else cython.NULL
    done_id: uint64_t = 0 if token is cython.NULL else done_before(queue, now_ns, token)
    if done_id:
        queue.count_producer(session)
        return reply_there(queue, session, Word.EXISTS, done_id)
    size: cython.Py_ssize_t = len(name) + command.body_bytes + RULE_TAGS_BYTES + tags_asked(command)
    holder: Job = None
    merges: cython.bint = False
    overwrites: cython.bint = command.args.replace
    if given & bit(Kind.KEY):
        holder = key_holder(queue, tube, command.args.key_at, command.args.key_bytes, False)
        size += KEY_TAG_BYTES + command.args.key_bytes
    elif tube is not None and tube.rules is not None and tube.rules.unique:
        holder = key_holder(queue, tube, command.body_at, command.body_bytes, True)
        merges = holder is not None
        overwrites = tube.rules.unique_replace
    # A holder whose time is over is deleted, and may have taken the tube with it: then this is a put like any other.
    if holder is not None and holder.flags & Flag.COUNTING and is_over(queue, now_ns, holder):
        holder, merges = None, False
        tube = queue.tube_named(name)
    if holder is not None:
        size += holder.tag_bytes  # of which a replacement keeps some
    # Three outcomes besides a new job: the key stays where it is (EXISTS, or merged by a rule); a job that waits is
    # replaced in its place; one that is held keeps running and loses its key to the new one.
    exists: cython.bint = holder is not None and not overwrites
    replaces: cython.bint = holder is not None and holder.state != State.RESERVED
    promised: cython.bint = session is queue.promised
    full: cython.bint = not promised and not replaces and is_group_full(tube, group)
    full |= not promised and refuses(
        queue, name, tube, 0 if replaces else 1, command.body_bytes - (holder.body_bytes if replaces else 0), None
    )
    room: cython.int = Room.OK
    if not queue.draining and (token is not cython.NULL if exists else not full):
        room = queue.records.room_for_put(size)
        if room == Room.WAIT:
            return queue.no_room(session, room)
    queue.count_producer(session)
    if queue.draining:
        return session.out.word(Word.DRAINING)
    if token is not cython.NULL and (room == Room.FULL or not has_room(queue, now_ns)):
        return session.out.word(Word.OUT_OF_MEMORY)
    if exists:
        if token is not cython.NULL:
            queue.records.once_noted(token, note_put(queue, now_ns, command, token, holder.id))
        if merges:
            queue.tally(tube, Count.MERGED, 1)
        return reply_there(queue, session, Word.INSERTED if merges else Word.EXISTS, holder.id)
    if full:
        refuse_put(queue, tube)
        return session.out.word(Word.OUT_OF_MEMORY)
    if room == Room.FULL or (tube is None and not promised and queue.too_many_tubes(name)):
        return session.out.word(Word.OUT_OF_MEMORY)
    if replaces:
        return replace(queue, now_ns, session, command, holder, token)
    return insert(queue, now_ns, session, command, queue.open_tube(name) if tube is None else tube, holder, token)


def tags_asked(command):
    """Return the bytes of the tags that a put asks for, besides that of its key, and of its token."""
    size: cython.Py_ssize_t = 0
    if command.args.given & bit(Kind.GROUP):
        size += TAG_FRAME_BYTES + command.args.group_bytes
    if command.args.given & bit(Kind.META):
        size += TAG_FRAME_BYTES + command.args.meta_bytes
    if command.args.given & bit(Kind.EXPIRE):
        size += TAG_FRAME_BYTES + EXPIRY_BYTES
    if command.args.given & bit(Kind.ONCE):
        size += ONCE_BYTES
    return size


def is_format(queue, now_ns, command):
    """Whether the options of a put go together."""
    given: uint64_t = command.args.given
    if given & OF_A_KEY and not given & bit(Kind.KEY):
        return False
    if given & bit(Kind.WITHIN) and not command.args.replace:
        return False
    if given & bit(Kind.FOR) and not given & bit(Kind.ONCE):
        return False
    return not given & bit(Kind.AT) or take_moment(queue, now_ns, command)


def reply_there(queue, session, word, id):
    """Reply with a job that was put before; nobody may read that before it is durable."""
    session.read_index = queue.records.index
    return session.out.number(word, id)


def group_for(queue, command, name):
    """Return the group that a put asks for, or that the name of its tube says by the rules of that; None: neither.

    The name says it behind its first ``;``; then the command asks for it from here on, as long as it is kept.
    """
    if command.args.given & bit(Kind.GROUP):
        return command.args.group_at[: command.args.group_bytes]
    home: bytes = name if queue.rules is None else queue.rules.home_of(name)
    if home is name:
        return None
    group: bytes = name[len(home) + 1 :]
    command.args.given |= bit(Kind.GROUP)
    command.args.group_at = group
    command.args.group_bytes = len(group)
    return group


def put_plainly(queue, now_ns, session, command):
    """Put where rules say more of jobs than their numbers: the same as a put-job with these."""
    command.args.given = bit(Kind.PRI) | bit(Kind.DELAY) | bit(Kind.TTR)
    command.args.pri = command.pri
    command.args.delay_ns = command.delay_ns
    command.args.ttr_s = command.ttr_s
    command.args.replace = False
    return put_job(queue, now_ns, session, command)


def insert(queue, now_ns, session, command, tube, before, token):
    """Put a new job; `before` is the job that somebody holds and that loses its key to it, or None.

    That is recorded behind the new job: if a crash lost what follows it, the one would be deleted for nothing.
    """
    key_bytes: cython.Py_ssize_t = KEY_TAG_BYTES + command.args.key_bytes if command.args.given & bit(Kind.KEY) else 0
    tag_room: cython.Py_ssize_t = key_bytes + tags_asked(command) + rule_tags(tube.rules)
    if token is not cython.NULL:
        tag_room -= ONCE_BYTES  # which lie elsewhere
    job: Job = new_job(queue.next_job_id, tube, command.body_at, command.body_bytes, tag_room)
    if job is None:
        queue.drop_if_unused(tube)
        return session.out.word(Word.OUT_OF_MEMORY)
    if before is not None:
        end_key(queue, before, KeyBit.SUPERSEDED)
    if command.args.given & bit(Kind.KEY):
        give_key(job, command.args.key_at, command.args.key_bytes, command.args.until_reserve)
    elif tube.rules is not None and tube.rules.unique:
        give_body_key(job, tube.rules.unique_until_reserve)
    take_group(job, command)
    take_meta(job, command)
    take_numbers(job, command)
    take_time(job, command)
    add_new(queue, now_ns, job, delay_of(command, 0))
    record(queue, now_ns, command, job, token)
    if before is not None:
        queue.records.job_changed(before)
    session.out.number(Word.INSERTED, job.id)
    return offer(queue, now_ns, tube)


def record(queue, now_ns, command, job, token):
    """Record a job that was put, with its token if it has one."""
    if token is cython.NULL:
        return queue.records.job_put(job)
    return queue.records.job_put_once(job, token, note_put(queue, now_ns, command, token, job.id))


def replace(queue, now_ns, session, command, job, token):
    """Let a job that waits be what was put now, in its place: its id stays, and when it was put first."""
    queue.records.job_dropped(job)
    if not replace_body(job, command.body_at, command.body_bytes):
        queue.records.job_put(job)
        return session.out.word(Word.OUT_OF_MEMORY)
    queue.leave(job)
    if job.tube.groups is not None:
        queue.end_of_group(job)
    put_tag(job, Tag.FAILURE_TEXT, cython.NULL, 0)
    put_tag(job, Tag.HISTORY, cython.NULL, 0)
    forget_death(job)
    begin_count(job)
    merges: cython.bint = not command.args.given & bit(Kind.KEY)
    if merges:
        give_body_key(job, job.tube.rules.unique_until_reserve)
    else:
        give_key(job, command.args.key_at, command.args.key_bytes, command.args.until_reserve)
    take_group(job, command)
    take_meta(job, command)
    take_numbers(job, command)
    take_time(job, command)
    delay_ns: int64_t = delay_of(command, now_ns - job.created_at_ns)
    begin_expiry(job, now_ns + delay_ns)
    queue.enter_after(now_ns, job, delay_ns)
    record(queue, now_ns, command, job, token)
    queue.tally(job.tube, Count.MERGED if merges else Count.REPLACED, 1)
    session.out.number(Word.INSERTED if merges else Word.REPLACED, job.id)
    return offer(queue, now_ns, job.tube)


def take_moment(queue, now_ns, command):
    """Make a delay of `at=`, by the wall clock; False: there is a delay beside it, or there is none that is so long."""
    delay_ns: int64_t = command.args.at_ns - (now_ns + queue.wall_lead_ns)
    command.args.delay_ns = max(delay_ns, 0)
    return not command.args.given & bit(Kind.DELAY) and delay_ns < DELAY_NS_END


def delay_of(command, age_ns):
    """Return the delay that is asked for, for a job that was put first so long ago."""
    if not command.args.given & bit(Kind.WITHIN):
        return command.args.delay_ns
    # A log can say of a job that it was put in a moment that is still to come.
    return min(command.args.delay_ns, max(command.args.within_ns - max(age_ns, 0), 0))


def take_group(job, command):
    """Give a job that is in no state its group, or none."""
    if command.args.given & bit(Kind.GROUP):
        put_tag(job, Tag.GROUP, command.args.group_at, command.args.group_bytes)
    elif job.flags & Flag.GROUPED:
        put_tag(job, Tag.GROUP, cython.NULL, 0)
    else:
        return 0
    return read_flags(job)


def take_meta(job, command):
    """Give a job that is in no state its headers, or none."""
    if command.args.given & bit(Kind.META):
        return put_tag(job, Tag.META, command.args.meta_at, command.args.meta_bytes)
    return put_tag(job, Tag.META, cython.NULL, 0) if job.tag_bytes else 0


def take_numbers(job, command):
    """Give a job that is in no state its pri and ttr."""
    job.pri = command.args.pri if command.args.given & bit(Kind.PRI) else PRI_DEFAULT
    job.ttr_s = command.args.ttr_s if command.args.given & bit(Kind.TTR) else TTR_S_DEFAULT
    return 0


def take_time(job, command):
    """Give a job that is in no state its time to wait, or none."""
    if command.args.given & bit(Kind.EXPIRE):
        return give_expiry(job, command.args.expire_ns, ExpireBit.OWN)
    return take_expiry(job) if job.tag_bytes else 0


def find_job(queue, now_ns, session, command):
    """find-job: the job that holds a key."""
    tube: Tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    return reply_found(queue, session, key_holder(queue, tube, command.args.key_at, command.args.key_bytes, False))
