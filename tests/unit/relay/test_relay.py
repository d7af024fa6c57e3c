"""The relay against a server in this process, from a file of SQLite, step by step."""

import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beanpole.client import Address, Client
from beanpole.errors import ExitCode, StartError
from beanpole.relay import relay as module
from beanpole.relay.outbox import BODY_BYTES_MAX, Outbox
from beanpole.relay.relay import Relay
from beanpole.testing import FakeServer

NAME = "beanpole_outbox"

POISONED: tuple[tuple[str, tuple[object, ...], str], ...] = (
    ("tube, body", ("-mail", b"x"), "tube"),
    ("tube, body", ("a b", b"x"), "tube"),
    ("tube, body", ("t" * 201, b"x"), "tube"),
    ("tube, body", (b"mail", b"x"), "tube"),
    ("tube, body", ("mail", 7), "a body is bytes"),
    ("tube, body", ("mail", b"x" * 101), "JOB_TOO_BIG"),
    ("tube, body", ("mail", bytes(BODY_BYTES_MAX + 1)), "larger than a relay reads"),
    ("tube, body, pri", ("mail", b"x", -1), "priority"),
    ("tube, body, pri", ("mail", b"x", "high"), "priority"),
    ("tube, body, ttr", ("mail", b"x", 2**32), "ttr"),
    ("tube, body, delay", ("mail", b"x", 1e12), "delay"),
    ("tube, body, delay", ("mail", b"x", "soon"), "another type"),
    ("tube, body, delay, at", ("mail", b"x", 1, 1e9), "only one of delay and at"),
    ("tube, body, job_key", ("mail", b"x", "a b"), "key"),
    ("tube, body, job_group", ("mail", b"x", ""), "a group has"),
    ("tube, body, expire", ("mail", b"x", -1), "expire"),
)
"""Columns, what an application inserts there, and what the reason says."""


class Killed(BaseException):
    """What ends a relay as kill -9 does."""


class DyingOutbox(Outbox):
    """Ends the relay at one of its steps."""

    dies_at = ""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._step("before")
        with super().transaction():
            yield
            self._step("commit")
        self._step("after")

    def take(self, count: int, shut: Collection[tuple[str, str]]) -> Sequence[Any]:
        self._step("take")
        return super().take(count, shut)

    def finish(self, aside: Mapping[int, str], done: Sequence[int]) -> None:
        self._step("finish")
        super().finish(aside, done)

    def _step(self, name: str) -> None:
        if name == self.dies_at:
            raise Killed


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(body_bytes_max=100) as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def outbox(path: Path) -> Iterator[DyingOutbox]:
    with opened(path) as found:
        found.make()
        yield found


@contextmanager
def opened(path: Path) -> Iterator[DyingOutbox]:
    outbox = DyingOutbox(f"sqlite:///{path}", NAME, is_new=True)
    try:
        yield outbox
    finally:
        outbox.close()


def insert(path: Path, columns: str, *rows: tuple[object, ...]) -> None:
    with sqlite3.connect(path, timeout=0) as application:
        marks = ", ".join("?" * len(rows[0]))
        application.executemany(f"insert into {NAME} ({columns}) values ({marks})", rows)  # noqa: S608 - ours
    application.close()


def relay_of(server: FakeServer, outbox: Outbox, lines: list[tuple[str, dict[str, object]]] | None = None) -> Relay:
    """A relay that stops instead of waiting for more rows."""
    written = [] if lines is None else lines

    def log(_: str, event: str, **about: object) -> None:
        written.append((event, about))

    relay = Relay(outbox, Address.of(server.url), log, lambda _: None, time.monotonic_ns)
    relay._sleep = lambda _: setattr(relay, "stops", True)
    return relay


def bodies(server: FakeServer, tube: str = "mail") -> list[bytes]:
    return [job.body for job in server.jobs(tube)]


def client_of(server: FakeServer, tube: str) -> Client[str]:
    return Client(server.address, use=tube, watch=tube)


def take_all(server: FakeServer) -> list[int]:
    """Do what the jobs say that there are: their numbers."""
    with client_of(server, "mail") as worker:
        jobs = [worker.reserve(0) for _ in server.jobs("mail")]
        worker.delete_many(jobs)
    return [int(job.body) for job in jobs]


def test_row_becomes_a_job_with_what_its_columns_say(server: FakeServer, path: Path, outbox: Outbox) -> None:
    insert(path, "tube, body, pri, ttr, job_key, job_group", ("mail", "text", 7, 90, "order-1", "tenant"))
    insert(path, "tube, body, put_at, delay", ("late", b"\x00\xff", 0, 1e9), ("late", b"x", 4e9, 1.5))
    insert(path, "tube, body, at, expire", ("at", b"x", 4.0e9, 60), ("at", b"x", 0, 60), ("at", b"x", None, 60))
    relay_of(server, outbox).run()
    with client_of(server, "mail") as client:
        job = client.list_jobs("mail", "ready").jobs[0]
    assert (job.pri, job.ttr, job.key, job.group) == (7, 90, "order-1", "tenant")
    assert bodies(server) == [b"text"]
    assert [(job.body, job.state) for job in server.jobs("late")] == [(b"\x00\xff", "ready"), (b"x", "delayed")]
    assert [job.state for job in server.jobs("at")] == ["delayed", "ready", "ready"]
    server.advance(0.002)
    assert len(server.jobs("at")) == 2, "what was due long ago has no time left to wait"
    assert outbox.status().rows == 0


def test_text_that_is_not_utf8_is_a_body_and_stops_nobody(server: FakeServer, path: Path, outbox: Outbox) -> None:
    with sqlite3.connect(path) as application:
        application.execute("insert into beanpole_outbox (tube, body) values ('mail', cast(x'ff41' as text))")
        application.execute("insert into beanpole_outbox (tube, body) values (cast(x'ff' as text), 'x')")
        application.execute("insert into beanpole_outbox (tube, body) values ('mail', 'y')")
    relay_of(server, outbox).run()
    assert bodies(server) == [b"\xffA", b"y"]
    assert [each["number"] for each in outbox.status().reasons] == [2]


def test_rows_that_can_be_no_job_are_set_aside_and_stop_nobody(server: FakeServer, path: Path, outbox: Outbox) -> None:
    for columns, values, _ in POISONED:
        insert(path, columns, values)
    insert(path, "tube, body", ("mail", b"good"))
    lines: list[tuple[str, dict[str, object]]] = []
    relay_of(server, outbox, lines).run()
    assert bodies(server) == [b"good"]
    found = outbox.status()
    assert (found.rows, found.aside) == (0, len(POISONED))
    for (*_, reason), said in zip(POISONED, found.reasons, strict=True):
        assert reason in str(said["error"])
    assert [event for event, _ in lines] == ["a row was set aside"] * len(POISONED)
    insert(path, "tube, body", ("mail", b"next"))
    relay_of(server, outbox).run()
    assert bodies(server) == [b"good", b"next"]


@pytest.mark.parametrize("step", ["before", "take", "finish", "commit", "after"])
def test_relay_that_dies_at_a_step_leaves_one_job_for_each_row(server: FakeServer, path: Path, step: str) -> None:
    with opened(path) as outbox:
        outbox.make()
        insert(path, "tube, body", *[("mail", b"%d" % each) for each in range(40)])
        relay = relay_of(server, outbox)
        with relay._client:
            relay.step()
            outbox.dies_at = step
            with pytest.raises(Killed):
                relay.step()
    done = take_all(server)
    with opened(path) as outbox:
        relay_of(server, outbox).run()
        assert outbox.status().rows == 0
    assert sorted(done + take_all(server)) == list(range(40))


def test_what_a_tube_does_not_take_stays_and_the_others_go_on(server: FakeServer, path: Path, outbox: Outbox) -> None:
    with client_of(server, "full") as client:
        client.set_rules("full", {"jobs-max": 1})
    insert(path, "tube, body", *[("full", b"%d" % each) for each in range(1500)], ("mail", b"x"))
    lines: list[tuple[str, dict[str, object]]] = []
    relay = relay_of(server, outbox, lines)
    relay._now_ns = lambda: 0
    relay.run()
    assert (bodies(server, "full"), bodies(server)) == ([b"0"], [b"x"])
    assert [event for event, _ in lines] == ["the server does not take a job now"]
    with client_of(server, "full") as client:
        client.drop_rules("full")
    relay._now_ns, relay.stops = (lambda: 2 * 10**9), False
    relay.run()
    assert len(bodies(server, "full")) == 1500
    assert lines[-1][0] == "it goes on"


def test_large_bodies_make_small_batches(server: FakeServer, path: Path, outbox: Outbox) -> None:
    insert(path, "tube, body", *[("mail", b"x")] * 100)
    relay = relay_of(server, outbox)
    relay._batch_bytes = 3
    with relay._client:
        relay.step()
        relay.step()
    assert relay.done == module.BATCH_ROWS_FIRST + 3


def test_application_may_write_while_the_relay_waits_for_the_server(
    server: FakeServer, path: Path, outbox: Outbox
) -> None:
    insert(path, "tube, body", ("mail", b"first"))
    relay = relay_of(server, outbox)
    plain = relay._put

    def put(rows: Sequence[Any]) -> tuple[list[int], dict[int, str]]:
        insert(path, "tube, body", ("mail", b"second"))
        return plain(rows)

    relay._put = put  # type: ignore[method-assign]
    with relay._client:
        relay.step()
    assert (bodies(server), outbox.status().rows) == ([b"first"], 1)


def test_second_relay_of_a_file_is_refused(server: FakeServer, path: Path, outbox: Outbox) -> None:
    relay_of(server, outbox).run()
    with opened(path) as second, pytest.raises(StartError, match="another relay takes from beanpole_outbox") as caught:
        relay_of(server, second).run()
    assert caught.value.exit_code == ExitCode.NOT_FOUND


def test_rows_that_the_database_does_not_delete_are_one_job_each(
    server: FakeServer, path: Path, outbox: Outbox
) -> None:
    insert(path, "tube, body", ("mail", b"x"), ("mail", b"y"))
    lines: list[tuple[str, dict[str, object]]] = []
    with sqlite3.connect(path) as application:
        application.execute(f"create trigger keep before delete on {NAME} begin select raise(abort, 'kept'); end")
        for _ in range(2):
            relay_of(server, outbox, lines).run()
        application.execute("drop trigger keep")
    relay_of(server, outbox).run()
    application.close()
    assert lines == [("the database refuses", {"error": "kept"})] * 2
    assert (bodies(server), outbox.status().rows) == ([b"x", b"y"], 0)


@pytest.mark.usefixtures("outbox")
def test_view_that_nothing_can_be_deleted_from_is_refused(server: FakeServer, path: Path) -> None:
    with sqlite3.connect(path) as application:
        application.execute(f"create view seen as select * from {NAME}")  # noqa: S608 - ours
    application.close()
    view = Outbox(f"sqlite:///{path}", "seen")
    with pytest.raises(StartError, match="seen: cannot modify seen because it is a view; the relay needs") as caught:
        relay_of(server, view).run()
    view.close()
    assert caught.value.exit_code == ExitCode.NOT_FOUND


def test_server_that_does_not_know_once_is_refused(path: Path, outbox: Outbox) -> None:
    insert(path, "tube, body", ("mail", b"x"))
    with FakeServer(old=True) as server, pytest.raises(StartError, match="does not know put-job with once=") as caught:
        relay_of(server, outbox).run()
    assert (caught.value.exit_code, outbox.status().rows) == (ExitCode.NOT_FOUND, 1)
