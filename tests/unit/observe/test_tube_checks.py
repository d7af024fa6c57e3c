"""What the doctor finds out about tubes, on made-up visits."""

from dataclasses import replace

import pytest

from beanpole.client import Histogram, Histograms, Rules
from beanpole.observe import tube_checks
from beanpole.observe.findings import Check, Severity, Visit
from beanpole.observe.sampling import HELD, dead_tubes_of
from beanpole.observe.top_sampler import Row
from tests.unit.observe.made import job, row, sample, server, visit


def seen(*rows: Row, before: tuple[Row, ...] = (), **more: object) -> Visit:
    """A visit of tubes, which were the same before unless told otherwise."""
    return visit(sample(*(before or rows)), sample(*rows, at_s=2), **more)  # type: ignore[arg-type]


def told(check: Check, made: Visit) -> list[tuple[Severity, tuple[str, ...]]]:
    return [(each.severity, each.tubes) for each in check(made)]


def test_buried() -> None:
    buried = {"old": (1, job(age=3600)), "new": (1, job(age=3599))}
    rows = [row(name, current_jobs_buried=2) for name in ("old", "new", "not looked at")] + [row("well")]
    assert told(tube_checks.buried, seen(*rows, buried=buried)) == [
        (Severity.WARNING, ("old",)),
        (Severity.NOTE, ("new", "not looked at")),
    ]


def test_no_workers() -> None:
    rows = [
        row("a", current_jobs_ready=1),
        row("b", current_jobs_ready=9),
        row("watched", current_jobs_ready=9, current_watching=1),
        row("empty"),
        row("default", current_jobs_ready=2, current_watching=1),
    ]
    (finding,) = tube_checks.no_workers(seen(*rows, ready={"b": (1, job(age=61))}))
    assert finding.severity is Severity.WARNING
    assert finding.tubes == ("b", "default", "a"), "the doctor itself watches default"
    assert finding.evidence[0] == "b: 9 ready, the next one put 1m01s ago"


def test_the_oldest_job_counts_where_it_is_known() -> None:
    """Not the next one: it may have come a moment ago, with a better priority."""
    rows = [row("lonely", current_jobs_ready=9, oldest_ready=7200), row("young", current_jobs_ready=1, oldest_ready=0)]
    (finding,) = tube_checks.no_workers(seen(*rows, ready={"lonely": (1, job(age=1))}))
    assert finding.evidence == ("lonely: 9 ready, the oldest for 2h00m", "young: 1 ready")
    busy = row("busy", current_jobs_ready=5, current_jobs_reserved=2, oldest_ready=90_000)
    assert told(tube_checks.far_behind, seen(busy, ready={"busy": (1, job(age=1))})) == [(Severity.WARNING, ("busy",))]
    idle = row("idle", current_jobs_ready=5, current_watching=2, oldest_ready=59)
    assert not told(tube_checks.idle_workers, seen(idle, ready={"idle": (1, job(age=10**6))}))


def test_jobs_that_nearly_run_out_of_time() -> None:
    """Those that were held for longer were touched; of a few nothing is said."""
    seconds = (10, 40, 60, 600)

    def held_for(at: int, count: int) -> dict[str, Histogram]:
        return {HELD: Histogram(count, 0, tuple(count * (place == at) for place in range(4)))}

    times = {"mails": held_for(1, 1000), "touched": held_for(3, 1000), "few": held_for(1, 2), "quick": held_for(0, 50)}
    rows = [row(name) for name in (*times, "not-known")]
    made = seen(*rows, ready={"mails": (1, job(ttr=60))}, held=dict.fromkeys(("touched", "few", "quick"), 60))
    histograms = Histograms({"job": tuple(each * 1_000_000 for each in seconds)}, {}, times)
    (finding,) = tube_checks.near_ttr(replace(made, after=replace(made.after, histograms=histograms)))
    assert finding.evidence == ("mails: p99 of 40s is near its TTR of 1m00s",)
    assert not told(tube_checks.near_ttr, made)


def test_dead_jobs() -> None:
    rows = [
        row("a", current_jobs_ready=1),
        row("dead", current_jobs_ready=1),
        row("dead-b", current_jobs_ready=1200),
        row("watched", current_jobs_ready=9, current_watching=1),
        row("empty"),
    ]
    made = seen(*rows, dead_tubes=frozenset({"dead", "dead-b", "watched", "empty", "not there"}))
    (finding,) = tube_checks.dead_jobs(made)
    assert finding.severity is Severity.NOTE
    assert finding.evidence == ("dead-b: 1 200 dead jobs", "dead: 1 dead job")
    assert told(tube_checks.no_workers, made) == [(Severity.WARNING, ("a",))]


def test_tubes_into_which_rules_send_the_dead() -> None:
    rules = {
        "a": {"dead": "grave"},
        "b*": {"attempts": "2", "dead": "grave"},
        "c": {"attempts": "2"},
        "d": {"dead": "d"},
    }
    found = dead_tubes_of(Rules(pattern, values) for pattern, values in rules.items())
    assert found == {"grave": ("a", "b*")}, "d needs workers: its dead are buried in it"


def test_nobody_means_the_tube_of_the_dead() -> None:
    rows = (row("dead-mail", current_jobs_ready=1), row("dead-mails", current_waiting=1))
    assert told(tube_checks.waiting_in_vain, seen(*rows)) == [(Severity.WARNING, ("dead-mails",))]
    made = seen(*rows, dead_tubes=frozenset({"dead-mail"}))
    assert told(tube_checks.waiting_in_vain, made) == [(Severity.NOTE, ("dead-mails",))]


@pytest.mark.parametrize(
    ("before", "after", "age_s", "is_told"),
    [
        ({}, {}, 60, True),
        ({}, {}, 59, False),
        ({}, {"current_jobs_reserved": 1}, 60, False),
        ({"current_jobs_reserved": 1}, {}, 60, False),
        ({}, {"current_waiting": 1, "pause": 5}, 60, False),
        ({}, {"cmd_delete": 1}, 60, False),
        ({}, {"current_watching": 0}, 60, False),
    ],
)
def test_idle_workers(before: dict[str, object], after: dict[str, object], age_s: int, *, is_told: bool) -> None:
    values: dict[str, object] = {"current_jobs_ready": 3, "current_watching": 2}
    made = seen(
        row("a", **{**values, **after}), before=(row("a", **values, **before),), ready={"a": (1, job(age=age_s))}
    )
    assert told(tube_checks.idle_workers, made) == [(Severity.WARNING, ("a",))] * is_told


def test_far_behind() -> None:
    ready = {name: (1, job(age=90_000)) for name in ("busy", "nobody")} | {"quick": (1, job(age=5))}
    rows = [
        row("busy", current_jobs_ready=5, current_jobs_reserved=2),
        row("nobody", current_jobs_ready=5),
        row("quick", current_jobs_ready=5, current_jobs_reserved=2),
    ]
    assert told(tube_checks.far_behind, seen(*rows, ready=ready)) == [(Severity.WARNING, ("busy",))]


def test_failing_jobs() -> None:
    made = seen(ready={"a": (1, job(id=7, timeouts=3)), "b": (1, job(timeouts=2))}, buried={"c": (1, job(timeouts=9))})
    (finding,) = tube_checks.failing_jobs(made)
    assert finding.tubes == ("c", "a")
    assert finding.evidence[1] == "a: job 7 timed out 3 times, its ttr is 1m00s"


@pytest.mark.parametrize(
    ("pause", "left", "ready", "severity"),
    [
        (7200, 7199, 1, Severity.WARNING),
        (7200, 10, 1, Severity.WARNING),
        (7200, 7199, 0, Severity.NOTE),
        (3599, 10, 1, Severity.NOTE),
    ],
)
def test_pauses(pause: int, left: int, ready: int, severity: Severity) -> None:
    made = seen(row("a", pause=pause, pause_time_left=left, current_jobs_ready=ready))
    assert told(tube_checks.pauses, made) == [(severity, ("a",))]


def test_breakers() -> None:
    made = seen(row("a", **{"breaker-closed": 1}), row("b", **{"breaker-closed": 0}))
    assert told(tube_checks.breakers, made) == [(Severity.WARNING, ("a",))]


def test_growing() -> None:
    before = (row("urgent", current_jobs_ready=5, current_jobs_urgent=1), row("a", current_jobs_ready=5), row("b"))
    rows = [
        row("urgent", current_jobs_ready=5, current_jobs_urgent=2),
        row("a", current_jobs_ready=8, cmd_delete=3),
        row("b"),
        row("new", current_jobs_ready=100),
    ]
    made = seen(*rows, before=before)
    assert told(tube_checks.growing, made) == [(Severity.WARNING, ("urgent",)), (Severity.NOTE, ("a",))]
    assert told(tube_checks.growing, seen(*rows, before=before, dead_tubes={"urgent", "a"})) == []
    restarted = visit(sample(*before, stats=server(id="b")), sample(*rows, at_s=2))
    assert told(tube_checks.growing, restarted) == []


LONG_UP = 2 * 3600
"""Uptime after which a count of no puts says something."""


def test_waiting_in_vain() -> None:
    rows = [
        row("emails", current_jobs_ready=4),
        row("email", current_waiting=2, current_watching=2),
        row("later", current_waiting=1, current_watching=1),
        row("used", current_waiting=1, current_watching=1, current_using=1),
        row("done", current_waiting=1, current_watching=1, total_jobs=9),
    ]
    made = visit(after=sample(*rows, stats=server(uptime=LONG_UP), at_s=2))
    assert told(tube_checks.waiting_in_vain, made) == [(Severity.WARNING, ("email",)), (Severity.NOTE, ("later",))]
    _, unused = tube_checks.waiting_in_vain(made)
    assert unused.evidence == ("later: 1 worker waiting, no job put since the server started 2h00m ago",)


@pytest.mark.parametrize("state", ["ready", "reserved", "delayed", "buried"])
def test_nobody_waits_in_vain_where_jobs_are(state: str) -> None:
    """Counts begin again when a server starts; the jobs of its log are there."""
    waits = row("mail", current_waiting=1, current_watching=1, **{f"current_jobs_{state}": 1})
    lonely = row("mails", current_jobs_ready=1)
    assert not told(tube_checks.waiting_in_vain, seen(waits, lonely))


@pytest.mark.parametrize(("uptime", "is_told"), [(3599, False), (3600, True)])
def test_no_puts_say_nothing_soon_after_a_start(uptime: int, *, is_told: bool) -> None:
    after = sample(row("nightly", current_waiting=1), stats=server(uptime=uptime), at_s=2)
    assert told(tube_checks.waiting_in_vain, visit(after=after)) == [(Severity.NOTE, ("nightly",))] * is_told


TYPOS = """
    email emails, mail mails, emails emials, invoice envoice, Emails emails, send-mail send_mail, sendMail send.mail,
    export-278 export_278, dead-mail dead-mails, shop/orders/new shop/order/new
"""
OTHERS = """
    report export-278, report export, import export, emails emails-dead, order orders-eu,
    export-278 export-279, worker1 worker12, worker worker2, shard-1-11 shard-11-1,
    shop-a shop-b, mail-de mail-dk, test text, job jobs,
    emails smail, shop/orders/late shop/order/later
"""
"""A line each: letters in common; one edit, but in a number; or in a short word; two edits."""


@pytest.mark.parametrize(("pairs", "are_near"), [(TYPOS, True), (OTHERS, False)])
def test_names_that_are_typos_of_each_other(pairs: str, *, are_near: bool) -> None:
    for one, other in (each.split() for each in pairs.split(",")):
        assert tube_checks.nearly_the_same(one, other) is are_near, (one, other)
        assert tube_checks.nearly_the_same(other, one) is are_near, (other, one)
