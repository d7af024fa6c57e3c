"""One client of a router of several shards: its commands go where they mean, and the replies come in their order.

A command for one shard is passed on as it came, and so is its reply; only how many are on their way is counted. One for
several is a *gather* (:mod:`beanpole.front.gather`): it asks shards and makes one reply of theirs, and nothing behind
it is run before. With a single shard everything is passed on.

Nothing here has a socket. A lane (:mod:`beanpole.front.lane`) is the client's channel to a shard: what the router takes
from `out` it sends, and what comes it gives to `take`.
"""

from collections.abc import Callable, Mapping

import cython
from cython.cimports.beanpole.front.lane import Lane, taken
from cython.cimports.beanpole.protocol.buffer import append
from cython.cimports.beanpole.protocol.commands import Command, Verb
from cython.cimports.beanpole.protocol.decoder import Decoder, Mode
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free

from beanpole.errors import UnexpectedReplyError
from beanpole.front.gather import Ask, Request, Reserving, Tells, Wait
from beanpole.front.lane import DEFAULT
from beanpole.front.routes import ROUTES, widened
from beanpole.shards.map import Place, Places, Shard, home_of

EXPECTED_MAX = cython.declare(int64_t, 1_000)  # replies that a client may be waiting for
OUT_BYTES_PAUSE = cython.declare(cython.Py_ssize_t, 262_144)  # to the client, or to a shard, above which nothing is run

CANCELLED = cython.declare(bytes, b"CANCELLED\r\n")

command = cython.declare(Command, Command())
"""What is being run. Nothing of it is kept."""

where_of = cython.declare(cython.int[255])
always = cython.declare(cython.bint[255])

MISTAKES = {
    Verb.UNKNOWN_COMMAND: b"UNKNOWN_COMMAND\r\n",
    Verb.BAD_FORMAT: b"BAD_FORMAT\r\n",
    Verb.JOB_TOO_BIG: b"JOB_TOO_BIG\r\n",
    Verb.EXPECTED_CRLF: b"EXPECTED_CRLF\r\n",
}


@cython.cclass
class Answering:
    """What the client is answered next. The fields stand in ``session.pxd``."""


@cython.cclass
class Session:
    """One client of a router. The fields stand in ``session.pxd``."""

    def __init__(
        self,
        places: Places,
        body_bytes_max: cython.Py_ssize_t,
        clock: Callable[[], int],
        about: Mapping[bytes, bytes],
    ):
        """`body_bytes_max` is the greatest of the shards'; `clock` says nanoseconds; `about`: see Client.facts."""
        shards = tuple(places.map.shards.values())
        self.places = places
        self.clock = clock
        self.about = about
        self.reserving = Reserving()
        self.only = shards[0] if len(shards) == 1 else None
        self.decoder = Decoder(body_bytes_max)
        self.lanes = {}
        self.used = DEFAULT
        self.used_place = places.place(DEFAULT)
        self.watched = {DEFAULT: self.used_place}
        self.turns = []

    def __dealloc__(self):
        free(self.out.data)

    def open_lane(self, shard: Shard) -> Lane | None:
        """Begin a channel to a shard; None: there is no way to it. A subclass says how."""
        raise AssertionError("a subclass says how")

    # --- from the client ----------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take what the client has sent, and run it."""
        self.take_input(data, len(data))

    def take_input(self, data, size):
        """The same, from where it was received."""
        self.decoder.borrow(data, size)
        if self.waits:
            turn: Answering = cython.cast(Answering, self.turns[0], typecheck=True)
            if turn.keeping is None and self.decoder.take_cancel() == 1 and self.end_wait(turn, CANCELLED):
                self.forget_wait()
        return self.run()

    def end_input(self) -> None:
        """Take note that the client sends no more: what has come is run, and a reserve that waits ends."""
        self.ends = True
        self.run()

    def run(self) -> int:
        """Run what has come of the client, until something must be waited for."""
        self.run_commands()
        while self.ends and not self.finished and self.end_what_waits():
            self.run_commands()
        return 0

    def end_what_waits(self) -> bool:
        """End what only waits, as nobody sends any more; return whether there is more to run now."""
        lane = self.hold
        if self.waits:
            if self.end_wait(cython.cast(Answering, self.turns[0], typecheck=True), b""):
                self.forget_wait()
                return True
        elif lane is not None and lane.answered < self.hold_number:
            lane.ends = True
        elif not self.turns and self.needs_input:
            self.finished = True
        return False

    def run_commands(self):
        """Run commands until there is no whole one, or something must be waited for."""
        decoder = self.decoder
        self.away = None
        self.needs_input = False
        while not self.finished and self.asked is None and self.expected < EXPECTED_MAX:
            if self.out.size - self.out.start > OUT_BYTES_PAUSE:
                break
            if not decoder.next(command):
                if decoder.mode == Mode.BODY and decoder.before_mode == Mode.LINE:
                    self.line = decoder.input[decoder.before_at : decoder.at]
                self.needs_input = True
                break
            if self.serve(command):
                decoder.unread()
                break
        return decoder.settle()

    def serve(self, command):
        """Run a command. 1: it must wait, and nothing was done."""
        verb: cython.int = command.verb
        where: cython.int = where_of[verb]
        if where == Where.MISTAKE:
            self.finished = command.closes
            return self.say(MISTAKES[verb])
        if where == Where.WATCHED or verb == Verb.RESERVE_JOB or verb == Verb.KEEP_SESSION:
            self.may_hold = True
        if self.only is not None:
            if self.pass_on(command, self.only, where):
                return 1
            return self.note_passed(command) if where == Where.OWN or verb == Verb.KEEP_SESSION else 0
        if where == Where.OWN:
            return self.answer(command)
        if verb == Verb.CANCEL_RESERVE and self.hold is not None and self.hold.answered < self.hold_number:
            return self.pass_on(command, self.hold.shard, where)
        shards: tuple = self.shards_for(where, command)
        if len(shards) == 0:
            return self.say(b"NOT_FOUND\r\n")
        if None in shards:
            return self.gather(command, where, shards)
        if len(shards) == 1 and not always[verb]:
            if where != Where.WATCHED or self.lane_to(shards[0]) is not None:
                return self.pass_on(command, shards[0], where)
            self.away = None  # it waits for the shard for as long as for a job
        return self.gather(command, where, shards)

    def shards_for(self, where, command):
        """Return the shards that a command is for."""
        if where == Where.HOME or where == Where.TUBE:
            place: object = self.used_place if where == Where.HOME else self.places.place(self.tube_of(command))
            homes: tuple = place.homes
            return homes if len(homes) == 1 else (self.one_of(homes, command),)
        if where == Where.PLACES:
            return self.used_place.shards
        if where == Where.TUBE_PLACES:
            return self.places.place(self.tube_of(command)).shards
        if where == Where.ID:
            id: uint64_t = command.args.id if command.verb > Verb.EXPECTED_CRLF else command.id
            shard = self.places.shard_of_id(id)
            return () if shard is None else (shard,)
        if where == Where.IDS:
            ids: bytes = command.args.ids_at[: command.args.ids_bytes]
            return tuple({self.places.shard_of_id(int(each)): None for each in ids.split()})
        if where == Where.WATCHED:
            return self.watched_shards()
        return tuple(self.places.map.shards.values())

    def one_of(self, homes: tuple[Shard, ...], command: Command) -> Shard:
        """Return which home of a spread tube gets a job: by its group, else key, else token; else each in turn."""
        word: bytes = b""
        if command.verb == Verb.PUT_JOB:
            if command.args.given & bit(Kind.GROUP):
                word = command.args.group_at[: command.args.group_bytes]
            elif command.args.given & bit(Kind.KEY):
                word = command.args.key_at[: command.args.key_bytes]
            elif command.args.given & bit(Kind.ONCE):
                word = command.args.once_at[: command.args.once_bytes]
        if word:
            return home_of(self.tube_of(command) + b" " + word, homes)
        for _ in homes:
            self.spread += 1
            home = homes[self.spread % len(homes)]
            if self.is_there(home) and not self.lane_to(home).drains:
                break
        return homes[self.spread % len(homes)]

    def tube_of(self, command):
        """Return the tube that a command names, else the used one."""
        if command.verb <= Verb.EXPECTED_CRLF:
            return command.tube_at[: command.tube_bytes]
        if command.args.given & bit(Kind.TUBE):
            return command.args.tube_at[: command.args.tube_bytes]
        return self.used

    def pass_on(self, command, shard, where):
        """Send a command to its shard as it came. 1: it must wait."""
        lane: Lane = self.lane_to(shard)
        if lane is None or lane.out.size - lane.out.start > OUT_BYTES_PAUSE:
            return 1
        if self.hold is not None and self.hold is not lane:
            if self.hold.answered < self.hold_number:
                return 1  # it comes behind a reserve that waits on another shard
            self.hold = None
        if self.only is None and (where == Where.HOME or where == Where.PLACES or where == Where.TUBE):
            lane.use(self.used)
        decoder = self.decoder
        if decoder.before_mode == Mode.BODY:
            append(cython.address(lane.out), self.line, len(self.line))
        lane.ask(decoder.input + decoder.before_at, decoder.at - decoder.before_at)
        if where == Where.WATCHED and command.verb != Verb.CANCEL_RESERVE:
            self.hold = lane
            self.hold_number = lane.asked
            self.hold_line = decoder.input[decoder.before_at : decoder.at]
            self.hold_since_ns = self.now_ns
        return self.add_lane(lane)

    def note_passed(self, command):
        """Remember what the only shard knows of the session: another map may have more."""
        lane: Lane = cython.cast(Lane, self.lanes[self.only.name], typecheck=True)
        if command.verb == Verb.USE:
            self.used = lane.used = self.tube_of(command)
            self.used_place = self.places.place(self.used)
        elif command.verb == Verb.WATCH:
            tube = self.tube_of(command)
            lane.add(tube)
            self.watched[tube] = self.places.place(tube)
        elif command.verb == Verb.NAME_SESSION:
            self.named = self.decoder.input[self.decoder.before_at : self.decoder.at]
        elif command.verb == Verb.KEEP_SESSION:
            self.keeping = self.decoder.input[self.decoder.before_at : self.decoder.at]
        elif command.verb == Verb.IGNORE and not lane.watches_one():
            tube = self.tube_of(command)
            lane.remove(tube)
            self.watched.pop(tube, None)
        return 0

    def lane_to(self, shard):
        """Return the channel to a shard, which is opened if there is none; None: the shard is away."""
        if self.recent is not None and self.recent.shard is shard:
            return self.recent
        found = self.lanes.get(shard.name)
        if found is not None:
            self.recent = cython.cast(Lane, found, typecheck=True)
            return self.recent
        made: Lane = self.open_lane(shard)
        if made is None:
            self.away = shard
            return None
        self.lanes[shard.name] = made
        made.spare = True
        if self.named is not None:
            made.tell(self.named)
        if self.keeping is not None:
            made.tell(self.keeping)
        if self.only is not None:
            made.use(self.used)
        for tube, place in self.watched.items():
            if shard in place.shards:
                made.watch(tube)
        return made

    # --- other maps, lost shards --------------------------------------------------------------------------------------

    def use_places(self, places: Places) -> None:
        """Go on by another map, which may still have the last one before it; `move` does so for watched tubes."""
        shards = tuple(places.map.shards.values())
        self.places = places
        self.only = shards[0] if len(shards) == 1 and len(self.lanes) < 2 else None
        self.used_place = places.place(self.used)
        for each in self.lanes.values():
            lane: Lane = cython.cast(Lane, each, typecheck=True)
            lane.shard = places.map.shards.get(lane.shard.name, lane.shard)
        self.moving = list(self.watched)

    def move(self, most: cython.Py_ssize_t) -> int:
        """Look where watched tubes are by the map, so many of those that are left; return how many they were."""
        tubes = self.moving[-most:]
        del self.moving[-most:]
        for tube in tubes:
            if tube in self.watched:
                self.watched[tube] = self.places.place(tube)
        self.waiting_places = None
        has_waited: cython.bint = self.waits
        if has_waited:
            self.stop_waiting(None)  # what shards are told comes behind it, and then they are asked again
        elif self.hold is not None and self.hold.answered < self.hold_number:
            self.widen()
        for each in self.lanes.values():
            lane: Lane = cython.cast(Lane, each, typecheck=True)
            for tube in tubes:
                place = self.watched.get(tube)
                if place is not None and lane.shard in place.shards:
                    lane.watch(tube)
            for tube in tubes:
                place = self.watched.get(tube)
                if place is not None and lane.shard not in place.shards and lane.watches(tube):
                    lane.ignore(tube)
        if has_waited:
            self.ask_again(self.watched_shards()[0])
        self.run()
        return len(tubes)

    def widen(self) -> None:
        """Let a reserve that waits on one shard wait on all where jobs may be now: there it is cancelled for that."""
        lane, turn = self.hold, self.last
        is_last: cython.bint = lane.asked == self.hold_number and turn is not None and turn.lane is lane
        if not is_last or self.watched_shards() == (lane.shard,):
            return
        decoder = Decoder()
        decoder.receive(self.hold_line)
        command: Command = decoder.next_command()
        request = Request(self, command, self.hold_line, ())
        request.timeout_ns = max(request.timeout_ns - (self.now_ns - self.hold_since_ns), 0)
        turn.count -= 1
        if turn.count == 0:
            self.turns.pop()
        turn = Answering()
        turn.count = 1
        turn.gather = widened(request)
        next(turn.gather)
        self.turns.append(turn)
        self.last = turn
        self.asked, self.may_fail = [lane], [False]
        self.hold = None
        lane.tell(b"cancel-reserve\r\n")

    def lose(self, shard: Shard) -> bool:
        """Forget the channel to a shard whose link is lost. False: a command is under way there; close the client."""
        lane: Lane = self.lanes.pop(shard.name, None)
        self.recent = None
        if lane is None:
            return True
        if self.hold is lane:
            self.hold = None
        if self.waits and lane in self.asked:
            self.asked.remove(lane)
            self.stop_waiting(None)
            self.ask_again(shard)
            return True
        if lane.asked - lane.answered == lane.hushed_count():
            lane.answered = lane.asked  # a gather that has its answer waits for no other
            self.go_on()
            return True
        if self.waits or self.asked is None or lane not in self.asked or not self.may_fail[self.asked.index(lane)]:
            return False
        self.asked[self.asked.index(lane)] = None
        self.go_on()
        return True

    def find(self, shard: Shard) -> None:
        """Go on with what has waited for a shard, which is there again. To a kept session's jobs that is a return."""
        if self.keeping is not None:
            self.is_there(shard)
        if self.waits:
            turn: Answering = cython.cast(Answering, self.turns[0], typecheck=True)
            if turn.keeping is not None or shard in self.watched_shards():
                self.stop_waiting(None)
                self.ask_again(shard)
        elif self.away is not None:
            self.run()

    def let_go(self) -> bool:
        """Let shards know that a tube there is not the used one any more; return whether one had to be told.

        It is not said at once: who puts into tubes of several shards in turn would have each told of every job.
        """
        told: cython.bint = False
        if self.asked is None:
            for each in self.lanes.values():
                lane: Lane = cython.cast(Lane, each, typecheck=True)
                waits: cython.bint = (
                    lane is self.hold and lane.answered < self.hold_number
                )  # its cancel-reserve is next
                if lane.used != self.used and lane.used != DEFAULT and not waits:
                    lane.use(DEFAULT)
                    told = True
        return told

    # --- what is answered here ----------------------------------------------------------------------------------------

    def answer(self, command):
        """Answer what is about the session itself. 1: it must wait."""
        verb = command.verb
        if verb == Verb.USE:
            tube: bytes = self.tube_of(command)
            self.used, self.used_place = tube, self.places.place(tube)
            if self.is_there(self.used_place.homes[0]):
                self.lane_to(self.used_place.homes[0]).use(self.used)
            return self.say(b"USING " + tube + b"\r\n")
        if verb == Verb.WATCH:
            return self.watch(self.tube_of(command))
        if verb == Verb.IGNORE:
            return self.ignore(self.tube_of(command))
        if verb == Verb.LIST_TUBE_USED:
            return self.say(b"USING " + self.used + b"\r\n")
        if verb == Verb.LIST_TUBES_WATCHED:
            text: bytes = b"---\n" + b"".join([b"- " + each + b"\n" for each in self.watched])
            return self.say(b"OK %d\r\n%b\r\n" % (len(text), text))
        if verb == Verb.NAME_SESSION:
            decoder = self.decoder
            self.named = decoder.input[decoder.before_at : decoder.at]
            for each in self.lanes.values():
                cython.cast(Lane, each, typecheck=True).tell(self.named)
            return self.say(b"NAMED\r\n")
        if verb == Verb.QUIT:
            self.finished = True
            return 0
        return self.say(b"UNKNOWN_COMMAND\r\n")

    def watch(self, tube):
        """Watch a tube. A shard that is away is told when it is back."""
        if tube not in self.watched:
            place = self.places.place(tube)
            there = [shard for shard in place.shards if self.is_there(shard)]
            self.watched[tube] = place
            self.waiting_places = None
            for shard in there:
                self.lane_to(shard).watch(tube)
        return self.say(b"WATCHING %d\r\n" % len(self.watched))

    def ignore(self, tube):
        """Watch a tube no more."""
        if tube in self.watched:
            if len(self.watched) == 1:
                return self.say(b"NOT_IGNORED\r\n")
            del self.watched[tube]
            self.waiting_places = None
            for each in self.lanes.values():
                lane: Lane = cython.cast(Lane, each, typecheck=True)
                if lane.watches(tube):
                    lane.ignore(tube)
        return self.say(b"WATCHING %d\r\n" % len(self.watched))

    def say(self, words):
        """Answer in our own words, when it is their turn."""
        if not self.turns:
            return append(cython.address(self.out), words, len(words))
        turn: Answering = Answering()
        turn.words = words
        turn.count = 1
        self.expected += 1
        self.last = turn
        self.turns.append(turn)
        return 0

    # --- from the shards ----------------------------------------------------------------------------------------------

    def take(self, shard: Shard, data: bytes) -> None:
        """Take what a shard has sent. Raises UnexpectedReplyError: that is no reply."""
        self.take_replies(cython.cast(Lane, self.lanes[shard.name], typecheck=True), data, len(data))

    def take_replies(self, lane, data, size):
        """The same, from where it was received."""
        append(cython.address(lane.kept), data, size)
        return self.go_on()

    def go_on(self):
        """Give the client the replies whose turn it is, as far as they have come, and run what has waited for them."""
        while self.turns:
            turn: Answering = cython.cast(Answering, self.turns[0], typecheck=True)
            if turn.words is not None:
                append(cython.address(self.out), turn.words, len(turn.words))
                self.expected -= 1
            elif turn.gather is not None:
                if not self.go_on_gathering(turn):
                    return 0
            elif not self.deliver(turn):
                break
            del self.turns[0]
            if turn is self.last:
                self.last = None
        return self.run()

    def deliver(self, turn):
        """Pass on the replies of a lane; return whether these are all."""
        lane = turn.lane
        kept = cython.address(lane.kept)
        while turn.count:
            size: cython.Py_ssize_t = lane.available()
            if size == 0:
                return False
            is_hushed: cython.bint = lane.is_hushed()
            if not is_hushed:
                append(cython.address(self.out), kept.data + kept.start, size)
            if lane.give(size) and not is_hushed:
                turn.count -= 1
                self.expected -= 1
        return True

    def add_lane(self, lane):
        """Count one more reply of a lane."""
        turn: Answering = self.last
        if turn is None or turn.lane is not lane:
            turn = Answering()
            turn.lane = lane
            self.turns.append(turn)
            self.last = turn
        turn.count += 1
        self.expected += 1
        return 0

    # --- gathers ------------------------------------------------------------------------------------------------------

    def gather(self, command, where, shards):
        """Let a command for several shards begin, as soon as all before it is answered. 1: it must wait."""
        verb: cython.int = command.verb
        row = ROUTES[verb]
        if where != Where.WATCHED:
            away = [shard for shard in shards if shard is not None and not self.is_there(shard)]
            if away and (len(away) == len(shards) or not (where == Where.EVERY or row.partial)):
                self.away = away[0]
                return 1
        if row.gather is None:
            return self.say(b"NOT_WAITING\r\n")
        decoder = self.decoder
        turn: Answering = Answering()
        line: bytes = decoder.input[decoder.before_at : decoder.at]
        turn.gather = row.gather(Request(self, command, line, shards))
        turn.keeping = line if verb == Verb.KEEP_SESSION else None
        self.turns.append(turn)
        self.last = turn
        self.asked = []
        self.expected += 1
        if len(self.turns) == 1 and self.go_on_gathering(turn):
            self.turns.clear()
            self.last = None
        return 0

    def go_on_gathering(self, turn):
        """Go on with a gather as far as its answers have come; return whether its reply is made."""
        while True:
            found: object = self.collected() if turn.count else None
            if turn.count and found is None:
                return False
            if self.resume(turn, found):
                return True

    def resume(self, turn: Answering, found: object) -> bool:
        """Give a gather what it has asked for; return whether its reply is made."""
        try:
            questions = turn.gather.send(found)
        except StopIteration as end:
            append(cython.address(self.out), end.value, len(end.value))
            self.asked = None
            if turn.keeping is not None and end.value.startswith(b"KEPT "):
                self.keeping = turn.keeping
            self.expected -= 1
            return True
        except (ValueError, LookupError, ArithmeticError) as error:
            raise UnexpectedReplyError(f"{type(error).__name__}: {error}") from error
        turn.count = 1
        self.waits = isinstance(questions, Wait)
        self.until_ns = questions.until_ns if self.waits else None
        asks = questions.asks if self.waits else questions
        # A job that is under way over a link that is lost waits for a kept session: its client has to return for it.
        self.may_fail = [each.may_fail and (self.keeping is None or each.tells != Tells.WATCHED) for each in asks]
        self.asked = [self.put_question(each) for each in asks]
        if self.finished:
            self.asked = None
            return True
        may_cancel: cython.bint = self.waits and turn.keeping is None
        return may_cancel and self.decoder.take_cancel() == 1 and self.end_wait(turn, CANCELLED)

    def put_question(self, question: Ask) -> Lane | None:
        """Ask a shard on behalf of a gather. None: it is away, and need not answer."""
        lane: Lane = self.lane_to(question.shard)
        self.away = None
        if lane is None:
            self.finished = self.cut = not question.may_fail
            return None
        if question.tells == Tells.USED:
            lane.use(self.used)
        lane.ask(question.data, len(question.data))
        return lane

    def collected(self) -> object:
        """Return the replies to all questions; of those that wait the first, with its shard. None: it has not come."""
        for each in self.asked:
            if each is None:
                continue
            lane: Lane = cython.cast(Lane, each, typecheck=True)
            while lane.answered < lane.asked:
                size: cython.Py_ssize_t = lane.available()
                if size == 0:
                    if self.waits:
                        break
                    return None
                is_hushed: cython.bint = lane.is_hushed()
                if not is_hushed:
                    append(cython.address(lane.whole), lane.kept.data + lane.kept.start, size)
                if lane.give(size) and self.waits and not is_hushed:
                    reply = self.reply_of(lane)
                    self.stop_waiting(lane)
                    return lane.shard, reply
        return None if self.waits else [self.reply_of(each) for each in self.asked]

    def reply_of(self, lane: Lane | None) -> bytes:
        """Return the reply that a gather has of a shard; empty: the shard is away."""
        if lane is None:
            return b""
        return taken(cython.address(lane.whole))

    def stop_waiting(self, answered: Lane | None) -> None:
        """End the waiting of the gather on all shards but one that has answered; nobody is given what they say."""
        self.waits = False
        for each in self.asked:
            if each is not None and each is not answered:
                lane: Lane = cython.cast(Lane, each, typecheck=True)
                taken(cython.address(lane.whole))
                lane.hush()
                lane.tell(b"cancel-reserve\r\n")

    def end_wait(self, turn: Answering, words: bytes) -> bool:
        """Let a gather that waits end, and add our own words to its reply; return whether it has ended."""
        self.stop_waiting(None)
        is_over = self.resume(turn, None)
        append(cython.address(self.out), words, len(words))
        return is_over

    def ask_again(self, shard: Shard) -> None:
        """Let a gather that has waited ask a shard for a job, and then wait again wherever one may be by now."""
        if self.resume(cython.cast(Answering, self.turns[0], typecheck=True), (shard, b"")):
            self.forget_wait()
        self.go_on()

    def forget_wait(self) -> None:
        """Go on behind a gather that has ended."""
        del self.turns[0]
        self.last = None

    def wake(self) -> None:
        """End a wait whose time is over, as its shards will say, too. Call it when the clock says `until_ns`."""
        if self.waits and self.until_ns is not None and self.clock() >= self.until_ns:
            if self.end_wait(cython.cast(Answering, self.turns[0], typecheck=True), b""):
                self.forget_wait()
            self.go_on()

    # --- what gathers ask ---------------------------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        return self.clock()

    def watched_shards(self) -> tuple[Shard, ...]:
        if self.waiting_places is None:
            self.waiting_places = tuple(
                {each.name: each for place in self.watched.values() for each in place.shards}.values()
            )
        return self.waiting_places

    def place(self, tube: bytes) -> Place:
        return self.places.place(tube)

    def home(self, tube: bytes, name: bytes) -> Shard:
        homes = self.places.place(tube).homes
        return homes[0] if len(homes) == 1 else home_of(tube + b" " + name, homes)

    def shard_of_id(self, id: int) -> Shard | None:
        return self.places.shard_of_id(id)

    def is_there(self, shard: Shard) -> bool:
        there: cython.bint = self.lane_to(shard) is not None
        self.away = None
        return there

    def facts(self) -> Mapping[bytes, bytes]:
        return self.about

    # --- for those who have bytes -------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the client is to be closed when all of `out` has gone."""
        return self.finished and not self.turns

    @property
    def is_idle(self) -> bool:
        """Whether it can be closed without harm: no command is under way, and no shard may have given it a job."""
        decoder = self.decoder
        is_between: cython.bint = decoder.at == decoder.end and decoder.mode == Mode.LINE
        return is_between and not self.turns and not self.may_hold

    def lane(self, shard: Shard) -> Lane:
        return cython.cast(Lane, self.lanes[shard.name], typecheck=True)

    def take_out(self) -> bytes:
        """Return what is to be sent to the client, as if it had been sent."""
        return taken(cython.address(self.out))

    def take_asked(self) -> dict[str, bytes]:
        """Return what is to be sent to shards, by their names, as if it had been sent."""
        found = {}
        for name, each in self.lanes.items():
            lane: Lane = cython.cast(Lane, each, typecheck=True)
            if lane.out.size > lane.out.start:
                found[name] = taken(cython.address(lane.out))
        return found


for each, row in ROUTES.items():
    where_of[cython.cast(cython.int, each)] = row.by
    always[cython.cast(cython.int, each)] = row.always

for each in MISTAKES:
    where_of[cython.cast(cython.int, each)] = Where.MISTAKE
