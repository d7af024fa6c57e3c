"""What the doctor finds in the shards of a map: each check, and what it lets pass."""

from dataclasses import replace

import pytest

from beanpole.address import Address
from beanpole.observe import map_checks
from beanpole.observe.doctor import diagnose
from beanpole.observe.findings import Severity, Visit
from beanpole.observe.top_sampler import Row
from beanpole.shards.map import Places, Shard, ShardMap
from tests.unit.observe.made import row, sample, server, visit

A, B = (Shard(name, (number,), Address(name, 1)) for number, name in enumerate("ab"))
PLACES = Places(ShardMap("map", 1, {"a": A, "b": B}, {b"one": (A,), b"both": (A, B)}, frozenset()))


def between(before: Row, after: Row, *, cores: float = 0.0) -> Visit:
    """A visit of two seconds, by whose server so much of a core was used."""
    busy = server(rusage_utime=1 + 2 * cores, rusage_stime=1)
    return visit(sample(before, stats=server(rusage_utime=1, rusage_stime=1)), sample(after, stats=busy, at_s=2))


def test_shards_that_are_away_are_named() -> None:
    assert list(map_checks.shards_away(visit(None, sample(stats=server(shards=3, shards_missing=0))))) == []
    (found,) = map_checks.shards_away(visit(None, sample(stats=server(shards=3, shards_away="b, c"))))
    assert (found.severity, found.evidence) == (Severity.ERROR, ("b, c, of 3 shards",))


def test_what_does_not_fit_the_map_is_shown() -> None:
    (found,) = map_checks.misfits(replace(visit(), misfits=("a and b are one server",)))
    assert found.evidence == ("a and b are one server",)


@pytest.mark.parametrize(
    ("tube", "jobs", "urgent", "evidence"),
    [
        ("both", 20, 0, ("both: 10 jobs are put a second",)),
        ("both", 9_000, 3, ("both: 4 500 jobs are put a second, 3 urgent ones are among others",)),
        ("both", 9_000, 0, None),
        ("both", 0, 0, None),
        ("one", 20, 3, None),
    ],
)
def test_a_spread_tube_that_one_shard_could_have(
    tube: str, jobs: int, urgent: int, evidence: tuple[str, ...] | None
) -> None:
    seen = between(row(tube), row(tube, total_jobs=jobs, current_jobs_ready=max(jobs, 5), current_jobs_urgent=urgent))
    assert list(map_checks.pins(seen)) == []
    found = list(map_checks.pins(replace(seen, places=PLACES)))
    assert [each.evidence for each in found] == ([] if evidence is None else [evidence])


@pytest.mark.parametrize(
    ("tube", "cores", "severities"),
    [("one", 0.8, [Severity.WARNING]), ("one", 0.6, []), ("both", 0.8, [])],
    ids=["full", "not full", "spread"],
)
def test_a_tube_that_fills_the_core_of_its_shard(tube: str, cores: float, severities: list[Severity]) -> None:
    shard = between(row(tube), row(tube, total_jobs=900, cmd_delete=100), cores=cores)
    found = list(map_checks.splits(replace(visit(), places=PLACES, shards={"a": shard})))
    assert [each.severity for each in found] == severities
    for each in found:
        assert each.evidence == ("one: 100% of the work of a, which uses 80% of a core",)


def test_no_tube_is_split_that_does_little_of_its_shards_work() -> None:
    rows = [row(f"t{i}") for i in range(3)]
    worked = [row(f"t{i}", total_jobs=100) for i in range(3)]
    before, after = (server(rusage_utime=used) for used in (1, 3))
    shard = visit(sample(*rows, stats=before), sample(*worked, stats=after, at_s=2))
    assert list(map_checks.splits(replace(visit(), places=PLACES, shards={"a": shard}))) == []


def test_each_shard_is_checked_as_a_server_and_what_several_have_is_said_once() -> None:
    never = visit(None, sample(stats=server(durability="never")))
    drains = visit(None, sample(stats=server(draining="true")))
    whole = visit(None, sample(row("mail", current_jobs_ready=1), stats=server(draining="true", shards=3)))
    found = diagnose(replace(whole, shards={"a": never, "b": never, "c": drains}))
    assert [(check, each.evidence[:2]) for check, each in found if check != "no-workers"] == [
        ("draining", ("c: 0 jobs are ready, 0 puts came",)),
        ("durability", ("a: the log is synced never", "b: the log is synced never")),
    ]
    assert [each.tubes for check, each in found if check == "no-workers"] == [("mail",)]
