"""Jobs that failed, by group, of Beanpole and of beanstalkd."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from beanpole.client import Client
from beanpole.console.reading.failures import (
    BURIED,
    NEEDS,
    UNKNOWN,
    Failure,
    FailureFilter,
    Failures,
    failures_of,
    find,
    pages_of_group,
)
from beanpole.console.servers import Server as Seen
from tests.e2e.console.looking import look
from tests.e2e.process import wait_until
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

WRITTEN = "Traceback\x1b[31m: <script>alert(1)</script> \u202e{{ 7 * 7 }}"
"""A reason of somebody who means no good."""


def fail(client: Client[bytes], tube: str, *reasons: str, dead: bool = True) -> list[int]:
    """Lets a job of a tube fail for each of some reasons."""
    client.watch(tube)
    client.ignore("default")
    ids = []
    for reason in reasons:
        ids.append(client.put(b"x", tube=tube))
        client.fail_job(client.reserve_job(ids[-1]), reason, dead=dead)
    return ids


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with failures of many kinds; no test changes it."""
    with beanpole_server() as running:
        with Client(f"{HOST}:{running.port}", None) as client:
            client.set_rules("mail", "attempts: 2\ndead: mail-dead")
            client.set_rules("old", "expire: 0.001 dead\ndead: mail-dead")
            fail(client, "mail", *(f"timeout after {number} s\n at line {number}" for number in (31, 32, 31)))
            fail(client, "mail", *(f"\n  no order {number}: 0x{number:x} " for number in range(1_000_000, 1_000_400)))
            client.put(b"never", tube="mail-dead")  # no failure
            fail(client, "files", "disk full", WRITTEN)
            id = client.put(b"aside", tube="files")
            client.bury(client.reserve_job(id))
            id = client.put(b"twice", tube="mail")
            for _ in range(2):
                client.release(client.reserve_job(id))
            client.put(b"late", tube="old")
            wait_until(lambda: not client.stats_tube("old").current_jobs_ready, "the job has waited too long")
        yield running


def found(server: Server, wanted: FailureFilter) -> Failures:
    """A look."""
    return look(server, lambda seen: find(seen, wanted, until=1e18))


def counts(server: Server, wanted: FailureFilter) -> dict[tuple[str, str], int]:
    """The groups, and how many are in each."""
    return {(each.tube, each.error): each.count for each in found(server, wanted).groups}


ALL = {
    ("mail", "no order …: …"): 400,
    ("mail", "timeout after 31 s"): 2,
    ("mail", "timeout after 32 s"): 1,
    ("mail", "(the last attempt failed)"): 1,
    ("old", "(it had waited too long)"): 1,
    ("files", "disk full"): 1,
    ("files", "Traceback\\x1b[31m: <script>alert(1)</script> [U+202E]{{ 7 * 7 }}"): 1,
    ("files", BURIED): 1,
}


def test_groups_are_made_by_tube_and_first_line(server: Server) -> None:
    everything = found(server, FailureFilter())
    assert {(each.tube, each.error): each.count for each in everything.groups} == ALL
    assert everything.groups[0].count == 400
    assert not everything.unfinished
    assert everything.looked == everything.total == sum(ALL.values()) + 1
    assert everything.missing == ""
    first = everything.groups[0]
    assert len(first.ids) == 10
    assert first.ids == sorted(first.ids, reverse=True)
    assert first.example == f"no order 1000399: {1_000_399:#x}"
    assert first.newest is not None
    assert first.oldest is not None
    assert first.newest >= first.oldest > 1e9
    assert first.kinds == {"its worker gave it up": 400}
    assert first.places == {("mail-dead", "ready"): 400}
    assert first.has_text


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (FailureFilter(tube="mail"), lambda key: key[0] == "mail"),
        (FailureFilter(text="TIMEOUT"), lambda key: "timeout" in key[1]),
        (FailureFilter(text="line 32"), lambda key: "32" in key[1]),
        (FailureFilter(within="mail-dead"), lambda key: key[0] in {"mail", "old"}),
        (FailureFilter(state="buried"), lambda key: key[0] == "files"),
        (FailureFilter(error=BURIED), lambda key: key[1] == BURIED),
        (FailureFilter("files", error="no order …: …"), lambda _: False),
        (FailureFilter(within="nothing"), lambda _: False),
    ],
)
def test_filter(server: Server, wanted: FailureFilter, expected: object) -> None:
    assert callable(expected)
    assert counts(server, wanted) == {key: count for key, count in ALL.items() if expected(key)}


def test_look_that_has_no_time_says_how_far_it_came_and_goes_on_there(server: Server) -> None:
    async def ask(seen: Seen) -> list[int]:
        whole = await find(seen, FailureFilter(within="mail-dead"), until=1e18)
        steps, wanted, counted = 0, FailureFilter(within="mail-dead"), 0
        while True:
            some = await find(seen, wanted, until=0)
            counted += sum(each.count for each in some.groups)
            steps += 1
            if not some.unfinished:
                break
            (stretch,) = some.unfinished
            assert stretch.looked == 250
            wanted = replace(wanted, after=stretch.next or 0, state=stretch.state)
        return [steps, counted, sum(each.count for each in whole.groups)]

    assert look(server, ask) == [2, 405, 405]


def test_group_shows_its_jobs(server: Server) -> None:
    group = found(server, FailureFilter("mail", error="timeout after 31 s"))
    assert [each.why.text for each in group.jobs] == ["timeout after 31 s\n at line 31"] * 2
    assert len(found(server, FailureFilter("mail", error="no order …: …")).jobs) == 100
    assert found(server, FailureFilter("mail")).jobs == []


def group_ids(server: Server, tube: str, error: str, highest: int | None = None) -> list[int]:
    """The ids of a group's jobs."""

    async def ask(seen: Seen) -> list[int]:
        return [job.id async for piece in pages_of_group(seen, tube, error, highest) for job in piece]

    return look(server, ask)


def test_group_has_all_jobs_up_to_the_highest_id(server: Server) -> None:
    ids = group_ids(server, "mail", "no order …: …")
    assert len(ids) == len(set(ids)) == 400
    assert ids == sorted(ids)
    for last in (0, ids[0], ids[249], ids[250], ids[-1]):
        assert group_ids(server, "mail", "no order …: …", last) == [id for id in ids if id <= last]
    assert group_ids(server, "files", "no order …: …") == []


def test_export_has_what_a_worker_said(server: Server) -> None:
    async def ask(seen: Seen) -> list[Failure]:
        return [each async for piece in failures_of(seen, FailureFilter("files")) for each in piece]

    records = [each.record for each in look(server, ask)]
    assert [each["reason"] for each in records] == ["disk full", WRITTEN, None]
    assert [each["end"] for each in records] == ["its worker gave it up"] * 2 + ["buried"]
    assert {(each["in"], each["tube"], each["state"]) for each in records} == {("files", "files", "buried")}


def test_job_that_fails_again_has_its_new_reason() -> None:
    with beanpole_server() as server, Client(f"{HOST}:{server.port}", None) as client:
        (id,) = fail(client, "mail", "first")

        async def ask(seen: Seen) -> list[str]:
            errors = [each.error for each in (await find(seen, FailureFilter())).groups]
            client.kick_job(id)
            client.fail_job(client.reserve_job(id), "second", dead=True)
            return errors + [each.error for each in (await find(seen, FailureFilter())).groups]

        assert look(server, ask) == ["first", "second"]


def test_the_dead_are_found_when_their_rule_has_gone() -> None:
    with beanpole_server() as server, Client(f"{HOST}:{server.port}", None) as client:
        client.set_rules("mail", "dead: grave")
        fail(client, "mail", "boom")

        async def ask(seen: Seen) -> list[int]:
            before = await find(seen, FailureFilter())
            client.drop_rules("mail")
            return [len(before.groups), len((await find(seen, FailureFilter())).groups)]

        assert look(server, ask) == [1, 1]
        assert counts(server, FailureFilter()) == {}  # who looks for the first time does not know
        assert counts(server, FailureFilter(within="grave")) == {("mail", "boom"): 1}


def test_beanstalkd_says_how_many_are_buried_and_the_first() -> None:
    with beanstalkd_server() as server, Client(f"{HOST}:{server.port}", None) as client:
        client.watch("mail")
        ids = [client.put(b"x", tube="mail") for _ in range(3)]
        for _ in ids:
            client.bury(client.reserve(0))
        seen = found(server, FailureFilter())
        assert seen.missing == NEEDS
        assert [(each.tube, each.error, each.count, each.ids) for each in seen.groups] == [
            ("mail", UNKNOWN, 3, ids[:1])
        ]
        assert group_ids(server, "mail", UNKNOWN) == ids
        assert group_ids(server, "mail", UNKNOWN, ids[1]) == ids[:2]
        assert counts(server, FailureFilter(tube="other")) == counts(server, FailureFilter(text="boom")) == {}
