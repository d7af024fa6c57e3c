"""A server that is a shard: its ids, and what happens where they end."""

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.restore import Restore
from beanpole.server.connection import Connection
from beanpole.shard_ids import IDS_LEFT_WARNING, end_id, first_id

TURNS_PER_REGION = 14  # of a list that finds no job in the first blocks of a region
PUT = b"put 0 0 60 1\r\nx\r\n"


class Shard:
    """An engine with numbers, a client, and what the server's log would say."""

    def __init__(self, *numbers: int, next_id: int = 0) -> None:
        self.engine = Engine()
        self.noticed: list[str] = []
        self.engine.notice = self.noticed.append
        Restore(self.engine).reach_job_id(next_id)
        self.engine.set_shard(numbers)
        self.connection = Connection(self.engine, 1)
        self.turns = 0

    def ask(self, *lines: bytes) -> bytes:
        """Replies to commands, of a turn each, and of as many more as they take."""
        for line in lines:
            self.engine.tick(1)
            self.connection.receive(1, line)
            while self.connection.pending:
                self.turns += 1
                self.connection.resume(1)
        return self.connection.take_output()

    def put(self) -> int:
        """The id of a job that is put; 0: the server drains."""
        reply = self.ask(PUT)
        return 0 if reply == b"DRAINING\r\n" else int(reply.removeprefix(b"INSERTED "))

    def stats(self) -> dict[str, str]:
        lines = self.ask(b"stats\r\n").decode().splitlines()
        return dict(line.split(": ") for line in lines if line.startswith("shard"))


@pytest.mark.parametrize("number", [0, 1, 1023])
def test_ids_of_jobs_and_sessions_begin_with_the_number(number: int) -> None:
    shard = Shard(number)
    assert [shard.put(), shard.put()] == [first_id(number), first_id(number) + 1]
    assert b"- number: %d\n" % first_id(number) in shard.ask(b"list-sessions\r\n")
    assert shard.ask(b"reserve\r\n") == b"RESERVED %d 1\r\nx\r\n" % first_id(number)
    assert shard.ask(b"delete %d\r\n" % first_id(number)) == b"DELETED\r\n"
    assert shard.stats() == {"shard": str(number), "shard-ids-left": str(end_id(number) - first_id(number) - 2)}
    check(shard.engine)


def test_a_server_without_a_number_has_ids_without_end() -> None:
    shard = Shard(next_id=end_id(0))
    assert [shard.put(), shard.put()] == [end_id(0), end_id(0) + 1]
    assert shard.stats() == {"shard": "0"}
    assert not shard.noticed


def test_an_empty_server_that_gets_a_number_goes_on_in_its_range() -> None:
    assert Shard(3, next_id=700).put() == first_id(3)


def test_where_a_range_ends_the_next_one_begins() -> None:
    shard = Shard(3, 17, next_id=end_id(3) - 2)
    assert [shard.put() for _ in range(4)] == [end_id(3) - 2, end_id(3) - 1, first_id(17), first_id(17) + 1]
    assert shard.stats()["shard"] == "3,17"
    assert not shard.noticed


def test_a_range_that_has_ended_is_passed_over_at_a_start() -> None:
    assert Shard(3, 17, next_id=end_id(3) + 5).put() == first_id(17)


def test_behind_the_last_id_the_server_drains() -> None:
    shard = Shard(3, next_id=end_id(3) - 2)
    assert [shard.put() for _ in range(4)] == [end_id(3) - 2, end_id(3) - 1, 0, 0]
    assert shard.stats() == {"shard": "3", "shard-ids-left": "0"}
    assert [each.partition(":")[0] for each in shard.noticed][1:] == [
        "all ids of this shard are used, and puts are answered with DRAINING"
    ]
    again = Shard(3, 17, next_id=end_id(3))
    assert again.put() == first_id(17)


@pytest.mark.parametrize("numbers", [(3,), (2, 3)])
def test_a_shard_warns_once_when_nine_tenths_of_its_last_range_are_used(numbers: tuple[int, ...]) -> None:
    shard = Shard(*numbers, next_id=end_id(3) - IDS_LEFT_WARNING - 1)
    shard.put()
    assert not shard.noticed
    for _ in range(3):
        shard.put()
    (notice,) = shard.noticed
    assert "--shard 3,N" in notice or "--shard 2,3,N" in notice


@pytest.mark.parametrize(("numbers", "next_id"), [((1,), 0), ((1023,), 0), ((3, 17), end_id(3) - 30_000)])
def test_a_list_of_many_jobs_takes_as_many_turns_as_without_a_number(numbers: tuple[int, ...], next_id: int) -> None:
    """Of a tube with more jobs than are copied, ids are looked up one by one: not those that no job has."""
    turns = []
    for shard in (Shard(), Shard(*numbers, next_id=next_id)):
        for _ in range(120):
            shard.ask(PUT * 500)
        assert shard.engine.jobs.count == 60_000
        shard.turns = 0
        page = shard.ask(b"list-jobs default ready 1000\r\n")
        assert page.startswith(b"JOBS 1000 next=")
        shard.ask(b"clear-tube default\r\n")
        assert shard.engine.jobs.count == 0
        turns.append(shard.turns)
    assert turns[1] <= turns[0] + 2 * TURNS_PER_REGION
