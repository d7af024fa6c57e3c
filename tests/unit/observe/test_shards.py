"""What does not fit a map: jobs where nobody looks, what should be the same on all shards, and what may go."""

from dataclasses import replace

import pytest

from beanpole.address import Address
from beanpole.client import Stats
from beanpole.observe.shards import NAMED_MAX, Review, ShardSample, named
from beanpole.shards.map import Shard, ShardMap

A, B, C = (Shard(name, (number,), Address(name)) for number, name in enumerate("abc"))
OLDER = ShardMap("1.toml", 1, {"a": A, "b": B}, {b"mail": (B,), b"*": (A,)}, frozenset())
NEWEST = ShardMap("2.toml", 2, {"a": A, "b": B, "c": C}, {b"mail": (A,), b"spread": (A, C), b"*": (A,)}, frozenset())
CHANGED = replace(NEWEST, before=(OLDER,))


def sample(
    shard: Shard,
    *,
    jobs: dict[str, int] | None = None,
    rules: dict[str, str] | None = None,
    dead: tuple[str, ...] = (),
    schedules: dict[str, str] | None = None,
    map_epoch: int | None = 2,
    **stats: int | str,
) -> ShardSample:
    said = {"id": shard.name, "max-job-size": 65535, "shard": shard.numbers[0]}
    said |= {} if map_epoch is None else {"link-map-epoch": map_epoch}
    said |= {key.replace("_", "-"): value for key, value in stats.items()}
    text = "---\n" + "".join(f"{key}: {value}\n" for key, value in said.items())
    return ShardSample(Stats.parse(text.encode()), jobs or {}, rules or {}, dead, schedules or {})


def review(*samples: tuple[Shard, ShardSample], newest: ShardMap = NEWEST) -> Review:
    return Review(newest, {shard.name: each for shard, each in samples})


def test_what_fits_gives_no_warning() -> None:
    rules = {"mail": "attempts: 5\n"}
    found = review(
        (A, sample(A, jobs={"mail": 1, "other": 2, "spread": 1}, rules=rules, schedules={"nightly": "mail"})),
        (B, sample(B, rules=rules)),
        (C, sample(C, jobs={"spread": 3}, rules=rules, schedules={"hourly": "spread"})),
    )
    assert list(found.warnings()) == []
    assert list(found.advice()) == []


def test_a_server_without_a_number_is_shard_0() -> None:
    bare = ShardSample(Stats.parse(b"---\nid: x\nmax-job-size: 65535\n"), {}, {}, (), {})
    assert list(review((A, bare)).warnings()) == []
    assert list(review((B, bare)).warnings()) == ["b has the number 0, and 1 in the map: its ids lead elsewhere"]


@pytest.mark.parametrize(
    ("first", "second", "warning"),
    [
        ({}, {"id": "a"}, "a and b are one server: its jobs are given out and counted twice"),
        ({}, {"max_job_size": 9}, "bodies may not have the same size on all shards: 65535 on a, 9 on b bytes"),
        ({}, {"jobs": {"mail": 1}}, "nobody looks for the jobs of mail on b"),
        (
            {},
            {"rules": {"x": "rate: 1\n"}},
            "the rules of x are not the same on all shards; `beanpole rules apply` sets them",
        ),
        (
            {"rules": {"x": "rate: 2\n", "y": "rate: 1\n"}},
            {"rules": {"x": "rate: 1\n", "y": "rate: 1\n"}},
            "the rules of x are not the same on all shards; `beanpole rules apply` sets them",
        ),
    ],
)
def test_what_does_not_fit_is_said(first: dict[str, object], second: dict[str, object], warning: str) -> None:
    found = review((A, sample(A, **first)), (B, sample(B, **second)))  # type: ignore[arg-type]
    assert list(found.warnings()) == [warning]


def test_jobs_of_the_dead_may_be_on_any_shard() -> None:
    samples = (A, sample(A, dead=("graves",))), (B, sample(B, jobs={"graves": 1}))
    assert list(review(*samples).warnings()) == []
    assert review(samples[1]).strays == [("b", "graves")]


def test_a_schedule_belongs_to_the_home_of_its_tube() -> None:
    found = review((A, sample(A, schedules={"n": "mail"})), (B, sample(B, schedules={"n": "mail"})))
    assert list(found.warnings()) == [
        "nobody looks for the jobs of mail on b",
        "schedule n is on b, and the home of its tube mail is a; set it there",
        "schedule n is on a and b: each of them fires",
    ]


HINT = "jobs for which nobody looks are found when the map by which they were put is named in before"

# --- What may go ------------------------------------------------------------------------------------------------------


def three(**of_b: object) -> list[tuple[Shard, ShardSample]]:
    return [(A, sample(A)), (B, sample(B, **of_b)), (C, sample(C))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of_b", "advice"),
    [
        ({}, "1.toml may leave before: nothing lies by it alone"),
        ({"map_epoch": 0}, "1.toml may leave before: nothing lies by it alone"),
        ({"jobs": {"mail": 1}}, "1.toml stays in before: mail on b"),
        ({"schedules": {"n": "mail"}}, "1.toml stays in before: mail on b"),
        ({"map_epoch": 1}, "1.toml stays in before: routers have older maps: one of b has epoch 1"),
        ({"map_epoch": None}, "1.toml stays in before: which maps the routers of b have is not known"),
    ],
)
def test_a_map_before_may_go_when_nothing_needs_it(of_b: dict[str, object], advice: str) -> None:
    assert list(review(*three(**of_b), newest=CHANGED).advice()) == [advice]


def test_of_two_maps_by_which_the_same_jobs_lie_one_stays() -> None:
    older = (replace(OLDER, file="2.toml", epoch=2), OLDER)
    found = review(*three(jobs={"mail": 1, "stray": 1}), newest=replace(NEWEST, before=older))
    assert list(found.advice()) == [
        "2.toml may leave before: nothing lies by it alone",
        "1.toml stays in before: mail on b",
        "those that stay stand in the next map: before = ['1.toml']",
        HINT,
    ]


def test_nothing_may_go_while_a_shard_does_not_answer() -> None:
    found = review(*three()[:2], newest=CHANGED)
    assert list(found.advice()) == ["1.toml stays in before: what c has is not known"]


def test_a_shard_without_weight_may_go_when_it_is_empty() -> None:
    emptied = replace(C, weight=0)
    tubes = {b"spread": (A,), b"*": (A,)}
    for older, jobs, advice in (
        ((), {}, ["c may leave the map: it is empty"]),
        ((), {"x": 1}, ["c is not empty yet", HINT]),
        ((replace(NEWEST, file="1.toml", epoch=1),), {}, ["1.toml may leave before: nothing lies by it alone"]),
    ):
        newest = ShardMap("3.toml", 2, {"a": A, "b": B, "c": emptied}, tubes, frozenset(), older)
        found = review((A, sample(A)), (B, sample(B)), (emptied, sample(C, jobs=jobs)), newest=newest)
        assert list(found.advice()) == advice


def test_long_lists_are_cut() -> None:
    names = [str(number) for number in range(NAMED_MAX + 2)]
    assert named(names[:NAMED_MAX]) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert named(names) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 others"


def test_routers_that_go_by_a_newer_map_are_named() -> None:
    found = review((A, sample(A, map_epoch=NEWEST.epoch + 1)), (B, sample(B)))
    assert list(found.warnings()) == [
        f"routers go by a newer map: this one has epoch {NEWEST.epoch}, theirs {NEWEST.epoch + 1} at a"
    ]
