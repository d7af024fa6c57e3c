"""What becomes of a command that has several destinations: three shards answer as one server does, where they can."""

import pytest

from beanpole.front.gather import Ask
from beanpole.front.merging import ok
from beanpole.front.routes import ROUTES
from beanpole.limits import SHARD_ID_BITS
from beanpole.protocol.commands import Verb
from tests.unit.front.shards import FIRST_B, FIRST_C, A, B, C, Session

MISTAKES = {Verb.NONE, Verb.UNKNOWN_COMMAND, Verb.BAD_FORMAT, Verb.JOB_TOO_BIG, Verb.EXPECTED_CRLF, Verb.VERB_COUNT}


@pytest.fixture
def session() -> Session:
    return Session(here=A, there=B)


def lines_of(reply: bytes) -> list[str]:
    """The lines of a text behind OK, without the first."""
    return reply.decode().splitlines()[2:-1] if reply.endswith(b"\n\r\n") else reply.decode().splitlines()[2:]


def ids_of(reply: bytes) -> list[int]:
    return [int(line.split()[1]) for line in reply.decode().splitlines() if line.startswith("JOB ")]


def test_every_verb_has_a_row() -> None:
    assert set(ROUTES) == set(Verb) - MISTAKES - {Verb.AUTH, Verb.LIST_RIGHTS}, "a router has no users"


# --- Jobs -------------------------------------------------------------------------------------------------------------


def test_jobs_by_their_ids_are_named_in_the_order_asked_where_they_are_not_found(session: Session) -> None:
    for shard in (A, B, C):
        session.put(shard, b"t", b"x")
    unknown = 9 << 43
    said = session.say(b"delete-many %d 1 %d 1 %d 99 %d" % (FIRST_C + 1, unknown, FIRST_B + 2, FIRST_B + 1))
    assert said == b"DELETED 3 %d 1 %d 99\r\n" % (unknown, FIRST_B + 2)
    assert session.say(b"touch-many %d %d" % (FIRST_B + 9, unknown)) == b"TOUCHED 0 %d %d\r\n" % (FIRST_B + 9, unknown)


def bury(session: Session, *shards: object) -> None:
    for shard in shards:
        id = session.put(shard, b"t", b"x")  # type: ignore[arg-type]
        server = session.servers[shard]  # type: ignore[index]
        server.say(b"reserve-job %d" % id)
        server.say(b"bury %d 0" % id)


def test_kick_takes_buried_jobs_of_all_places_before_a_delayed_one(session: Session) -> None:
    session.put(A, b"t", b"x", delay=9)
    bury(session, B, C, C)
    session.say(b"use t")
    session.asked.clear()
    assert session.say(b"kick 2") == b"KICKED 2\r\n"
    assert session.asked[3:] == [("b", b"kick 2"), ("c", b"kick 1")]
    assert session.say(b"kick 9") == b"KICKED 1\r\n"
    assert session.say(b"kick 9") == b"KICKED 1\r\n"
    assert session.say(b"kick 9") == b"KICKED 0\r\n"


def test_move_jobs_has_one_bound_for_all_places(session: Session) -> None:
    for shard in (A, B, C, C):
        session.put(shard, b"t", b"x")
    assert session.say(b"move-jobs t ready 3 to=u") == b"MOVED 3\r\n"
    assert session.say(b"move-jobs t ready 3 to=u") == b"MOVED 1\r\n"


def test_no_job_is_moved_to_a_tube_that_is_elsewhere(session: Session) -> None:
    session.put(B, b"t", b"x")
    assert session.say(b"move-jobs t ready 3 to=here") == b"ELSEWHERE a\r\n"
    session.asked.clear()
    assert session.say(b"move-jobs t ready 3 to=there") == b"MOVED 1\r\n"
    assert [name for name, line in session.asked if line.startswith(b"move-jobs")] == ["b"]
    assert session.say(b"change-job %d tube=here" % (FIRST_B + 1)) == b"ELSEWHERE a\r\n"
    assert session.say(b"change-job %d tube=t" % (FIRST_B + 1)) == b"CHANGED\r\n"
    assert session.say(b"change-job %d pri=3" % (FIRST_B + 1)) == b"CHANGED\r\n"


def test_clear_tube_clears_all_places(session: Session) -> None:
    for shard in (A, B, B):
        session.put(shard, b"t", b"x")
    assert session.say(b"clear-tube t ready") == b"CLEARED 3\r\n"


def test_peek_shows_the_best_of_all_places(session: Session) -> None:
    session.say(b"use t")
    assert session.say(b"peek-ready") == b"NOT_FOUND\r\n"
    session.put(A, b"t", b"aa", pri=5)
    session.put(B, b"t", b"b", pri=4)
    session.put(C, b"t", b"c", pri=4)
    assert session.say(b"peek-ready") == b"FOUND %d 1\r\nb\r\n" % (FIRST_B + 1)
    session.put(A, b"t", b"d", pri=1, delay=7)
    session.put(C, b"t", b"e", pri=2, delay=6)
    assert session.say(b"peek-delayed") == b"FOUND %d 1\r\ne\r\n" % (FIRST_C + 2)


def test_peek_ready_shows_a_job_of_a_closed_group_only_if_no_other_place_has_one(session: Session) -> None:
    session.say(b"use t")
    server = session.servers[A]
    server.say(b"put-job 1 tube=t group=g pri=0\r\nx")
    server.say(b"pause-group t g 60")
    assert session.say(b"peek-ready") == b"FOUND 1 1\r\nx\r\n"
    session.put(B, b"t", b"y", pri=9)
    assert session.say(b"peek-ready") == b"FOUND %d 1\r\ny\r\n" % (FIRST_B + 1)


def test_a_key_is_looked_for_at_all_places(session: Session) -> None:
    session.servers[C].say(b"put-job 1 tube=t key=k\r\nx")
    assert session.say(b"find-job t k") == b"FOUND %d 1\r\nx\r\n" % (FIRST_C + 1)
    assert session.say(b"cancel-key t k") == b"CANCELLED %d\r\n" % (FIRST_C + 1)
    assert session.say(b"find-job t k") == b"NOT_FOUND\r\n"


def test_a_pause_holds_at_all_places_that_have_the_tube(session: Session) -> None:
    assert session.say(b"pause-tube t 9") == b"NOT_FOUND\r\n"
    session.put(B, b"t", b"x")
    assert session.say(b"pause-tube t 9") == b"PAUSED\r\n"
    assert "pause: 9" in lines_of(session.say(b"stats-tube t"))


# --- Lists ------------------------------------------------------------------------------------------------------------


def pages_of(session: Session, command: bytes) -> list[list[int]]:
    """The ids of each page of list-jobs, up to the last one."""
    pages = []
    more = b""
    while True:
        reply = session.say(command + more)
        pages.append(ids_of(reply))
        head = reply.split(b"\r\n")[0].split()
        if len(head) < 3:
            return pages
        more = b" after=" + head[2].removeprefix(b"next=")


def test_list_jobs_goes_on_behind_an_id_whatever_shard_gave_it(session: Session) -> None:
    a, b, c = [[session.put(shard, b"t", b"x") for _ in range(3)] for shard in (A, B, C)]
    assert pages_of(session, b"list-jobs t ready 2") == [a[:2], [a[2], b[0]], b[1:], c[:2], c[2:]]
    assert ids_of(session.say(b"list-jobs t ready 9 after=%d" % b[1])) == [b[2], *c]
    assert ids_of(session.say(b"list-jobs t ready 1 after=%d" % (b[0] - 1))) == b[:1]
    session.asked.clear()
    session.say(b"list-jobs t ready 2")
    assert [name for name, _ in session.asked] == ["a"]


def test_a_page_ends_with_its_bodies(session: Session) -> None:
    for shard in (A, B, C):
        for _ in range(3):
            session.put(shard, b"t", b"x" * 60_000)
    assert [len(page) for page in pages_of(session, b"list-jobs t ready 100 bodies=65535")] == [4, 4, 1]


def test_list_jobs_in_order_has_the_best_of_all_places_first(session: Session) -> None:
    first = session.put(C, b"t", b"x", pri=1)
    last = session.put(A, b"t", b"x", pri=3)
    second = session.put(B, b"t", b"x", pri=2)
    assert ids_of(session.say(b"list-jobs t ready 9 order=next")) == [first, second, last]
    assert ids_of(session.say(b"list-jobs t ready 2 order=next fields=reason")) == [first, second]
    soon = session.put(A, b"t", b"x", pri=9, delay=5)
    later = session.put(C, b"t", b"x", pri=1, delay=6)
    assert ids_of(session.say(b"list-jobs t delayed 9 order=next")) == [soon, later]


def test_list_sessions_goes_on_from_number_to_number_with_those_shards_that_are_there(session: Session) -> None:
    further = (7 << SHARD_ID_BITS) + 1  # of shard b as well
    numbers = {A: [4, 9], B: [FIRST_B + 1, further], C: [FIRST_C + 1, FIRST_C + 2]}

    def ask(question: Ask) -> bytes:
        assert question.may_fail
        options = dict(word.split(b"=") for word in question.data.split()[1:])
        behind = [number for number in numbers[question.shard] if number > int(options.get(b"after", b"-1"))]
        items = [b'- number: %d\n  name: ""\n' % number for number in behind[: int(options[b"limit"])]]
        return b"" if question.shard in session.away else ok(b"".join(items))

    session.ask = ask  # type: ignore[method-assign]

    def listed(command: bytes) -> list[int]:
        return [int(line.split()[2]) for line in lines_of(session.say(command)) if "number" in line]

    assert listed(b"list-sessions") == [4, 9, FIRST_B + 1, FIRST_C + 1, FIRST_C + 2, further]
    assert listed(b"list-sessions limit=2 after=9") == [FIRST_B + 1, FIRST_C + 1]
    session.away = {B}
    assert listed(b"list-sessions limit=3") == [4, 9, FIRST_C + 1]


def test_list_tubes_names_each_once(session: Session) -> None:
    session.put(B, b"t", b"x")
    session.put(C, b"t", b"x")
    assert lines_of(session.say(b"list-tubes")) == ["- default", "- t"]


# --- Statistics -------------------------------------------------------------------------------------------------------


def test_stats_are_sums_but_for_what_is_no_count(session: Session) -> None:
    for shard in (A, B, B):
        session.put(shard, b"t", b"x")
    session.servers[C].engine.draining = True
    said = lines_of(session.say(b"stats"))
    for line in ("total-jobs: 3", "max-job-size: 65535", "draining: true", 'version: "1.13"', "pid: 17", "shards: 3"):
        assert line in said
    session.away = {B}
    said = lines_of(session.say(b"stats"))
    assert "total-jobs: 1" in said
    assert said[-4:] == ["shards: 3", "shards-missing: 1", "shards-away: b", "map-epoch: 1"]


def test_stats_tube_is_the_sum_of_the_places_that_have_it(session: Session) -> None:
    assert session.say(b"stats-tube t") == b"NOT_FOUND\r\n"
    session.put(A, b"t", b"x")
    session.put(C, b"t", b"x", delay=5)
    said = lines_of(session.say(b"stats-tube t"))
    assert said[0] == "name: t"
    assert {"current-jobs-ready: 1", "current-jobs-delayed: 1", "total-jobs: 2", "shards: a, c"} <= {*said}
    assert [line for line in lines_of(session.say(b"stats-tubes")) if "shards" in line] == [
        "  shards: a, b, c",
        "  shards: a, c",
    ]


def test_a_tube_is_never_added_to_itself(session: Session) -> None:
    session.put(A, b"17", b"x")
    session.put(C, b"17", b"x")
    assert lines_of(session.say(b"stats-tube 17"))[0] == "name: 17"


def names_of(reply: bytes) -> list[str]:
    return [line.split()[2] for line in lines_of(reply) if line.startswith(("- name", "- pattern", "- group"))]


@pytest.mark.parametrize("verb", [b"stats-tubes", b"stats-histograms"])
def test_pages_by_name_miss_no_tube_behind_the_end_of_one_shards_page(session: Session, verb: bytes) -> None:
    for shard, tubes in ((A, "10 9 a x"), (B, "a b c"), (C, "e z")):
        for tube in tubes.split():
            session.put(shard, tube.encode(), b"x")
    found = []
    after = b""
    while names := names_of(session.say(verb + b" limit=2" + after)):
        found += names
        after = b" after=" + names[-1].encode()
    assert found == ["10", "9", "a", "b", "c", "default", "e", "x", "z"]


def test_histograms_are_added_place_by_place(session: Session) -> None:
    for shard in (A, C):
        session.put(shard, b"t", b"x")
        session.servers[shard].advance(10**9)
        session.servers[shard].say(b"watch t")
        session.servers[shard].say(b"reserve-with-timeout 0")
    said = lines_of(session.say(b"stats-histograms"))
    own = lines_of(session.servers[A].say(b"stats-histograms"))
    assert said[0] == own[0]  # the bounds
    assert said[1].split()[:3] == ["job-ready:", "2", "2000000"]
    assert said[1].split()[3:] == [str(2 * int(count)) for count in own[1].split()[3:]]
    assert "tubes:" in said


def test_histograms_with_other_bounds_are_left_out(session: Session) -> None:
    ask = session.ask

    def ask_newer(question: Ask) -> bytes:
        reply = ask(question)
        return reply if question.shard == C else reply.replace(b"[100,", b"[ 99,").replace(b"turn: 0", b"turn: 1")

    session.ask = ask_newer  # type: ignore[method-assign]
    assert "turn: 2" in session.say(b"stats-histograms").decode()


def test_failures_of_one_kind_are_one_group(session: Session) -> None:
    for shard, count, error in ((A, 1, b"no 1"), (B, 2, b"no 2"), (C, 4, b"off")):
        server = session.servers[shard]
        for _ in range(count):
            id = session.put(shard, b"t", b"x")
            server.say(b"reserve-job %d" % id)
            server.say(b"fail-job %d %d dead=now\r\n%b" % (id, len(error), error))
    said = lines_of(session.say(b"stats-failures"))
    assert said[0] == "total: 7"
    assert [line for line in said if "count" in line] == ["  count: 4", "  count: 3"]
    assert '  line: "no 1"' in said
    assert f"  last: {FIRST_B + 2}" in said
    assert len([line for line in lines_of(session.say(b"stats-failures limit=1")) if "count" in line]) == 1


def test_groups_are_listed_by_what_is_ready_at_all_places(session: Session) -> None:
    for shard, group in ((A, b"g"), (B, b"h"), (B, b"h"), (C, b"g"), (C, b"g")):
        session.servers[shard].say(b"put-job 1 tube=t group=%b\r\nx" % group)
    assert names_of(session.say(b"stats-groups t")) == ['"g"', '"h"']
    assert "  ready: 3" in lines_of(session.say(b"stats-groups t limit=1"))
    for _ in range(2):
        session.servers[B].say(b"watch t")
        session.servers[B].say(b"reserve")
    assert names_of(session.say(b"stats-groups t order=held")) == ['"h"', '"g"']
    assert session.say(b"stats-groups nowhere") == b"NOT_FOUND\r\n"


def test_each_reason_says_of_which_shard_it_is(session: Session) -> None:
    id = session.put(B, b"t", b"x")
    session.put(C, b"t", b"x")
    session.servers[C].say(b"pause-tube t 9")
    assert '- unwatched: {"shard": "b"}' in lines_of(session.say(b"explain %d" % id))
    said = lines_of(session.say(b"explain-tube t"))
    assert "ready: 2" in said
    assert '- paused: {"shard": "c", "left": 9}' in said


def test_extensions_are_those_that_all_shards_have(session: Session) -> None:
    listed = session.say(b"list-extensions")
    assert listed == session.servers[A].say(b"list-extensions")
    session.servers[B].engine.extensions = 6
    assert session.say(b"list-extensions") == session.servers[B].say(b"list-extensions") != listed


# --- Rules, schedules, sessions that are kept -------------------------------------------------------------------------

ATTEMPTS = b"set-rules t* 11\r\nattempts: 2"


def test_rules_are_set_on_all_shards_or_on_none(session: Session) -> None:
    session.away = {C}
    assert session.say(ATTEMPTS) == b"BAD_RULES 0 set on 0 of 3 shards: c is away; send it again\r\n"
    assert session.servers[A].say(b"get-rules t1") == b"NOT_FOUND\r\n"
    session.away = set()
    assert session.say(ATTEMPTS) == b"RULES_SET\r\n"
    assert session.servers[C].say(b"get-rules t1").startswith(b"OK ")
    assert session.say(b"set-rules t 3\r\nx: ") == session.servers[A].say(b"set-rules t 3\r\nx: ")
    assert session.say(b"drop-rules t*") == b"DROPPED\r\n"
    assert session.say(b"drop-rules t*") == b"NOT_FOUND\r\n"


def test_rules_that_one_shard_refuses_are_said_to_be_on_the_others(session: Session) -> None:
    session.servers[B].engine.extensions = 4
    said = session.say(b"set-rules t 12\r\ngroups: fair")
    assert said.startswith(b"BAD_RULES 0 set on 2 of 3 shards: b says BAD_RULES 1 ")


def test_list_rules_has_each_pattern_once_and_all_that_are_on_one_shard_only(session: Session) -> None:
    session.say(ATTEMPTS)
    session.servers[C].say(b"set-rules z 11\r\nattempts: 3")
    assert names_of(session.say(b"list-rules")) == ['"t*"']
    assert "  attempts: 2" in lines_of(session.say(b"list-rules")), "what all have is no sum"
    assert names_of(session.say(b"list-rules after=t*")) == ['"z"']
    assert names_of(session.say(b"list-rules after=z")) == []


def document(tube: str) -> bytes:
    text = f"every: 60\ntube: {tube}\n\nbody"
    return f"{len(text)}\r\n{text}".encode()


def test_a_schedule_is_where_its_tube_is_and_its_name_nowhere_else(session: Session) -> None:
    assert session.say(b"set-schedule s " + document("there")).startswith(b"SCHEDULED ")
    assert session.servers[B].say(b"get-schedule s").startswith(b"SCHEDULE s ")
    refused = session.say(b"set-schedule s " + document("here"))
    assert refused == b"BAD_SCHEDULE 0 shard b has a schedule of this name: drop it first\r\n"
    assert session.say(b"set-schedule s 1\r\nx").startswith(b"BAD_SCHEDULE ")
    session.servers[A].engine.draining = True
    assert session.say(b"fire-schedule s") == b"INSERTED %d\r\n" % (FIRST_B + 1)
    assert session.say(b"fire-schedule nothing") == b"DRAINING\r\n"
    assert session.say(b"drop-schedule s") == b"DROPPED\r\n"
    assert session.say(b"get-schedule s") == b"NOT_FOUND\r\n"


def test_pages_of_schedules_miss_none_behind_the_end_of_one_shards_page(session: Session) -> None:
    for name, tube in ((b"a", "here"), (b"d", "here"), (b"e", "here"), (b"b", "there"), (b"c", "there")):
        session.say(b"set-schedule %b %b" % (name, document(tube)))
    found = []
    after = b""
    while True:
        head, *rest = session.say(b"list-schedules limit=2" + after).split(b"\r\n")
        found.append([line.split()[1] for line in rest if line.startswith(b"SCHEDULE ")])
        if b"next=" not in head:
            break
        after = b" after=" + head.split(b"next=")[1]
    assert found == [[b"a", b"b"], [b"c", b"d"], [b"e"]]
    first = session.say(b"list-schedules limit=1 order=next")
    assert first.startswith(b"SCHEDULES 1\r\n")


TOKEN = b"0123456789abcdef" * 2


def test_a_session_is_kept_by_all_shards_that_are_there(session: Session) -> None:
    a, b = session.put(A, b"t", b"x"), session.put(B, b"t", b"x")
    assert session.say(b"keep-session 60 " + TOKEN) == b"KEPT 0\r\n"
    for id in (a, b):
        session.say(b"reserve-job %d" % id)
    session.away = {C}
    assert session.say(b"keep-session 60 " + TOKEN) == b"KEPT 2 %d %d\r\n" % (a, b)


def test_what_has_no_room_in_kept_goes_back(session: Session) -> None:
    for shard in (A, B):
        for _ in range(250):
            id = session.put(shard, b"t", b"x")
            session.say(b"reserve-job %d" % id)
    assert session.say(b"keep-session 60 " + TOKEN).startswith(b"KEPT 400 ")
    assert "current-jobs-ready: 100" in lines_of(session.say(b"stats-tube t"))
