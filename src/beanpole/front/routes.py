"""Where each command goes in a map of shards, and what becomes of one that has several destinations.

ROUTES has a row a verb. A command with one destination is passed through; with several it is a gather.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from beanpole.errors import ScheduleError
from beanpole.front.gather import (
    NOT_FOUND,
    Ask,
    Gather,
    Gathering,
    Request,
    Tells,
    Wait,
    ask,
    ask_all,
    ask_there,
    best,
    frames_of,
    line,
    number_of,
    text_of,
    there,
    words_of,
)
from beanpole.front.limits import KEPT_JOBS_MAX, KEPT_WAIT_NS, PAGE_BYTES
from beanpole.front.merging import (
    GROUPS_BY_HELD,
    LISTS,
    fires_at,
    first_frames,
    merged,
    merged_lists,
    ok,
    rank,
    read,
    schedules_by_name,
    split_items,
    write,
)
from beanpole.limits import RESERVE_TIMEOUT_S_MAX, SHARD_ID_BITS
from beanpole.protocol.commands import Verb
from beanpole.protocol.extensions import FEATURE_NAMES
from beanpole.schedules.document import TUBE_DEFAULT, parse
from beanpole.shards.map import Shard

TIMED_OUT = b"TIMED_OUT\r\n"
DEADLINE_SOON = b"DEADLINE_SOON\r\n"
NO_JOB = (TIMED_OUT, DEADLINE_SOON, b"")
TOLD = b"JOBS 0\r\n"  # of a reserve-many 0: there is a job

# --- Jobs -------------------------------------------------------------------------------------------------------------


def by_ids(request: Request) -> Gathering[bytes]:
    """delete-many, touch-many: each shard gets its ids; those that were not found are named in the order asked.

    Of an id that is asked for twice it is the later one that is not found.
    """
    verb, *ids = request.words
    places = [request.client.shard_of_id(int(id)) for id in ids]
    parts: dict[str, tuple[Shard, list[bytes]]] = {}
    for place, id in zip(places, ids, strict=True):
        if place is not None:
            parts.setdefault(place.name, (place, []))[1].append(id)
    replies = yield [Ask(shard, line(verb, *part)) for shard, part in parts.values()]
    word = b"DELETED" if request.verb == Verb.DELETE_MANY else b"TOUCHED"
    refusal = next((reply for reply in replies if not reply.startswith(word)), None)
    if refusal is not None:
        return bytes(refusal)
    missing = {name: words_of(reply)[2:] for name, reply in zip(parts, replies, strict=True)}
    named = []
    for place, id in zip(reversed(places), reversed(ids), strict=True):
        if place is None:
            named.append(id)
        elif missing[place.name] and int(missing[place.name][-1]) == int(id):
            named.append(missing[place.name].pop())
    return line(word, b"%d" % sum(map(number_of, replies)), *reversed(named))


def in_turn(
    shards: Iterable[Shard], word: bytes, bound: int, command: Callable[[int], bytes], tells: Tells = Tells.NOTHING
) -> Gathering[bytes]:
    """Ask one shard after the other for what the bound has left; return the sum. A refusal ends it."""
    done = 0
    for shard in shards:
        reply = yield from ask(shard, command(bound - done), tells)
        if not reply.startswith(word):
            return line(word, b"%d" % done) if done else reply
        done += number_of(reply)
        if done >= bound:
            break
    return line(word, b"%d" % done)


def kick(request: Request) -> Gathering[bytes]:
    """kick: buried jobs, where there are any at some place; else delayed ones."""
    replies = yield from ask_all(request.shards, line(b"stats-tube", request.client.used))
    counts = [read(text_of(reply))[0] if reply.startswith(b"OK ") else {} for reply in replies]
    places: list[Shard] = []
    for key in (b"current-jobs-buried", b"current-jobs-delayed"):
        places = places or [
            shard for shard, count in zip(request.shards, counts, strict=True) if int(count.get(key, 0))
        ]
    return (yield from in_turn(places, b"KICKED", request.bound, lambda left: b"kick %d\r\n" % left, Tells.USED))


def move_jobs(request: Request) -> Gathering[bytes]:
    """move-jobs: where the other tube has a home; a job elsewhere can't leave its shard."""
    verb, tube, state, _, *options = request.words
    to = request.arguments.get("to")
    homes = request.shards if to is None else request.client.place(to).homes
    group = [word for word in options if word.startswith(b"group=")]
    others = [shard for shard in request.shards if shard not in homes]
    if any(reply != TOLD for reply in (yield from ask_all(others, line(b"list-jobs", tube, state, b"1", *group)))):
        return elsewhere(homes[0])
    places = [shard for shard in request.shards if shard in homes]
    command = lambda left: line(verb, tube, state, b"%d" % left, *options)  # noqa: E731
    return (yield from in_turn(places, b"MOVED", request.bound, command))


def elsewhere(shard: Shard) -> bytes:
    return line(b"ELSEWHERE", shard.name.encode())


def change_job(request: Request) -> Gathering[bytes]:
    """change-job: into another tube only if that has a home where the job is."""
    tube = request.arguments.get("tube")
    (shard,) = request.shards
    homes = request.shards if tube is None else request.client.place(tube).homes
    return (yield from ask(shard, request.data)) if shard in homes else elsewhere(homes[0])


def clear(request: Request) -> Gathering[bytes]:
    """clear-tube: at all places; the sum."""
    replies = yield from ask_all(request.shards, request.data)
    refusal = next((reply for reply in replies if not reply.startswith(b"CLEARED")), None)
    return line(b"CLEARED", b"%d" % sum(map(number_of, replies))) if refusal is None else refusal


def peek(request: Request) -> Gathering[bytes]:
    """peek-ready, peek-delayed, peek-buried: the best of the first jobs; lists say how good they are."""
    state = request.words[0].removeprefix(b"peek-")
    shards = there(request)
    replies = yield [Ask(shard, request.data, Tells.USED) for shard in shards]
    found = [i for i, reply in enumerate(replies) if reply.startswith(b"FOUND ")]
    if len(found) < 2:
        return best(replies, b"FOUND ")
    listed = line(b"list-jobs", request.client.used, state, b"1", b"order=next", b"fields=left")
    lists = map(frames_of, (yield from ask_all([shards[i] for i in found], listed)))
    # A job that is in no list is of a group that is closed, as all of its tube are.
    ranks = [rank(frames[0]) if frames else (float("inf"), 0, 0) for frames in lists]
    return bytes(replies[min(zip(ranks, found, strict=True))[1]])


def till_found(request: Request) -> Gathering[bytes]:
    """Ask one shard after the other until one has it; one that drains may not have looked."""
    replies = []
    for shard in request.shards:
        replies.append((yield from ask(shard, request.data)))
        if replies[-1] not in (NOT_FOUND, b"DRAINING\r\n"):
            return replies[-1]
    return best(replies, b"DRAINING")


def pause(request: Request) -> Gathering[bytes]:
    """pause-tube, pause-group: at all places; whether one has it."""
    return best((yield from ask_all(request.shards, request.data)), b"PAUSED")


# --- reserve ----------------------------------------------------------------------------------------------------------


def reserve(request: Request) -> Gathering[bytes]:
    """reserve, reserve-with-timeout, reserve-many: ask each place without waiting, then wait at all of them at once."""
    client = request.client
    question = b"reserve-with-timeout 0\r\n"
    if request.verb == Verb.RESERVE_MANY:
        question = line(request.words[0], request.words[1], b"0", *request.words[3:])
    until_ns = None if request.verb == Verb.RESERVE else client.now_ns + request.timeout_ns
    replies = []
    for shard in client.reserving.order(client.watched_shards(), client.now_ns):
        replies.append((yield from take(request, shard, question)))
        if replies[-1] not in NO_JOB:
            return replies[-1]
    if DEADLINE_SOON in replies:
        return DEADLINE_SOON
    while until_ns is None or client.now_ns < until_ns:
        event = yield Wait(waiting(request, until_ns), until_ns)
        if event is None:
            break
        shard, reply = event
        if reply in (TOLD, b""):
            reply = yield from take(request, shard, question)
        if reply not in (TIMED_OUT, b""):
            return bytes(reply)
    return TIMED_OUT


def widened(request: Request) -> Gathering[bytes]:
    """A reserve that has waited on one shard, and was cancelled there: unless it has its answer, it goes on at all."""
    (reply,) = yield []
    return bytes(reply) if reply != TIMED_OUT else (yield from reserve(request))


def take(request: Request, shard: Shard, question: bytes) -> Gathering[bytes]:
    """Ask a shard for a job that is there, and note whether it had one."""
    (reply,) = yield [Ask(shard, question, Tells.WATCHED, may_fail=True)]
    request.client.reserving.note(shard, request.client.now_ns, gave=reply not in NO_JOB)
    return bytes(reply)


def waiting(request: Request, until_ns: int | None) -> list[Ask]:
    """Return the questions that wait at all places that are there. They take no job: that is asked for behind them."""
    client = request.client
    left_ms = RESERVE_TIMEOUT_S_MAX * 1_000 if until_ns is None else (until_ns - client.now_ns + 999_999) // 10**6
    question = b"reserve-many 0 %d.%03d\r\n" % divmod(left_ms, 1_000)
    places = [shard for shard in client.watched_shards() if client.is_there(shard)]
    return [Ask(shard, question, Tells.WATCHED, may_fail=True) for shard in places]


def keep_session(request: Request) -> Gathering[bytes]:
    """keep-session: of all that are there; one that is away is waited for a while, as it may have jobs of who returns.

    What has no room in the line goes back, as no client is told of it.
    """
    client = request.client
    until_ns = client.now_ns + KEPT_WAIT_NS
    replies: list[tuple[Shard, bytes]] = []
    while len(replies) < len(request.shards):  # one may be lost before it answers
        while client.now_ns < until_ns and not all(map(client.is_there, request.shards)):
            yield Wait([], until_ns)
        replies = yield from ask_there(request)
        if client.now_ns >= until_ns:
            break
    refusal = next((reply for _, reply in replies if not reply.startswith(b"KEPT ")), None)
    if refusal is not None:
        return refusal
    held = [(shard, id) for shard, reply in replies for id in words_of(reply)[2:]]
    for shard, id in held[KEPT_JOBS_MAX:]:
        yield from ask(shard, line(b"snooze-job", id, b"0"))
    ids = [id for _, id in held[:KEPT_JOBS_MAX]]
    return line(b"KEPT", b"%d" % len(ids), *ids)


# --- Lists and statistics ---------------------------------------------------------------------------------------------


def list_jobs(request: Request) -> Gathering[bytes]:
    """list-jobs: by id, or with order=next each shard's in its order, the best first."""
    if "order" not in request.arguments:
        return (yield from by_number(request))
    words = [word for word in request.words if not word.startswith(b"fields=")]
    fields = [*filter(None, request.arguments.get("fields", "").split(",")), "left"]  # to compare delays by
    words.append(b"fields=" + ",".join(dict.fromkeys(fields)).encode())
    replies = yield from ask_all(there(request), line(*words))
    refusal = next((reply for reply in replies if not reply.startswith(b"JOBS ")), None)
    return first_frames(replies, rank, request.limit) if refusal is None else refusal


def by_number(request: Request) -> Gathering[bytes]:
    """list-jobs, list-sessions: ids rise with the numbers of shards, so mostly one shard has the page."""
    of_jobs = request.verb == Verb.LIST_JOBS
    words = [word for word in request.words if not word.startswith((b"after=", b"limit="))]
    found: list[bytes] = []
    size = 0
    for number, at in sorted([(number, at) for at, each in enumerate(request.shards) for number in each.numbers]):
        behind = max(request.arguments.get("after", -1), (number << SHARD_ID_BITS) - 1)
        end = number + 1 << SHARD_ID_BITS
        if behind + 1 >= end:
            continue
        left = b"%d" % (request.limit - len(found))
        asked = [*words[:3], left, *words[4:]] if of_jobs else [*words, b"limit=" + left]
        after = [] if behind < 0 else [b"after=%d" % behind]
        (reply,) = yield [Ask(request.shards[at], line(*asked, *after), may_fail=True)]
        if not reply:
            continue
        if not reply.startswith((b"JOBS ", b"OK ")):
            return bytes(reply)
        items = frames_of(reply) if of_jobs else split_items(text_of(reply))
        for item in items:
            id = number_of(item) if of_jobs else int(item[len("- number: ") : item.index(b"\n")])
            shown = int(words_of(item)[2]) if of_jobs else len(item)
            if id >= end:
                break  # of a further number of this shard
            if found and size + shown > PAGE_BYTES:
                return page_of(found, of_jobs=of_jobs, more=True)
            found.append(item)
            size += shown
        else:
            if len(found) == request.limit or b"next=" in words_of(reply)[-1]:
                return page_of(found, of_jobs=of_jobs, more=True)
    return page_of(found, of_jobs=of_jobs, more=False)


def page_of(items: list[bytes], *, of_jobs: bool, more: bool) -> bytes:
    """Return a page of jobs or sessions."""
    if not of_jobs:
        return ok(b"".join(items))
    behind = b" next=%d" % number_of(items[-1]) if more else b""
    return b"JOBS %d%b\r\n%b" % (len(items), behind, b"".join(items))


def list_schedules(request: Request) -> Gathering[bytes]:
    """list-schedules: by name, or with order=next those that fire first."""
    replies = yield from ask_all(there(request), request.data)
    refusal = next((reply for reply in replies if not reply.startswith(b"SCHEDULES ")), None)
    if refusal is not None:
        return refusal
    if "order" in request.arguments:
        return first_frames(replies, fires_at, request.limit)
    return schedules_by_name(replies, request.limit)


def texts(request: Request) -> Gathering[tuple[list[tuple[Shard, bytes]], bytes]]:
    """Ask the shards that are there; return the texts of those that have one, and the reply if none has."""
    replies = yield from ask_there(request)
    found = [(shard, text_of(reply)) for shard, reply in replies if reply.startswith(b"OK ")]
    return found, best([reply for _, reply in replies], b"OK ")


def summed(request: Request) -> Gathering[bytes]:
    """stats, stats-tube and lists: the sums. Histograms with other bounds, of another version, are left out.

    Each tube says by name which shards have it, and `stats` which are away.
    """
    found, refusal = yield from texts(request)
    if not found:
        return refusal
    parts = [read(text) for _, text in found]
    for (shard, _), (head, items) in zip(found, parts, strict=True):
        for each in items if request.verb == Verb.STATS_TUBES else [head] if request.verb == Verb.STATS_TUBE else []:
            each[b"shards"] = shard.name.encode()
    parts = [part for part in parts if part[0].get(b"bounds") == parts[0][0].get(b"bounds")]
    head = merged([part[0] for part in parts])
    if request.verb == Verb.STATS:
        there = [shard for shard, _ in found]
        away = [shard.name for shard in request.shards if shard not in there]
        head |= {b"shards": b"%d" % len(request.shards), b"shards-missing": b"%d" % len(away)}
        head |= {b"shards-away": ", ".join(away).encode()} if away else {}
        head |= request.client.facts()
    if request.verb not in LISTS:
        return write(head)
    by_held = request.arguments.get("order") == "held"
    listed = GROUPS_BY_HELD if by_held else LISTS[request.verb]
    return write_list(head, merged_lists(listed, [part[1] for part in parts], request.limit))


def write_list(head: dict[bytes, bytes], items: Sequence[dict[bytes, bytes]]) -> bytes:
    """Return the reply with a list, and a mapping before it whose last key has that list, if there is one."""
    if head:
        head[[*head][-1]] = b"" if items else b"[]"
    return write(head, items)


def explained(request: Request) -> Gathering[bytes]:
    """explain, explain-tube: each reason says which shard it is of."""
    found, refusal = yield from texts(request)
    if not found:
        return refusal
    parts = [(shard, *read(text)) for shard, text in found]
    said = [(b'{"shard": "%b", ' % shard.name.encode(), reason) for shard, _, reasons in parts for reason in reasons]
    named = [{word: (by + facts[1:]).replace(b", }", b"}") for word, facts in reason.items()} for by, reason in said]
    return write_list(merged([head for _, head, _ in parts]), named)


def list_tubes(request: Request) -> Gathering[bytes]:
    """list-tubes: each name once."""
    found, refusal = yield from texts(request)
    return ok(b"".join(dict.fromkeys([name for _, text in found for name in split_items(text)]))) if found else refusal


def list_extensions(request: Request) -> Gathering[bytes]:
    """list-extensions: what all shards and this program know."""
    found, refusal = yield from texts(request)
    known = [{*split_items(text)} for _, text in found]
    names = [b"- %b\n" % name for name in FEATURE_NAMES]
    return ok(b"".join([name for name in names if all(name in each for each in known)])) if found else refusal


# --- Rules and schedules ----------------------------------------------------------------------------------------------


def on_all(request: Request) -> Gathering[bytes]:
    """set-rules, drop-rules: on all shards, or if one is away on none."""
    away = next((shard for shard in request.shards if not request.client.is_there(shard)), None)
    if away is not None:
        return partly(request, 0, away, b"is away")
    wanted = b"RULES_SET" if request.verb == Verb.SET_RULES else b"DROPPED"
    replies = yield from ask_all(request.shards, request.data)
    refused = [i for i, reply in enumerate(replies) if not reply.startswith((wanted, NOT_FOUND))]
    if len(refused) in (0, len(replies)):
        return best(replies, wanted)
    why = b"says " + replies[refused[0]].removesuffix(b"\r\n")
    return partly(request, len(replies) - len(refused), request.shards[refused[0]], why)


def partly(request: Request, count: int, shard: Shard, why: bytes) -> bytes:
    done = b"set" if request.verb == Verb.SET_RULES else b"dropped"
    said = (done, count, len(request.shards), shard.name.encode(), why)
    return b"BAD_RULES 0 %b on %d of %d shards: %b %b; send it again\r\n" % said


def set_schedule(request: Request) -> Gathering[bytes]:
    """set-schedule: at the home of its tube, for there its jobs are put; no other shard may have its name."""
    name = request.words[1]
    try:
        tube = parse(text_of(request.data)).tube
    except ScheduleError:
        tube = TUBE_DEFAULT  # any shard says what is wrong with it
    home = request.client.home(tube, name)
    others = [shard for shard in request.shards if shard.name != home.name]
    replies = yield from ask_all(others, line(b"get-schedule", name))
    for shard, reply in zip(others, replies, strict=True):
        if reply != NOT_FOUND:
            return b"BAD_SCHEDULE 0 shard %b has a schedule of this name: drop it first\r\n" % shard.name.encode()
    return (yield from ask(home, request.data))


# --- The table --------------------------------------------------------------------------------------------------------


class By(IntEnum):
    """What says where a command goes; numbered as Where of session.pxd."""

    OWN = 0  # the router answers it itself
    USED_HOME = 1  # the home of the tube in use; of a spread tube one of them
    USED = 2  # all places of the tube in use
    HOME = 3  # the home of the tube that is named, else in use
    TUBE = 4  # all its places
    ID = 5
    IDS = 6
    EVERY = 7  # all shards
    WATCHED = 8  # all places of the watched tubes


class Row(NamedTuple):
    """Where a command goes."""

    by: By
    gather: Gather | None = None  # what becomes of it where there are several destinations
    always: bool = False  # that is done with one destination as well, if the map has several shards
    partial: bool = False  # of several destinations those that are there will do: it only shows something


ROUTES: dict[Verb, Row] = {
    **dict.fromkeys((Verb.USE, Verb.WATCH, Verb.IGNORE, Verb.LIST_TUBE_USED, Verb.LIST_TUBES_WATCHED), Row(By.OWN)),
    **dict.fromkeys((Verb.NAME_SESSION, Verb.QUIT), Row(By.OWN)),
    Verb.PUT: Row(By.USED_HOME),
    Verb.PUT_JOB: Row(By.HOME),
    Verb.CANCEL_RESERVE: Row(By.WATCHED),
    **dict.fromkeys((Verb.DELETE, Verb.RELEASE, Verb.BURY, Verb.TOUCH, Verb.KICK_JOB, Verb.PEEK), Row(By.ID)),
    **dict.fromkeys((Verb.STATS_JOB, Verb.RESERVE_JOB, Verb.FAIL_JOB, Verb.SNOOZE_JOB), Row(By.ID)),
    **dict.fromkeys((Verb.CHANGE_BODY, Verb.CANCEL_JOB), Row(By.ID)),
    Verb.CHANGE_JOB: Row(By.ID, change_job, always=True),
    Verb.EXPLAIN: Row(By.ID, explained, always=True),
    **dict.fromkeys((Verb.DELETE_MANY, Verb.TOUCH_MANY), Row(By.IDS, by_ids)),
    Verb.GET_RULES: Row(By.HOME),
    Verb.MOVE_JOBS: Row(By.TUBE, move_jobs, always=True),
    Verb.CLEAR_TUBE: Row(By.TUBE, clear),
    **dict.fromkeys((Verb.FIND_JOB, Verb.CANCEL_KEY), Row(By.TUBE, till_found)),
    **dict.fromkeys((Verb.PAUSE_TUBE, Verb.PAUSE_GROUP), Row(By.TUBE, pause)),
    **dict.fromkeys((Verb.STATS_TUBE, Verb.STATS_GROUPS), Row(By.TUBE, summed, partial=True)),
    Verb.LIST_JOBS: Row(By.TUBE, list_jobs, partial=True),
    Verb.EXPLAIN_TUBE: Row(By.TUBE, explained, always=True, partial=True),
    Verb.KICK: Row(By.USED, kick),
    **dict.fromkeys((Verb.PEEK_READY, Verb.PEEK_DELAYED, Verb.PEEK_BURIED), Row(By.USED, peek, partial=True)),
    **dict.fromkeys((Verb.RESERVE, Verb.RESERVE_WITH_TIMEOUT, Verb.RESERVE_MANY), Row(By.WATCHED, reserve)),
    Verb.KEEP_SESSION: Row(By.EVERY, keep_session),
    Verb.LIST_SESSIONS: Row(By.EVERY, by_number),
    **dict.fromkeys((Verb.STATS, Verb.STATS_TUBES, Verb.STATS_HISTOGRAMS), Row(By.EVERY, summed)),
    **dict.fromkeys((Verb.STATS_FAILURES, Verb.LIST_RULES), Row(By.EVERY, summed)),
    Verb.LIST_TUBES: Row(By.EVERY, list_tubes),
    Verb.LIST_EXTENSIONS: Row(By.EVERY, list_extensions),
    **dict.fromkeys((Verb.SET_RULES, Verb.DROP_RULES), Row(By.EVERY, on_all)),
    Verb.SET_SCHEDULE: Row(By.EVERY, set_schedule),
    Verb.LIST_SCHEDULES: Row(By.EVERY, list_schedules),
    **dict.fromkeys((Verb.GET_SCHEDULE, Verb.DROP_SCHEDULE), Row(By.EVERY, till_found)),
    **dict.fromkeys((Verb.PAUSE_SCHEDULE, Verb.FIRE_SCHEDULE), Row(By.EVERY, till_found)),
}
"""Where a command goes, by its verb. A mistake goes nowhere."""
