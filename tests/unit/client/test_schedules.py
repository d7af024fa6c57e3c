"""What a client says about schedules."""

import copy
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from beanpole import (
    ArgumentError,
    Backoff,
    ExistsError,
    JsonCodec,
    NotFoundError,
    Schedule,
    ScheduleError,
    UnexpectedReplyError,
    UnsupportedError,
)
from beanpole.protocol.extensions import SCHEDULE_LINES
from tests.unit.client.peer import NONE, Maker, has

ALL = (
    *[f"{verb}-schedule" for verb in ("set", "get", "drop", "pause", "fire")],
    *["fire-schedule.at", "list-schedules"],
    *[f"list-schedules.{option}" for option in ("after", "limit", "bodies", "order")],
    *[f"schedule.{line.decode()}" for line in SCHEDULE_LINES],
)
"""What a server with schedules lists."""
BERLIN = ZoneInfo("Europe/Berlin")


def setting(name: str, document: bytes, reply: bytes) -> tuple[bytes, bytes]:
    """A client sets a schedule, and the server says this."""
    return b"set-schedule %b %d\r\n%b\r\n" % (name.encode(), len(document), document), reply


def test_a_schedule_is_options_or_text(make: Maker) -> None:
    nightly = b'cron: 30 2 * * *\nzone: Europe/Berlin\ntube: reports\n\n{"kind":"nightly"}'
    script = [
        has(*ALL),
        setting("nightly", nightly, b"SCHEDULED 1774837800\r\n"),
        setting("nightly", nightly, b"SCHEDULED 1774837800.125\r\n"),
        setting("once", b"at: 2026-01-31T02:30:00\n\n", b"SCHEDULED 0\r\n"),
        setting("once", b"at: 2026-01-31T02:30:00+01:00\n\n", b"BAD_SCHEDULE 0 it never fires\r\n"),
    ]
    with make.to_peer(script, codec=JsonCodec()) as client:
        found = client.set_schedule(
            "nightly", {"kind": "nightly"}, cron="30 2 * * *", zone="Europe/Berlin", tube="reports"
        )
        assert found == datetime(2026, 3, 30, 2, 30, tzinfo=UTC)
        text = 'tube: reports\r\nzone: Europe/Berlin\r\ncron: 30  2 * * *\r\noverlap: skip\r\n\r\n{"kind":"nightly"}'
        assert client.set_schedule_text("nightly", text) == found + timedelta(seconds=0.125)
        assert client.set_schedule("once", at="2026-01-31T02:30:00") is None
        with pytest.raises(ScheduleError) as caught:
            client.set_schedule("once", at=datetime(2026, 1, 31, 2, 30, tzinfo=BERLIN))
        assert (caught.value.line, caught.value.why, caught.value.command) == (0, "it never fires", "set-schedule")


def test_every_line_is_an_option(make: Maker) -> None:
    document = (
        b"cron: @daily\nzone: Europe/Berlin\nweeks: 2\nexcept: 2026-12-25 2026-12-26\nstart: 2026-01-01T00:00:00.500Z"
        b"\nend: 2027-01-01T00:00:00\nspread: 3600\noverlap: allow\nlate: 3.3\nmisfire: skip\ntube: t\npri: 5\n"
        b"delay: 1\nttr: 9\nexpire: 86400\nkey: k\nuntil: reserve\n\n\xff\n"
    )
    script = [has(*ALL), setting("a", document, b"SCHEDULED 5\r\n")]
    options: dict[str, Any] = {
        "cron": "@daily",
        "zone": BERLIN,
        "weeks": 2,
        "except_": [date(2026, 12, 26), "2026-12-25"],
        "start": datetime(2026, 1, 1, 0, 0, 0, 500_999, tzinfo=UTC),
        "end": "2027-01-01T00:00:00",
        "spread": timedelta(hours=1),
        "overlap": "allow",
        "late": 1.1 + 2.2,
        "misfire": "skip",
        "tube": "t",
        "pri": 5,
        "delay": timedelta(seconds=1),
        "ttr": 9,
        "expire": timedelta(days=1),
        "key": "k",
        "until": "reserve",
    }
    assert {each.rstrip("_") for each in (*options, "every", "at")} == {each.decode() for each in SCHEDULE_LINES}
    with make.to_peer(script, encoding=None) as client:
        client.set_schedule("a", b"\xff\n", every=None, at=None, **options)


FRAMES = (
    b"""SCHEDULE a 11 state=active next=1000 last=990.5 fires=3 skips=2 misses=1 size=11 due=1005 job=7 blocked=disk\r
every: 10

\r
""",
    b"SCHEDULE b 0 state=ended next=0 last=0 fires=0 skips=0 misses=0 size=11\r\n\r\n",
)
FOUND = [
    Schedule(
        name="a",
        state="active",
        next=datetime.fromtimestamp(1000, UTC),
        last=datetime.fromtimestamp(990.5, UTC),
        due=datetime.fromtimestamp(1005, UTC),
        fires=3,
        skips=2,
        misses=1,
        size=11,
        job=7,
        blocked="disk",
        document=b"every: 10\n\n",
    ),
    Schedule("b", "ended", size=11),
]


def test_schedules_as_the_server_says_them(make: Maker) -> None:
    script = [
        has(*ALL),
        (b"get-schedule a\r\n", FRAMES[0]),
        (b"get-schedule c\r\n", b"NOT_FOUND\r\n"),
        (b"list-schedules\r\n", b"SCHEDULES 2 next=b\r\n" + b"".join(FRAMES)),
        (b"list-schedules limit=5 bodies=9 order=next\r\n", b"SCHEDULES 0\r\n"),
        (b"list-schedules bodies=100\r\n", b"SCHEDULES 1 next=a\r\n" + FRAMES[0]),
        (b"list-schedules after=a bodies=100\r\n", b"SCHEDULES 1\r\n" + FRAMES[1]),
        (b"list-schedules after=b bodies=100\r\n", b"SCHEDULES 0\r\n"),
    ]
    with make.to_peer(script) as client:
        assert client.schedule("a") == FOUND[0]
        with pytest.raises(NotFoundError, match=r"^get-schedule c: NOT_FOUND: there is no such schedule$"):
            client.schedule("c")
        assert client.schedules() == FOUND
        assert client.schedules(limit=5, bodies=9, order="next") == []
        assert client.all_schedules(bodies=100) == FOUND


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" state=active next=1 last=0 fires=0",
        b" next=x",
        b" state=a next=x last=0 fires=0 skips=0 misses=0 size=0",
    ],
)
def test_what_is_no_schedule(make: Maker, text: bytes) -> None:
    script = [has(*ALL), (b"get-schedule a\r\n", b"SCHEDULE a 0%b\r\n\r\n" % text)]
    with make.to_peer(script) as client, pytest.raises(UnexpectedReplyError):
        client.schedule("a")


def test_schedules_are_dropped_paused_and_fired(make: Maker) -> None:
    script = [
        has(*ALL),
        (b"pause-schedule a on\r\n", b"PAUSED\r\n"),
        (b"pause-schedule a off\r\n", b"PAUSED\r\n"),
        (b"drop-schedule a\r\n", b"DROPPED\r\n"),
        (b"fire-schedule a\r\n", b"INSERTED 5\r\n"),
        (b"fire-schedule a at=1000.5\r\n", b"EXISTS 5\r\n"),
    ]
    with make.to_peer(script) as client:
        client.pause_schedule("a")
        client.resume_schedule("a")
        client.drop_schedule("a")
        assert client.fire_schedule("a") == 5
        with pytest.raises(ExistsError) as caught:
            client.fire_schedule("a", datetime.fromtimestamp(1000.5, timezone(timedelta(hours=3))))
        assert caught.value.id == 5


def test_a_pipeline_sets_schedules(make: Maker) -> None:
    script = [
        has(*ALL),
        (b"set-schedule a 10\r\nevery: 5\n\n\r\ndrop-schedule b\r\n", b"SCHEDULED 5\r\nDROPPED\r\n"),
    ]
    with make.to_peer(script) as client, client.pipeline() as pipeline:
        result = pipeline.set_schedule("a", every=5)
        pipeline.drop_schedule("b")
    assert result.result() == datetime.fromtimestamp(5, UTC)


@pytest.mark.parametrize(
    ("call", "feature"),
    [
        (lambda client: client.set_schedule("a", every=5), "set-schedule"),
        (lambda client: client.schedules(), "list-schedules"),
        (lambda client: client.all_schedules(), "list-schedules"),
        (lambda client: client.fire_schedule("a", at=5), "fire-schedule"),
    ],
)
def test_a_server_without_schedules(make: Maker, call: Callable[[Any], object], feature: str) -> None:
    with make.to_peer([NONE]) as client:
        with pytest.raises(UnsupportedError) as caught:
            call(client)
        assert caught.value.feature == feature


def test_a_line_that_the_server_lacks_is_named_and_nothing_is_sent(make: Maker) -> None:
    with make.to_peer([has("set-schedule", "schedule.every", "schedule.tube")]) as client:
        with pytest.raises(UnsupportedError) as caught:
            client.set_schedule("a", every=5, tube="t", spread=5)
        assert caught.value.feature == "schedule.spread"


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda client: client.set_schedule("a"), ScheduleError, "one of cron, every and at is wanted"),
        (lambda client: client.set_schedule("a", every=5, cron="@daily"), ScheduleError, "contradict"),
        (lambda client: client.set_schedule("a", cron="61 * * * *"), ScheduleError, "^line 1: cron: "),
        (
            lambda client: client.set_schedule("a", every=5, key="k\nzone: UTC"),
            ScheduleError,
            "^line 2: key: .*one line",
        ),
        (lambda client: client.set_schedule("a", every=5, key="k\r"), ScheduleError, "one line"),
        (lambda client: client.set_schedule("a", every=5, tube="t\n\nx"), ScheduleError, "one line"),
        (lambda client: client.set_schedule("a", at=datetime(2100, 1, 1)), ArgumentError, "at has no time zone"),  # noqa: DTZ001
        (lambda client: client.set_schedule("a", every=5, start=datetime(2100, 1, 1)), ArgumentError, "^start has no"),  # noqa: DTZ001
        (lambda client: client.set_schedule("a", every=-5), ArgumentError, "^every must be seconds"),
        (lambda client: client.set_schedule("a", every="5"), ArgumentError, "^every must be seconds"),
        (lambda client: client.set_schedule("a", every=timedelta(days=-1)), ArgumentError, "^every must be seconds"),
        (lambda client: client.set_schedule("a", every=1.0005), ArgumentError, "^every has three decimals at most"),
        (lambda client: client.set_schedule("a", every=timedelta(microseconds=1_000_500)), ArgumentError, "decimals"),
        (lambda client: client.set_schedule("a", evry=5), TypeError, "evry"),
        (lambda client: client.set_schedule("a", 5, every=5), TypeError, "a body is"),
        (lambda client: client.set_schedule("a", "x" * 16_384, every=5), ScheduleError, "16384 bytes at most"),
        (lambda client: client.set_schedule("-a", every=5), ArgumentError, "name"),
        (lambda client: client.set_schedule_text("a", b"every 5"), ScheduleError, "^line 1: "),
        (lambda client: client.schedule("a b"), ArgumentError, "name"),
        (lambda client: client.schedules(limit=0), ArgumentError, "limit"),
        (lambda client: client.fire_schedule("a", datetime(2100, 1, 1)), ArgumentError, "at has no time zone"),  # noqa: DTZ001
    ],
)
def test_what_is_wrong_is_named_before_anything_is_sent(
    make: Maker, call: Callable[[Any], object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call(make(("127.0.0.1", 1), backoff=Backoff(attempts=1)))


def test_the_error_of_a_schedule_can_be_copied() -> None:
    error = copy.copy(ScheduleError(3, "why"))
    assert (error.line, error.why, str(error)) == (3, "why", "line 3: why")
