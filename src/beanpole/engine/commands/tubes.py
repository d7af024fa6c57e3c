"""The commands about tubes: which ones a session uses and watches, pause-tube, and the rules of tubes.

A tube finds its rules when it is made. When those of a pattern change, so do those of the tubes that are there, a piece
of them a turn, and then the command is answered.
"""

import cython
from cython.cimports.beanpole.engine.commands.hiding import find_used, tube_for
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin, leave_to_ticks
from cython.cimports.beanpole.engine.commands.rights import refuse_late
from cython.cimports.beanpole.engine.commands.serve import offer
from cython.cimports.beanpole.engine.policies.throttle import attach, follow, replace_rules
from cython.cimports.beanpole.engine.state.groupjobs import ready_count
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import RuleSet, SpaceTable, Tube, Watch
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.beanpole.protocol.rights import Right
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits
from beanpole.protocol.extensions import format_of
from beanpole.protocol.rules import RulesError, parse

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
PATTERNS_MAX = cython.declare(cython.Py_ssize_t, limits.PATTERNS_MAX)
NAMES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.NAMES_PER_TURN)
REPLY_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.REPLY_BYTES_PER_TURN)
NAMES_PER_MOVE = cython.declare(cython.Py_ssize_t, 5)  # names that are looked at in the time in which a job is moved
GROUPS_PER_TURN = cython.declare(cython.Py_ssize_t, 500)  # groups that get other rules: half a millisecond
MOVES_PER_SETTING = cython.declare(cython.Py_ssize_t, 300)
"""Jobs that are moved in the time in which short rules are read, and a thousand patterns put in order."""

RULE_BYTES_PER_MOVE = cython.declare(cython.Py_ssize_t, 4)
"""Bytes of rules that are read in the time in which a job is moved."""

MOVES_PER_TEXT = cython.declare(cython.Py_ssize_t, 5)  # jobs that are moved in the time in which rules are written
WHY_BYTES_MAX = 180  # bytes of what is wrong with rules, in the reply


def use(queue, now_ns, session, command):
    """use: where put and its like work from now on."""
    if not find_used(queue, session, command.tube):
        return turn_away(session)
    return list_tube_used(queue, now_ns, session, command)


@cython.cfunc
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
    tube: Tube = tube_for(queue, session, command.tube, Right.RESERVE)
    if tube is None:
        return turn_away(session)
    if tube not in session.watch_of:
        queue.add_watch(session, tube)
    return session.out.number(Word.WATCHING, len(session.watches))


def ignore(queue, now_ns, session, command):
    """ignore: one tube less to reserve from, but never none."""
    watch: Watch = session.watch_of.get(queue.tube_named(command.tube))
    if watch is None and session.standing is not None:
        watch = session.watch_of.get(session.standing.hidden.get(command.tube))
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


# --- the rules of a tube ----------------------------------------------------------------------------------------------


def attach_all(queue, pattern):
    """Let every tube that a pattern is for have the rules that are set for it now."""
    work: Attach = Attach()
    work.begin(queue, pattern)
    while not work.is_done():
        work.look(queue)
    return 0


@cython.final
@cython.cclass
class Attach(LongCommand):
    """A change of rules that is under way.

    The list of tubes is looked at from its end: a tube that is forgotten gives its place to the last one, which is
    looked at already, and a new one finds its rules by itself.
    """

    prefix = cython.declare(bytes)  # the beginning of the names of the tubes that it concerns
    at = cython.declare(cython.Py_ssize_t)  # tubes at the front of the engine's list that are not looked at yet
    tube = cython.declare(Tube)  # that of which not all groups are looked at yet; None: there is none
    reply = cython.declare(Word)  # what is answered at the end

    @cython.cfunc
    def begin(self, queue: Queue, pattern: bytes) -> cython.int:
        """Look for the tubes of a pattern; that of a name is found at once."""
        if pattern.endswith(b"*"):
            self.prefix = pattern[:-1]
            self.at = len(queue.tube_list)
            return 0
        tube: Tube = queue.tube_named(pattern)
        if tube is not None:
            self.attach(queue, tube)
        return 0

    @cython.cfunc
    def attach(self, queue: Queue, tube: Tube) -> cython.Py_ssize_t:
        """Let a tube have its rules; return how many groups it told. If they are many, the others are next."""
        count: cython.Py_ssize_t = attach(queue, tube)
        if tube.groups is not None and tube.groups.stale_count:
            self.tube = tube
        return count

    @cython.cfunc
    def is_done(self) -> cython.bint:
        return self.at == 0 and self.tube is None

    @cython.cfunc
    def look(self, queue: Queue) -> cython.int:
        """Look at the next groups, or tubes; return how many jobs could be moved in that time."""
        tube: Tube = self.tube
        if tube is not None:
            self.tube = None
            if tube.groups is None or queue.tube_named(tube.name) is not tube:
                return 0
            count: cython.Py_ssize_t = follow(queue, tube, GROUPS_PER_TURN)
            if tube.groups.stale_count:
                self.tube = tube
            return count
        attached: cython.Py_ssize_t = 0
        left: cython.Py_ssize_t = NAMES_PER_TURN
        self.at = min(self.at, cython.cast(cython.Py_ssize_t, len(queue.tube_list)))
        while left and self.at and self.tube is None:
            left -= 1
            self.at -= 1
            tube = cython.cast(Tube, queue.tube_list[self.at], typecheck=True)
            if tube.name.startswith(self.prefix):
                left -= min(left, NAMES_PER_MOVE * self.attach(queue, tube))
                attached += 1
        return (NAMES_PER_TURN - left) // NAMES_PER_MOVE + attached

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Look at the next ones, and reply when none is left."""
        session.moved_count += self.look(queue)
        if not self.is_done():
            return 0
        session.work = None
        return session.out.word(self.reply)

    @cython.cfunc
    def go_on_alone(self, queue: Queue) -> cython.bint:
        """Look at the next ones: the rules hold, whether or not anybody reads the reply."""
        queue.moves_left -= self.look(queue)
        return not self.is_done()


# --- set-rules and its like -------------------------------------------------------------------------------------------


def set_rules(queue, now_ns, session, command):
    """set-rules: the rules of a tube, of a prefix of tubes or of all. The same rules again change nothing."""
    pattern: bytes = command.args.tube_at[: command.args.tube_bytes]
    session.moved_count += MOVES_PER_SETTING + command.body_bytes // RULE_BYTES_PER_MOVE
    try:
        parsed = parse(command.body_at[: command.body_bytes])
    except RulesError as wrong:
        return bad_text(session, Word.BAD_RULES, wrong.line, wrong.why)
    for line, name in enumerate([each.split(b":")[0] for each in parsed.text.splitlines()], 1):
        if format_of(b"rule." + name) > queue.extensions:  # a node that doesn't know it would stop at its record
            return bad_text(session, Word.BAD_RULES, line, f"there is no rule {name.decode()!a} before the upgrade")
    rules: RuleSet = RuleSet(pattern, parsed, now_ns)
    if session.user is not None and rules.dead is not None:
        if session.user.rights(rules.dead, len(rules.dead)) & Right.PUT == 0:
            return refuse_late(queue, session, command, Right.PUT, rules.dead)
    old: RuleSet = None if queue.rules is None else queue.rules.named(pattern)
    if old is not None and old.text == rules.text:
        session.read_index = queue.records.index
        return session.out.word(Word.RULES_SET)
    if old is None and queue.rules is not None and queue.rules.count >= PATTERNS_MAX:
        return bad_text(session, Word.BAD_RULES, 0, f"there are rules for {PATTERNS_MAX} patterns already")
    room: cython.int = queue.records.room_for_change(len(pattern) + len(rules.text))
    if room != Room.OK:
        return queue.no_room(session, room)
    replace_rules(queue, pattern, rules)
    queue.records.rules_changed(rules)
    return begin_attach(queue, now_ns, session, pattern, Word.RULES_SET)


def drop_rules(queue, now_ns, session, command):
    """drop-rules: what is set for a pattern is no more."""
    pattern: bytes = command.args.tube_at[: command.args.tube_bytes]
    rules: RuleSet = None if queue.rules is None else queue.rules.named(pattern)
    if rules is None:
        return queue.not_found(session)
    room: cython.int = queue.records.room_for_change(len(pattern))
    if room != Room.OK:
        return queue.no_room(session, room)
    session.moved_count += MOVES_PER_SETTING
    replace_rules(queue, pattern, None)
    queue.records.rules_deleted(rules)
    return begin_attach(queue, now_ns, session, pattern, Word.DROPPED)


@cython.cfunc
def begin_attach(queue: Queue, now_ns: int64_t, session: Session, pattern: bytes, reply: Word) -> cython.int:
    """Let the tubes of a pattern have their rules, and reply then."""
    work: Attach = Attach()
    work.reply = reply
    work.begin(queue, pattern)
    return begin(queue, now_ns, session, work)


def bad_text(session, word, line, why):
    """Reply which line of a text is wrong, and why."""
    session.out.begin(word)
    session.out.add_number(line)
    session.out.add(b" ", 1)
    session.out.add_bytes(why.encode("ascii", "replace")[:WHY_BYTES_MAX])
    return session.out.end()


def get_rules(queue, now_ns, session, command):
    """get-rules: the rules that a tube of this name has, whether or not there is one, and for what they were set."""
    name: bytes = command.args.tube_at[: command.args.tube_bytes]
    rules: RuleSet = None if queue.rules is None else queue.rules.match(name)
    if rules is None:
        return queue.not_found(session)
    session.moved_count += MOVES_PER_TEXT
    session.read_index = queue.records.index
    return session.out.text(b"---\n" + text_of(rules))


def list_rules(queue, now_ns, session, command):
    """list-rules: all rules in the order of their patterns, as many as one reply takes; none: there are no more."""
    rules: RuleSet
    texts: list = []
    left: cython.Py_ssize_t = REPLY_BYTES_PER_TURN
    after: bytes = command.args.after_at[: command.args.after_bytes] if command.args.after_bytes else b""
    all_seen: cython.bint = session.user is None or session.user.admin
    for rules in [] if queue.rules is None else queue.rules.all():
        if rules.pattern > after and (all_seen or session.user.grants.meets(rules.pattern)):
            texts.append(b"- " + b"\n  ".join(text_of(rules).splitlines()) + b"\n")
            left -= len(texts[len(texts) - 1])
            if left < 0:
                break
    session.moved_count += MOVES_PER_SETTING + MOVES_PER_TEXT * len(texts)
    session.read_index = queue.records.index
    return session.out.text(b"---\n" + b"".join(texts))


@cython.cfunc
def text_of(rules: RuleSet) -> bytes:
    return b'pattern: "%b"\n%b' % (rules.pattern, rules.text)


# --- the space of a tube ----------------------------------------------------------------------------------------------


@cython.final
@cython.cclass
class Recount(LongCommand):
    """All tubes find their spaces, and are counted there, a piece in each tick; looked at as by :class:`Attach`."""

    table = cython.declare(SpaceTable)  # `SpaceTable | None`: where they are counted
    at = cython.declare(cython.Py_ssize_t)  # tubes at the front of the engine's list that are not looked at yet

    @cython.cfunc
    def go_on_alone(self, queue: Queue) -> cython.bint:
        """Count the next tubes, as far as that goes in this turn; nothing once there are other spaces."""
        tube: Tube
        if queue.spaces is not self.table:
            return False
        self.at = min(self.at, cython.cast(cython.Py_ssize_t, len(queue.tube_list)))
        while self.at > 0 and queue.moves_left > 0:
            self.at -= 1
            queue.moves_left -= 1
            tube = queue.tube_list[self.at]
            if self.table is None:
                tube.space = None
            else:
                held: cython.Py_ssize_t = tube.reserved_count + tube.buried.count
                self.table.enter(tube, ready_count(tube) + tube.delayed.count + held)
        queue.recounting = self.at > 0
        return queue.recounting


def begin_recount(queue, patterns):
    """Let the tubes of these patterns have spaces, and those of no others."""
    work: Recount = Recount()
    queue.spaces = work.table = SpaceTable(patterns) if patterns else None
    work.at = len(queue.tube_list)
    queue.recounting = True
    return leave_to_ticks(queue, work)
