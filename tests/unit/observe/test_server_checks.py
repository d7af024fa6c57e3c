"""What the doctor finds out about a server as a whole, on made-up visits."""

from dataclasses import replace
from typing import Any

import pytest

from beanpole.client.stats import Stats
from beanpole.observe import server_checks
from beanpole.observe.doctor import CHECKS, diagnose, is_healthy, name_of
from beanpole.observe.findings import Check, Severity, Visit
from tests.unit.observe.made import CLUSTER, job, sample, server, visit


def twice(before: Stats, after: Stats, **more: object) -> Visit:
    """A visit of two seconds."""
    return visit(sample(stats=before), sample(stats=after, at_s=2), **more)  # type: ignore[arg-type]


def found(check: Check, seen: Visit) -> list[Severity]:
    return [each.severity for each in check(seen)]


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_healthy_server_has_no_finding(check: Check) -> None:
    assert found(check, visit()) == []


def test_nothing_is_healthy_and_so_are_notes() -> None:
    assert diagnose(visit()) == []
    assert is_healthy([])
    notes = diagnose(twice(server(), server(durability="never")))
    assert [name for name, _ in notes] == ["durability"]
    assert is_healthy(notes)


def test_worst_comes_first() -> None:
    before, after = server(binlog_current_index=0), server(binlog_current_index=0, id="b", draining="true")
    every = diagnose(twice(before, after))
    assert [name for name, _ in every] == ["restarted", "draining", "durability"]
    assert not is_healthy(every)


def test_numbers_that_come_as_0_as_the_user_may_not_see_them_are_not_checked() -> None:
    seen: dict[str, Any] = {"binlog_current_index": 0, "certificate_seconds_left": 0, "draining": "true"}
    known = server(current_connections=1, total_connections=1, **seen)
    assert [name for name, _ in diagnose(twice(known, known))] == ["access-ends", "draining", "durability"]
    hidden = server(current_connections=1, total_connections=0, **seen)
    every = dict(diagnose(twice(hidden, hidden)))
    assert list(every) == ["draining", "hidden-numbers"]
    assert every["draining"].evidence == ()
    assert "access-ends, " in every["hidden-numbers"].evidence[0]
    shards = diagnose(replace(visit(), shards={"a": twice(hidden, hidden)}))
    assert [name for name, _ in shards] == ["draining"]


def test_restart_hides_what_grew() -> None:
    seen = twice(server(job_timeouts=1), server(id="b", job_timeouts=9))
    assert found(server_checks.restarted, seen) == [Severity.ERROR]
    assert seen.grown("job-timeouts") == 0


@pytest.mark.parametrize(
    ("used_s", "commands", "links", "severities"),
    [
        (1.8, 500_000, 0, [Severity.WARNING]),
        (1.6, 500_000, 0, []),
        (1.8, 900_000, 0, []),
        (1.8, 500_000, 1, []),
    ],
    ids=["of sockets", "not full", "of commands", "with fronts"],
)
def test_core_that_is_full(used_s: float, commands: int, links: int, severities: list[Severity]) -> None:
    before = server(rusage_utime=1.0, rusage_stime=2.0, cmd_put=7, links=links)
    after = server(rusage_utime=1.5, rusage_stime=1.5 + used_s, cmd_put=7 + commands, links=links)
    assert found(server_checks.full_core, twice(before, after)) == severities
    assert found(server_checks.full_core, visit(None, sample(stats=after))) == []  # looked at once, no time has passed


def test_draining() -> None:
    assert found(server_checks.draining, visit(None, sample(stats=server(draining="true")))) == [Severity.WARNING]


def test_schedules_that_are_due() -> None:
    due = server(schedules=3, schedules_due=2)
    assert found(server_checks.schedules_due, twice(due, due)) == [Severity.ERROR]
    assert found(server_checks.schedules_due, twice(due, server(schedules_due=2, schedule_fires=9))) == []
    assert found(server_checks.schedules_due, twice(due, server(schedules_due=2, draining="true"))) == []
    assert found(server_checks.schedules_due, twice(due, server())) == []
    blocked = replace(twice(due, server(schedules_due=1, schedule_fires=9)), blocked={"nightly": "disk"})
    (finding,) = server_checks.schedules_due(blocked)
    assert "nightly: blocked, disk" in finding.evidence


def test_schedules_that_missed_times_are_paused_or_saw_a_wrong_clock() -> None:
    missed = server(schedules=3, schedule_misses=2, schedules_paused=1, clock_sets=1)
    assert found(server_checks.missed_times, twice(server(), missed)) == [Severity.WARNING]
    for check in (server_checks.missed_times, server_checks.paused_schedules, server_checks.clock_sets):
        assert found(check, twice(missed, missed)) == [Severity.NOTE]


@pytest.mark.parametrize(
    ("kept", "severities"), [(79, []), (80, [Severity.WARNING]), (99, [Severity.WARNING]), (100, [Severity.ERROR])]
)
def test_tokens_that_are_nearly_too_many(kept: int, severities: list[Severity]) -> None:
    seen = visit(None, sample(stats=server(once_tokens=kept, once_max=100)))
    assert found(server_checks.tokens, seen) == severities


@pytest.mark.parametrize("key", ["certificate_seconds_left", "token_seconds_left"])
@pytest.mark.parametrize(
    ("left", "severities"),
    [
        (14 * 86_400 + 1, []),
        (14 * 86_400, [Severity.WARNING]),
        (86_401, [Severity.WARNING]),
        (86_400, [Severity.ERROR]),
        (-1, [Severity.ERROR]),
    ],
)
def test_certificates_and_tokens_that_end_soon(key: str, left: object, severities: list[Severity]) -> None:
    assert found(server_checks.access_ends, visit(None, sample(stats=server(ours=True, **{key: left})))) == severities


@pytest.mark.parametrize(
    ("peer", "is_remote"),
    [
        ("10.0.0.7:51312", True),
        ("2001:db8::1:9", True),
        ("::ffff:10.0.0.7:9", True),
        ("127.0.0.1:9", False),
        ("::1:9", False),
        ("::ffff:127.0.0.1:9", False),
        ("unix", False),
    ],
)
def test_clients_of_other_machines(peer: str, is_remote: bool) -> None:
    assert server_checks.is_remote(peer) is is_remote


def test_a_server_that_is_open_to_all() -> None:
    assert found(server_checks.open_to_all, visit(None, sample())) == []
    seen = replace(visit(None, sample()), peers=["10.0.0.7:51312"])
    assert found(server_checks.open_to_all, seen) == [Severity.NOTE]


@pytest.mark.parametrize(("number", "severities"), [(0, []), (2, [Severity.WARNING])])
def test_users_that_nobody_can_be(number: int, severities: list[Severity]) -> None:
    assert found(server_checks.lost_users, visit(None, sample(stats=server(users_unreachable=number)))) == severities


@pytest.mark.parametrize(
    ("left", "severities"),
    [(2**43 // 10 + 1, []), (2**43 // 10, [Severity.WARNING]), (1, [Severity.WARNING]), (0, [Severity.ERROR])],
)
def test_ids_of_a_shard_that_are_nearly_used_up(left: int, severities: list[Severity]) -> None:
    seen = visit(None, sample(stats=server(shard="3,17", shard_ids_left=left)))
    assert found(server_checks.shard_ids, seen) == severities
    assert all("--shard 3,17,N" in each.advice for each in server_checks.shard_ids(seen))


@pytest.mark.parametrize(
    ("jobs", "severities"), [(10, []), (9, []), (8, []), (7, [Severity.ERROR]), (0, [Severity.ERROR])]
)
def test_refused_puts(jobs: int, severities: list[Severity]) -> None:
    after = server(cmd_put=110, total_jobs=100 + jobs, current_producers=2)
    assert found(server_checks.refused_puts, twice(server(cmd_put=100, total_jobs=100), after)) == severities


@pytest.mark.parametrize(("merged", "severities"), [(10, []), (9, [Severity.ERROR])])
def test_puts_that_a_rule_merges_are_not_refused(merged: int, severities: list[Severity]) -> None:
    before = server(cmd_put=100, total_jobs=100, puts_merged=5)
    after = server(cmd_put=110, total_jobs=100, puts_merged=5 + merged)
    assert found(server_checks.refused_puts, twice(before, after)) == severities


def test_draining_server_is_not_told_twice() -> None:
    seen = twice(server(), server(cmd_put=50, draining="true"))
    assert found(server_checks.refused_puts, seen) == []


def test_log_that_is_not_written() -> None:
    stopped = twice(server(ours=False), server(ours=False, total_jobs=3))
    assert found(server_checks.log_stopped, stopped) == [Severity.ERROR]
    assert found(server_checks.log_stopped, twice(server(), server(total_jobs=3, binlog_records_written=3))) == []
    memory = twice(server(binlog_current_index=0), server(binlog_current_index=0, total_jobs=3))
    assert found(server_checks.log_stopped, memory) == []


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        (server(binlog_current_index=0, current_jobs_ready=1, current_jobs_buried=2), "3 jobs now"),
        (server(durability="every 50 ms"), "the log is synced every 50 ms"),
        (server(ours=False), "the log is at file 3"),
        (server(**CLUSTER, durability="local", current_jobs_ready=1), "1 job now"),
    ],
)
def test_durability(stats: Stats, said: str) -> None:
    (finding,) = server_checks.durability(visit(None, sample(stats=stats)))
    assert finding.severity is Severity.NOTE
    assert finding.evidence == (said,)


def test_cluster_with_a_standby_is_durable() -> None:
    """Its log is in no file."""
    for durability in ("quorum", "storage"):
        stats = server(**CLUSTER, durability=durability)
        assert list(server_checks.durability(visit(None, sample(stats=stats)))) == []


@pytest.mark.parametrize(
    ("connections", "severities"),
    [(79, []), (80, [Severity.WARNING]), (94, [Severity.WARNING]), (95, [Severity.ERROR])],
)
def test_connections(connections: int, severities: list[Severity]) -> None:
    after = sample(stats=server(current_connections=connections))
    assert found(server_checks.connections, visit(None, after, files_max=100)) == severities
    fronts = sample(stats=server(current_connections=3 * connections, links=3, link_channels=200, front_frames=7))
    assert found(server_checks.connections, visit(None, fronts, files_max=100)) == severities
    router = sample(stats=server(current_connections=connections + 1000, links=1, link_channels=1000))
    assert found(server_checks.connections, visit(None, router, files_max=100)) == severities
    assert found(server_checks.connections, visit(None, after)) == [], "nobody knows how many there may be"


@pytest.mark.parametrize(
    ("before", "after", "severities"),
    [
        ({"job_timeouts": 5}, {"job_timeouts": 6, "total_jobs": 10**6}, [Severity.WARNING]),
        ({"job_timeouts": 50}, {"job_timeouts": 50, "total_jobs": 1000}, [Severity.WARNING]),
        ({"job_timeouts": 49}, {"job_timeouts": 49, "total_jobs": 1000}, []),
        ({"job_timeouts": 19}, {"job_timeouts": 19, "total_jobs": 19}, []),
    ],
)
def test_timeouts(before: dict[str, object], after: dict[str, object], severities: list[Severity]) -> None:
    assert found(server_checks.timeouts, twice(server(ours=True, **before), server(ours=True, **after))) == severities


@pytest.mark.parametrize(
    ("after", "severities"),
    [
        ({"cmd_reserve": 40, "current_jobs_reserved": 1}, [Severity.WARNING]),
        ({"cmd_reserve_with_timeout": 40, "current_jobs_reserved": 1}, [Severity.WARNING]),
        ({"cmd_reserve_with_timeout": 40}, [Severity.NOTE]),
        ({"cmd_reserve": 19}, []),
        ({"cmd_reserve": 1000, "cmd_delete": 1000}, []),
        ({"cmd_reserve": 1000, "cmd_release": 400, "cmd_bury": 300, "job_timeouts": 300}, []),
        ({"cmd_reserve": 1000, "current_jobs_reserved": 1000}, []),
        ({"cmd_reserve": 1000, "current_waiting": 1000}, []),
        ({"cmd_reserve": 40, "current_jobs_reserved": 1, "current_workers": 3}, []),
    ],
)
def test_empty_reserves(after: dict[str, object], severities: list[Severity]) -> None:
    assert found(server_checks.empty_reserves, twice(server(), server(ours=True, **after))) == severities


def test_bodies() -> None:
    large = {"mail": (300_000, job()), "small": (99, job())}
    (finding,) = server_checks.bodies(visit(ready=large, buried={"mail": (400_000, job())}))
    assert finding.severity is Severity.WARNING
    assert finding.tubes == ("mail",)
    assert finding.evidence == ("mail: a body of 391 KiB", "mail: a body of 293 KiB")
    limit = visit(None, sample(stats=server(max_job_size=1 << 30)))
    assert found(server_checks.bodies, limit) == [Severity.NOTE]


@pytest.mark.parametrize(
    ("version", "old"),
    [("1.4.6", True), ("1.11", True), ("1.12", False), ("1.13+4+gabc", False), ("2.0", False), ("unknown", False)],
)
def test_version(version: str, *, old: bool) -> None:
    after = sample(stats=server(ours=False, version=f'"{version}"'))
    assert found(server_checks.version, visit(None, after)) == [Severity.WARNING] * old


def test_many_tubes_are_trouble_for_beanstalkd_only() -> None:
    theirs, ours = server(ours=False, current_tubes=5000), server(current_tubes=5000)
    assert found(server_checks.many_tubes, visit(None, sample(stats=theirs))) == [Severity.NOTE]
    assert found(server_checks.many_tubes, visit(None, sample(stats=ours))) == []
