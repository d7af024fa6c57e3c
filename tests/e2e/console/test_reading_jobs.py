"""Jobs page by page, of Beanpole and of beanstalkd."""

from collections.abc import Iterator

import pytest

from beanpole.client import Client, JobInfo
from beanpole.console.reading.jobs import Found, JobFilter, find, highest_id, pages
from beanpole.console.servers import Server as Seen
from tests.e2e.console.looking import look
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

COUNT = 1_200
"""Jobs of the tube: more than a piece has."""


@pytest.fixture(scope="module", params=[beanpole_server, beanstalkd_server], ids=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with jobs in two tubes, by turns in the beginning; no test changes it."""
    with request.param() as running:
        with Client(f"{HOST}:{running.port}", None) as client:
            for number in range(10):
                client.put(b"other", tube="other")
                client.put(b"early %d" % number, tube="mail")
            client.put_many([b"letter %d" % number for number in range(COUNT - 11)], 5, 0, 60, tube="mail")
            client.put(b"x" * 500 + b" needle", 1, tube="mail")
            client.put(b"later", 5, 3_600, tube="mail")
            with client.using("broken"):
                client.put(b"broken")
            client.watch("broken")
            client.ignore("default")
            client.bury(client.reserve(0))
        yield running


def found(server: Server, wanted: JobFilter, highest: int | None = None, bodies: int = 0) -> Found:
    """A page."""
    return look(server, lambda seen: find(seen, wanted, highest, bodies=bodies))


def all_pages(server: Server, wanted: JobFilter, highest: int | None = None, bodies: int = 0) -> list[list[JobInfo]]:
    """All pieces."""

    async def ask(seen: Seen) -> list[list[JobInfo]]:
        return [piece async for piece in pages(seen, wanted, highest, bodies=bodies)]

    return look(server, ask)


def walked(server: Server, wanted: JobFilter) -> tuple[list[JobInfo], int]:
    """All jobs that a person finds who goes on as long as there is a next page, and how many were looked at."""

    async def ask(seen: Seen) -> tuple[list[JobInfo], int]:
        jobs: list[JobInfo] = []
        looked, after = 0, wanted.after
        while True:
            page = await find(
                seen, JobFilter(wanted.tube, wanted.state, wanted.text, after, limit=wanted.limit), bodies=600
            )
            assert page.is_complete == (page.next is None)
            jobs += page.jobs
            looked += page.looked
            if page.next is None:
                return jobs, looked
            assert page.next > after
            after = page.next

    return look(server, ask)


def test_each_job_is_on_one_page(server: Server) -> None:
    jobs, looked = walked(server, JobFilter("mail", limit=100))
    assert looked == len(jobs) == len({job.id for job in jobs}) == COUNT
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert {job.tube for job in jobs} == {"mail"}
    assert jobs[10].body == b"letter 0"
    assert jobs[10].size == 8


def test_page_has_no_more_than_its_limit_and_begins_behind_an_id(server: Server) -> None:
    page = found(server, JobFilter("mail", limit=3), bodies=5)
    assert [job.body for job in page.jobs] == [b"early"] * 3
    assert page.next == page.jobs[-1].id == page.looked_to
    assert not page.is_complete
    behind = found(server, JobFilter("mail", after=page.next or 0, limit=3))
    assert behind.jobs[0].id == page.jobs[-1].id + 2
    assert behind.jobs[0].body == b""


def test_search_finds_what_stands_in_bodies(server: Server) -> None:
    jobs, looked = walked(server, JobFilter("mail", text="letter 99"))
    assert [job.body for job in jobs] == [b"letter 99", *(b"letter %d" % number for number in range(990, 1_000))]
    assert looked == COUNT
    jobs, _ = walked(server, JobFilter("mail", text="needle"))
    assert [job.body[-7:] for job in jobs] == [b" needle"]
    page = found(server, JobFilter("mail", text="needle", after=jobs[0].id - 1))
    assert page.jobs[0].body == b""
    assert page.bodies_cut_at == 65_536


def test_search_that_stops_at_its_limit_says_how_far_it_looked(server: Server) -> None:
    page = found(server, JobFilter("mail", text="early", limit=4))
    assert (len(page.jobs), page.looked) == (4, 4)
    assert page.next == page.jobs[-1].id == page.looked_to


@pytest.mark.parametrize(
    ("wanted", "bodies"),
    [
        (JobFilter("mail", "delayed"), [b"later"]),
        (JobFilter("broken", "buried"), [b"broken"]),
        (JobFilter("mail", "buried"), []),
        (JobFilter("mail", "reserved"), []),
        (JobFilter("mail", "reserved", order="next"), []),
        (JobFilter("nothing"), []),
        (JobFilter("mail", after=2**62), []),
    ],
)
def test_page_of_few(server: Server, wanted: JobFilter, bodies: list[bytes]) -> None:
    page = found(server, wanted, bodies=100)
    assert [job.body for job in page.jobs] == bodies
    assert page.is_complete
    assert page.next is None


def test_tubes_are_not_made_or_kept_by_looking(server: Server) -> None:
    async def ask(seen: Seen) -> list[str]:
        await find(seen, JobFilter("nothing"))
        await find(seen, JobFilter("nothing", order="next"))
        await find(seen, JobFilter("mail"))
        client = await seen.client()
        assert (await client.stats_tube("mail")).current_using == 0
        return await client.tubes()

    assert sorted(look(server, ask)) == ["broken", "default", "mail", "other"]


def test_pieces_have_all_jobs_up_to_the_highest_id(server: Server) -> None:
    everything = [job.id for piece in all_pages(server, JobFilter("mail")) for job in piece]
    assert len(everything) == COUNT
    for last in (0, 1, everything[0], everything[50], everything[1_050], everything[-1], 2**62):
        ids = [job.id for piece in all_pages(server, JobFilter("mail"), last) for job in piece]
        assert ids == [id for id in everything if id <= last]
    pieces = all_pages(server, JobFilter("mail", text="letter", after=everything[20]), everything[30], 6)
    assert [(job.id, job.body) for piece in pieces for job in piece] == [(id, b"letter") for id in everything[21:31]]


def test_page_stops_at_the_highest_id(server: Server) -> None:
    everything = found(server, JobFilter("mail")).jobs
    page = found(server, JobFilter("mail"), everything[5].id)
    assert [job.id for job in page.jobs] == [job.id for job in everything[:6]]
    assert page.next is None
    page = found(server, JobFilter("mail", limit=6), everything[5].id)
    assert (len(page.jobs), page.next) == (6, None)


def test_highest_id_is_the_last_job_s(server: Server) -> None:
    last = walked(server, JobFilter("mail"))[0][-1].id
    assert look(server, lambda seen: highest_id(seen, "mail", "ready")) == last
    assert look(server, lambda seen: highest_id(seen, "broken", "buried")) == last + 2
    assert look(server, lambda seen: highest_id(seen, "nothing", "ready")) == 0


def test_jobs_in_the_order_in_which_workers_get_them(server: Server) -> None:
    page = found(server, JobFilter("mail", order="next", limit=3), bodies=6)
    if server.name == "beanpole":
        assert [job.body for job in page.jobs] == [b"xxxxxx", b"letter", b"letter"]
        assert page.missing == ""
    else:
        assert [job.body for job in page.jobs] == [b"xxxxxx"]
        assert "list-jobs" in page.missing
    assert not page.is_complete


def test_hidden_bodies_are_neither_read_nor_searched(server: Server) -> None:
    async def ask(seen: Seen) -> None:
        for order in ("id", "next"):
            page = await find(seen, JobFilter("mail", order=order), bodies=600)
            assert {job.body for job in page.jobs} == {b""}
        page = await find(seen, JobFilter("mail", text="letter"), bodies=600)
        assert page.jobs == []
        assert page.bodies_cut_at is None
        assert [piece async for piece in pages(seen, JobFilter("mail", text="letter"), bodies=600) if piece] == []
        assert {job.body async for piece in pages(seen, JobFilter("mail"), bodies=600) for job in piece} == {b""}

    look(server, ask, hide_bodies=True)


def test_search_finds_keys_where_there_are_any() -> None:
    with beanpole_server() as server, Client(f"{HOST}:{server.port}", None) as client:
        client.put_job(b"a", key="order:4711")
        client.put_job(b"b", key="order:4712")
        for hide_bodies in (False, True):
            page = look(server, lambda seen: find(seen, JobFilter("default", text="4712")), hide_bodies=hide_bodies)
            assert [job.key for job in page.jobs] == ["order:4712"]
