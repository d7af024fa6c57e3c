"""Clients of a router of several shards: their commands go where they mean, and replies come in their order."""

import random
import re

import pytest

from beanpole.engine.engine import Engine
from beanpole.limits import SHARD_ID_BITS
from beanpole.server.connection import Connection
from beanpole.testing.world import NS_PER_S
from tests.seeds import seeds
from tests.unit.front.shard_world import Client, World, made, shard

A, B, C = shard("a", 0), shard("b", 1), shard("c", 2)
THREE = made(A, B, C, mail="a", push="b", text="c", spread="abc", default="a")
FIRST = {name: (number << SHARD_ID_BITS) + 1 for number, name in enumerate("abc")}


def put(body: bytes) -> bytes:
    return b"put 0 0 60 %d\r\n%b\r\n" % (len(body), body)


@pytest.fixture
def client() -> Client:
    return World(THREE).client()


# --- One shard --------------------------------------------------------------------------------------------------------

LINES = [
    b"use mail", b"use -x", b"watch mail", b"ignore default", b"ignore mail", b"reserve-with-timeout 0", b"peek-ready",
    b"delete 1", b"delete 2", b"release 1 0 0", b"bury 2 5", b"kick 10", b"touch 1", b"stats-job 1", b"list-tubes",
    b"list-tube-used", b"list-tubes-watched", b"pause-tube mail 0", b"nothing", b"put 0 0 60 70000", b"kick-job 2",
    b"delete-many 1 2 3", b"reserve-many 3 0", b"list-jobs mail ready 5", b"find-job mail k", b"x" * 300, b"delete x",
    b"put-job 3 tube=mail key=k\r\nabc", b"put-job 3 key=k x=1\r\nabc", b"put 0 0 60 3\r\nabcde", b"explain 1",
]  # fmt: skip


@pytest.mark.parametrize("seed", seeds(20, "ROUTE_SEED"))
def test_with_one_shard_all_bytes_are_those_of_the_shard(seed: int) -> None:
    chance = random.Random(seed)
    world = World(made(A), seed)
    routed, direct = world.client(), Connection(Engine(now_ns=1), 1)
    for _ in range(200):
        line = chance.choice([*LINES, put(b"abc")[:-2], put(b"")[:-2]])
        if line.startswith(b"put 0 0 60 70000"):
            line += b"\r\n" + bytes(70000)
        routed.send(line + b"\r\n")
        if chance.random() < 0.3:
            world.settle()
        direct.receive(1, line + b"\r\n")
    world.settle()
    assert routed.take() == direct.take_output()


# --- Several ----------------------------------------------------------------------------------------------------------


def test_a_command_goes_where_it_means(client: Client) -> None:
    ids = {}
    for tube, name in (("mail", "a"), ("push", "b"), ("text", "c")):
        assert client.ask(b"use %b\r\n" % tube.encode()) == b"USING %b\r\n" % tube.encode()
        ids[name] = int(client.ask(put(tube.encode())).split()[1])
    assert ids == FIRST
    for tube, name in (("mail", "a"), ("push", "b"), ("text", "c")):
        body = tube.encode()
        assert client.ask(b"peek %d\r\n" % ids[name]) == b"FOUND %d %d\r\n%b\r\n" % (ids[name], len(body), body)
        assert client.ask(b"watch %b\r\n" % body) == b"WATCHING 2\r\n"
        assert client.ask(b"ignore default\r\nreserve\r\n") == b"WATCHING 1\r\nRESERVED %d %d\r\n%b\r\n" % (
            ids[name], len(body), body,
        )  # fmt: skip
        assert client.ask(b"touch %d\r\nrelease %d 0 0\r\n" % (ids[name], ids[name])) == b"TOUCHED\r\nRELEASED\r\n"
        assert client.ask(b"reserve\r\nbury %d 0\r\n" % ids[name]).endswith(b"\r\nBURIED\r\n")
        assert client.ask(b"kick-job %d\r\ndelete %d\r\n" % (ids[name], ids[name])) == b"KICKED\r\nDELETED\r\n"
        client.ask(b"watch default\r\nignore %b\r\n" % body)
    assert client.ask(b"delete %d\r\n" % (7 << SHARD_ID_BITS)) == b"NOT_FOUND\r\n"
    assert client.ask(b"stats-job 0\r\n") == b"NOT_FOUND\r\n"


def test_replies_come_in_the_order_of_the_commands(client: Client) -> None:
    """Whichever shard is first: its reply waits for those before."""
    asked, wanted = b"", b""
    for turn in range(50):
        for tube, name in ((b"text", "c"), (b"push", "b"), (b"mail", "a")):
            asked += b"use %b\r\n%bdelete %d\r\n" % (tube, put(b"x"), FIRST[name] + turn)
            wanted += b"USING %b\r\nINSERTED %d\r\nDELETED\r\n" % (tube, FIRST[name] + turn)
    assert client.ask(asked) == wanted


def test_no_command_overtakes_a_reserve_that_waits(client: Client) -> None:
    other = client.world.client()
    other.ask(b"use push\r\n" + put(b"x"))
    client.ask(b"watch mail\r\nignore default\r\n")
    assert client.ask(b"reserve\r\ndelete %d\r\nlist-tube-used\r\n" % FIRST["b"]) == b""
    assert other.ask(b"peek %d\r\n" % FIRST["b"]).startswith(b"FOUND ")
    other.ask(b"use mail\r\n" + put(b"y"))
    client.world.settle()
    assert client.take() == b"RESERVED %d 1\r\ny\r\nDELETED\r\nUSING default\r\n" % FIRST["a"]


def test_a_reserve_that_waits_is_cancelled(client: Client) -> None:
    client.ask(b"watch text\r\nignore default\r\n")
    assert client.ask(b"reserve\r\n") == b""
    assert client.ask(b"cancel-reserve\r\nlist-tubes-watched\r\n").startswith(
        b"TIMED_OUT\r\nCANCELLED\r\nOK 11\r\n---\n- text"
    )


def test_a_shard_watches_what_the_client_does(client: Client) -> None:
    other = client.world.client()
    for tube in (b"mail", b"default"):
        other.ask(b"use %b\r\n" % tube + put(tube))
    client.ask(b"watch text\r\nwatch mail\r\nignore default\r\nignore text\r\n")
    assert client.ask(b"reserve-with-timeout 0\r\n").endswith(b"mail\r\n")
    assert client.ask(b"reserve-with-timeout 0\r\n") == b"TIMED_OUT\r\n"
    assert client.ask(b"ignore mail\r\n") == b"NOT_IGNORED\r\n"
    client.ask(b"watch default\r\nignore mail\r\n")
    assert client.ask(b"reserve-with-timeout 0\r\n").endswith(b"default\r\n")


def test_jobs_of_a_spread_tube_go_to_each_in_turn_or_by_their_word(client: Client) -> None:
    client.ask(b"use spread\r\n")
    ids = [int(client.ask(put(b"x")).split()[1]) for _ in range(6)]
    assert sorted(id >> SHARD_ID_BITS for id in ids) == [0, 0, 1, 1, 2, 2]
    for option in (b"group", b"key", b"once"):
        found = [
            {
                int(client.ask(b"put-job 1 %b=w%d\r\nx\r\n" % (option, word)).split()[1]) >> SHARD_ID_BITS
                for _ in range(3)
            }
            for word in range(20)
        ]
        assert all(len(each) == 1 for each in found)
        assert len(set().union(*found)) == 3


def test_jobs_are_kicked_wherever_they_are(client: Client) -> None:
    client.ask(b"use spread\r\nwatch mail\r\nignore default\r\n")
    ids = [int(client.ask(put(b"x")).split()[1]) for _ in range(9)]
    buried = ids[:4]
    for id in buried:
        assert client.ask(b"reserve-job %d\r\nbury %d 0\r\n" % (id, id)).endswith(b"BURIED\r\n")
    client.ask(b"put 0 100 60 1\r\nx\r\n")
    assert [client.ask(b"kick %d\r\n" % bound) for bound in (0, 3, 9, 9, 9)] == [
        b"KICKED 0\r\n", b"KICKED 3\r\n", b"KICKED 1\r\n", b"KICKED 1\r\n", b"KICKED 0\r\n",
    ]  # fmt: skip


def test_many_ids_are_one_reply(client: Client) -> None:
    ids = [int(client.ask(b"use spread\r\n" + put(b"x")).split()[-1]) for _ in range(6)]
    none = [FIRST["b"] + 1000, 9 << SHARD_ID_BITS]
    line = b" ".join(b"%d" % each for each in [none[0], *ids[:3], none[1], *ids[3:]])
    assert client.ask(b"delete-many %b\r\n" % line) == b"DELETED 6 %d %d\r\n" % tuple(none)
    assert client.ask(b"delete-many %d\r\n" % ids[0]) == b"DELETED 0 %d\r\n" % ids[0]
    assert client.ask(b"touch-many %d\r\n" % none[1]) == b"TOUCHED 0 %d\r\n" % none[1]


def test_statistics_are_sums(client: Client) -> None:
    client.ask(b"use spread\r\n" + put(b"x") * 7 + b"use mail\r\n" + put(b"x"))

    def said(answer: bytes, key: bytes) -> int:
        found = re.search(b"^%b: (\\d+)$" % key, answer, re.MULTILINE)
        assert found is not None
        return int(found[1])

    tube, every = client.ask(b"stats-tube spread\r\n"), client.ask(b"stats\r\n")
    for answer in (tube, every):
        head, _, body = answer.partition(b"\r\n")
        assert head == b"OK %d" % (len(body) - 2)
    assert said(tube, b"current-jobs-ready") == 7
    assert (said(every, b"current-jobs-ready"), said(every, b"max-job-size")) == (8, 65535)
    assert client.ask(b"stats-tube none\r\n") == b"NOT_FOUND\r\n"
    assert set(client.ask(b"list-tubes\r\n").split()[3:]) == {b"-", b"default", b"mail", b"spread"}


def test_what_is_for_several_waits_for_what_is_before(client: Client) -> None:
    asked = b"use spread\r\n" + put(b"x") * 5 + b"stats-tube spread\r\nlist-tube-used\r\n" + put(b"y")
    replies = client.ask(asked)
    assert b"current-jobs-ready: 5\n" in replies
    assert re.sub(rb"OK (\d+)\r\n.*\n\r\n", b"OK\r\n", replies, flags=re.DOTALL).split(b"\r\n")[6:8] == [
        b"OK",
        b"USING spread",
    ]
    assert replies.count(b"INSERTED") == 6


def test_a_command_waits_for_a_shard_that_is_away(client: Client) -> None:
    client.world.away = {"b"}
    assert (
        client.ask(b"use mail\r\n%buse push\r\n%buse mail\r\n" % (put(b"x"), put(b"x")))
        == b"USING mail\r\nINSERTED 1\r\nUSING push\r\n"
    )
    assert client.session.away is B
    client.world.away = set()
    client.session.run()
    client.world.settle()
    assert client.take() == b"INSERTED %d\r\nUSING mail\r\n" % FIRST["b"]
    assert client.session.away is None


def test_all_shards_know_the_name_of_a_session(client: Client) -> None:
    client.ask(b"use mail\r\n")
    assert client.ask(b"name-session worker 7\r\n") == b"NAMED\r\n"
    client.ask(b"use text\r\n")
    for lane in (client.lanes["a"], client.lanes["c"]):
        lane.receive(1, b"list-sessions\r\n")
        assert b'name: "worker 7"\n' in lane.take_output()


def test_quit_ends_behind_what_is_before(client: Client) -> None:
    assert (
        client.ask(b"use text\r\n%bquit\r\nlist-tube-used\r\n" % put(b"x"))
        == b"USING text\r\nINSERTED %d\r\n" % FIRST["c"]
    )
    assert client.session.finished


# --- Reserve at several places ----------------------------------------------------------------------------------------


def test_a_job_is_taken_wherever_it_is(client: Client) -> None:
    other = client.world.client()
    client.ask(b"watch mail\r\nwatch push\r\nwatch text\r\nignore default\r\n")
    assert client.ask(b"reserve-with-timeout 0\r\n") == b"TIMED_OUT\r\n"
    for tube, name in ((b"text", "c"), (b"push", "b"), (b"mail", "a")):
        other.ask(b"use %b\r\n%b" % (tube, put(tube)))
        assert client.ask(b"reserve\r\n") == b"RESERVED %d %d\r\n%b\r\n" % (FIRST[name], len(tube), tube)
    other.ask(put(b"x") * 3)
    assert client.ask(b"reserve-many 2 0\r\n").startswith(b"JOBS 2\r\nJOB %d 1" % (FIRST["a"] + 1))


def test_while_one_shard_gives_jobs_each_costs_one_question(client: Client) -> None:
    other = client.world.client()
    client.ask(b"watch mail\r\nwatch push\r\nwatch text\r\nignore default\r\n")
    other.ask(b"use text\r\n" + put(b"x") * 20)
    client.ask(b"reserve\r\n")
    asked = client.questions
    for _ in range(19):
        assert client.ask(b"reserve\r\n").startswith(b"RESERVED ")
    assert client.questions == asked + 19


def test_input_that_ends_ends_what_waits_and_runs_all_behind_it(client: Client) -> None:
    client.ask(b"watch text\r\nignore default\r\n")
    assert client.ask(b"reserve\r\nuse mail\r\n" + put(b"x")) == b""
    client.session.end_input()
    client.world.settle()
    assert client.take() == b"TIMED_OUT\r\nUSING mail\r\nINSERTED %d\r\n" % FIRST["a"]
    assert client.session.is_over


def test_input_that_ends_behind_several_reserves_ends_all(client: Client) -> None:
    client.ask(b"watch text\r\nignore default\r\n")
    assert client.ask(b"reserve\r\nreserve\r\nuse mail\r\n" + put(b"x") + b"reserve\r\n") == b""
    client.session.end_input()
    client.world.settle()
    assert client.take() == b"TIMED_OUT\r\nTIMED_OUT\r\nUSING mail\r\nINSERTED %d\r\nTIMED_OUT\r\n" % FIRST["a"]
    assert client.session.is_over


def test_a_reserve_waits_for_a_shard_that_is_away_as_long_as_for_a_job(client: Client) -> None:
    client.world.away = {"c"}
    client.ask(b"watch text\r\nignore default\r\n")
    assert client.ask(b"reserve-with-timeout 0\r\n") == b"TIMED_OUT\r\n"
    assert client.ask(b"reserve-with-timeout 5\r\n") == b""
    client.world.tick(5 * NS_PER_S)
    assert client.take() == b"TIMED_OUT\r\n"
    assert client.ask(b"reserve\r\n") == b""
    client.world.away = set()
    client.session.find(C)
    client.world.settle()
    client.world.client().ask(b"use text\r\n" + put(b"x"))
    client.world.settle()
    assert client.take().startswith(b"RESERVED ")


def test_jobs_of_a_spread_tube_pass_over_a_shard_that_is_away(client: Client) -> None:
    client.world.away = {"b"}
    client.ask(b"use spread\r\n")
    ids = [int(client.ask(put(b"x")).split()[1]) for _ in range(4)]
    assert {id >> SHARD_ID_BITS for id in ids} == {0, 2}


def test_what_only_shows_something_is_answered_by_the_shards_that_are_there(client: Client) -> None:
    client.ask(b"use spread\r\n")
    ids = sorted(int(client.ask(put(b"x")).split()[1]) for _ in range(3))
    assert client.lose("b")
    client.world.away = {"b"}
    assert client.ask(b"peek-ready\r\n") == b"FOUND 1 1\r\nx\r\n"
    assert b"current-jobs-ready: 2\n" in client.ask(b"stats-tube spread\r\n")
    assert client.ask(b"explain-tube spread\r\n").startswith(b"OK ")
    for options in (b"", b" order=next"):
        listed = client.ask(b"list-jobs spread ready 9%b\r\n" % options)
        assert [int(line.split()[1]) for line in listed.splitlines() if line.startswith(b"JOB ")] == [ids[0], ids[2]]
    assert client.ask(b"list-schedules\r\n") == b"SCHEDULES 0\r\n"
    assert client.ask(b"kick 9\r\n") == b""


def test_a_schedule_is_a_reply_of_one_frame(client: Client) -> None:
    client.ask(b"set-schedule s 27\r\nat: 2100-01-01T00:00:00Z\n\nx\r\n")
    assert client.ask(b"get-schedule s\r\nuse t\r\n").endswith(b"x\r\nUSING t\r\n")


# --- Waiting at several places ----------------------------------------------------------------------------------------


@pytest.fixture
def waiting(client: Client) -> Client:
    """A client that waits at all three shards."""
    client.ask(b"watch mail\r\nwatch push\r\nwatch text\r\nignore default\r\n")
    assert client.ask(b"reserve\r\n") == b""
    return client


@pytest.mark.parametrize(("tube", "name"), [(b"mail", "a"), (b"push", "b"), (b"text", "c")])
def test_who_waits_at_several_shards_gets_the_job_of_any(waiting: Client, tube: bytes, name: str) -> None:
    waiting.world.client().ask(b"use %b\r\n" % tube + put(b"x"))
    assert waiting.take() == b"RESERVED %d 1\r\nx\r\n" % FIRST[name]
    assert waiting.ask(b"reserve-with-timeout 0\r\n") == b"TIMED_OUT\r\n"


def test_each_of_those_who_wait_gets_one(waiting: Client) -> None:
    world = waiting.world
    others = [world.client() for _ in range(2)]
    for each in others:
        each.ask(b"watch text\r\nwatch mail\r\nignore default\r\n")
        assert each.ask(b"reserve\r\n") == b""
    giver = world.client()
    giver.ask(b"use text\r\n" + put(b"1") + b"use mail\r\n" + put(b"2") + put(b"3"))
    assert sorted(each.take().split(b"\r\n")[1] for each in [waiting, *others]) == [b"1", b"2", b"3"]


def test_waiting_at_several_shards_ends(waiting: Client) -> None:
    assert waiting.ask(b"cancel-reserve\r\nlist-tube-used\r\n") == b"TIMED_OUT\r\nCANCELLED\r\nUSING default\r\n"
    assert waiting.ask(b"cancel-reserve\r\n") == b"NOT_WAITING\r\n"
    assert waiting.ask(b"reserve-with-timeout 5\r\n") == b""
    waiting.world.tick(5_000_000_001)
    assert waiting.take() == b"TIMED_OUT\r\n"


def test_who_waits_is_told_of_a_deadline(waiting: Client) -> None:
    waiting.world.client().ask(b"use push\r\nput 0 0 5 1\r\nx\r\n")
    assert waiting.take().startswith(b"RESERVED ")
    assert waiting.ask(b"reserve\r\n") == b""
    waiting.world.tick(4_100_000_000)
    assert waiting.take() == b"DEADLINE_SOON\r\n"


def test_who_waits_goes_on_without_a_shard_that_is_lost(waiting: Client) -> None:
    assert waiting.lose("b")
    waiting.world.client().ask(b"use text\r\n" + put(b"x"))
    assert waiting.take() == b"RESERVED %d 1\r\nx\r\n" % FIRST["c"]


class Crowd:
    """Clients that put, wait and cancel, as a seed says."""

    TUBES = (b"mail", b"push", b"text", b"spread")

    def __init__(self, seed: int) -> None:
        self.world = World(THREE, seed)
        self.chance = self.world.random
        self.giver = self.world.client()
        self.count = 0
        self.given: list[int] = []
        self.waits: dict[Client, bool] = {}
        self.watched: dict[Client, list[bytes]] = {}
        for _ in range(4):
            worker = self.world.client()
            self.watched[worker] = self.chance.sample(self.TUBES, 3)
            worker.ask(b"".join(b"watch %b\r\n" % tube for tube in self.watched[worker]) + b"ignore default\r\n")
            self.waits[worker] = False

    def act(self) -> None:
        """Do something; bytes go as far as they go."""
        act = self.chance.random()
        waiting = [each for each, waits in self.waits.items() if waits]
        idle = [each for each, waits in self.waits.items() if not waits]
        if act < 0.4:
            body = b"%d" % self.count
            self.giver.send(b"use %b\r\nput 0 0 9999 %d\r\n%b\r\n" % (self.chance.choice(self.TUBES), len(body), body))
            self.count += 1
        elif act < 0.8 and idle:
            self.waits[idle[0]] = True
            idle[0].send(self.chance.choice([b"reserve\r\n", b"reserve-with-timeout 3\r\n"]))
        elif act < 0.9 and waiting:
            self.chance.choice(waiting).send(b"cancel-reserve\r\n")
        else:
            self.world.tick(self.chance.choice([1_000_000, 1_100_000_000]))
        for _ in range(self.chance.randrange(4)):
            self.world.step()
        self.note()

    def note(self) -> None:
        """See what has come."""
        for each in self.waits:
            found = each.take()
            self.given += map(int, re.findall(rb"RESERVED \d+ \d+\r\n(\d+)\r\n", found))
            self.waits[each] &= not found


@pytest.mark.parametrize("seed", seeds(100, "ROUTE_SEED"))
def test_each_job_is_given_once_and_nobody_waits_beside_one(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(crowd.chance.randrange(20, 80)):
        crowd.act()
    crowd.world.tick(1_100_000_000)
    crowd.note()
    last = crowd.world.client()
    for tube in {tube for each, waits in crowd.waits.items() if waits for tube in crowd.watched[each]}:
        answer = last.ask(b"stats-tube %b\r\n" % tube)
        assert b"current-jobs-ready: 0\n" in answer or answer == b"NOT_FOUND\r\n", tube
    last.ask(b"".join(b"watch %b\r\n" % tube for tube in crowd.TUBES))
    crowd.waits[last] = False
    for _ in range(crowd.count - len(crowd.given)):
        last.send(b"reserve-with-timeout 0\r\n")
        crowd.world.settle()
        crowd.note()
    assert sorted(crowd.given) == list(range(crowd.count))
