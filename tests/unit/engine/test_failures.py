"""Jobs that have failed are counted: exactly, for as long as they have, and however many reasons there are."""

import random

import pytest

from beanpole.client import FailureCounts
from beanpole.engine.check import check
from tests.unit.engine.queue import SECOND_NS, Queue

WORDS = [f"{a}{b}" for a in "abcdefghijklmnopqrst" for b in "uvwxyzabcdefghijklmn"]
"""400 errors."""


class Server(Queue):
    """Its clients speak text."""

    def say(self, text: str) -> bytes:
        return self.ask(text.replace("\n", "\r\n").encode())

    def fail(self, tube: str, *reasons: str) -> None:
        """Puts a job for each reason, which fails for it at once."""
        for reason in reasons:
            id = self.engine.next_job_id
            self.say(f"put-job 1 tube={tube}\nx\nreserve-job {id}\nfail-job {id} {len(reason)} dead=now\n{reason}\n")

    def counts(self, options: str = "") -> FailureCounts:
        """What stats-failures says."""
        check(self.engine)
        return FailureCounts.parse(self.say(f"stats-failures{options}\n").partition(b"\r\n")[2].removesuffix(b"\r\n"))

    def groups(self, options: str = "") -> list[tuple[str | None, str | None, int]]:
        return [(each.tube, each.error, each.count) for each in self.counts(options).groups]


def test_the_largest_group_comes_first_and_a_limit_cuts() -> None:
    server = Server()
    server.fail("t", "a", "order 1000001", "order 1000002")
    server.fail("u", "a")
    assert server.groups() == [("t", "order …", 2), ("u", "a", 1), ("t", "a", 1)]
    assert server.groups(" limit=1") == [("t", "order …", 2)]
    assert server.groups(" tube=u") == [("u", "a", 1)]
    assert [server.counts(options).total for options in (" limit=1", " tube=u", " tube=v")] == [4, 1, 0]
    assert server.counts().groups[0].line == "order 1000002"


def test_jobs_without_a_reason_are_grouped_by_how_they_ended() -> None:
    server = Server()
    server.fail("t", "", "", " \t ")
    server.say("put-job 1 tube=t\nx\nreserve-job 4\nbury 4 0\n")
    found = server.counts().groups
    assert [(each.error, each.count, each.given_up, each.buried) for each in found] == [("", 3, 3, 0), ("", 1, 0, 1)]


@pytest.mark.parametrize(
    "ending",
    ["kick-job 1", "delete 1", "clear-tube t", "use t\nkick 1", "move-jobs t buried 1 to=u", "reserve-job 1"],
)
def test_a_job_that_is_brought_back_or_gone_has_not_failed(ending: str) -> None:
    server = Server()
    server.fail("t", "no")
    assert server.groups() == [("t", "no", 1)]
    server.say(f"{ending}\n")
    assert server.groups() == []


def test_a_dead_job_that_fails_again_has_its_new_reason() -> None:
    server = Server()
    server.say("set-rules t 7\ndead: d\n")
    server.fail("t", "first")
    server.say("reserve-job 1\n")
    assert server.groups() == [("t", "first", 1)]
    server.say("fail-job 1 6\nsecond\n")
    assert server.groups() == [("t", "second", 1)]
    server.say("change-job 1 tube=t\n")
    assert server.groups() == []


def test_what_is_kept_is_bounded_and_counts_stay_exact() -> None:
    server, chance = Server(), random.Random(1)
    server.fail("t", *WORDS)
    found = server.counts()
    assert found.total == 400
    assert len(found.groups) == 201
    assert (found.groups[0].tube, found.groups[0].error, found.groups[0].count) == ("t", None, 200)
    for tube in "uvwxyz":
        server.fail(tube, *WORDS[:250])
    found = server.counts()
    assert found.total == 1_900
    assert len(found.groups) <= 1_000 + 7
    ids = list(range(1, 1_901))
    chance.shuffle(ids)
    for id in ids[:1_000]:
        server.say(f"delete {id}\n")
    assert server.counts().total == sum(each.count for each in server.counts().groups) == 900
    server.fail("late", "one")
    for id in ids[1_000:]:
        server.say(f"delete {id}\n")
    assert [each.count for each in server.counts().groups] == [1]
    assert not server.groups(" tube=t")


def test_many_groups_are_written_piece_by_piece_as_they_were_at_first() -> None:
    server = Server()
    server.fail("t", *WORDS[:150])
    other = server.b
    server.a.receive(SECOND_NS, b"stats-failures\r\n")
    turns = 1
    while server.a.pending:
        other.receive(SECOND_NS, b"delete %d\r\n" % (150 - turns))
        server.a.resume(SECOND_NS)
        turns += 1
    assert turns >= 3
    found = FailureCounts.parse(server.a.take_output().partition(b"\r\n")[2].removesuffix(b"\r\n"))
    assert found.total == sum(each.count for each in found.groups) == len(found.groups) == 150


def test_tubes_beyond_a_thousand_are_summed_up() -> None:
    server = Server()
    for number in range(1_100):
        server.fail(f"t{number}", "no")
    found = server.counts(" limit=1000").groups
    assert found[0].tube is None
    assert sum(each.count for each in server.engine.failures.groups()) == 1_100
    for id in range(1, 1_101):
        server.say(f"delete {id}\n")
    assert server.groups() == []


def test_reasons_that_differ_make_a_command_go_in_smaller_pieces() -> None:
    def steps(*reasons: str) -> int:
        server = Server()
        server.fail("mail", *reasons)
        server.a.receive(SECOND_NS, b"clear-tube mail buried\r\n")
        count = 1
        while server.a.pending:
            server.a.resume(SECOND_NS)
            count += 1
        return count

    alike = steps(*["no answer"] * 200)
    assert steps(*(f"no answer, said {word}" * 20 for word in WORDS[:200])) > 10 * alike
