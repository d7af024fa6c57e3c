"""The text of a scrape, as prometheus-client reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from beanpole.client import Rights, StatsTube
from beanpole.console.metrics.exposition import CHARS_PER_SLICE, Scraped, lines_of, slices
from beanpole.console.metrics.metered import Metered, Times
from tests.unit.console.made import stats, tube

HOSTILE = 'a"b\\c\nd{},=é*\\n'


def read(servers: list[Scraped], *, openmetrics: bool = False) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = b"".join(slices(lines_of(servers, openmetrics=openmetrics))).decode()
    parse = text_string_to_metric_families if openmetrics else parser.text_string_to_metric_families
    families = list(parse(text + "# EOF\n" * openmetrics))
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def metered(tubes: Sequence[StatsTube], rest: Mapping[str, int] | None = None, **more: "int | str") -> Metered:
    """A server, all of whose given tubes have metrics of their own."""
    keys = frozenset(tubes[0].raw) if tubes else frozenset[str]()
    return Metered(stats(**more), "cluster_role" not in more, {each.name: each for each in tubes}, rest or {}, keys)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_names_are_escaped(openmetrics: bool) -> None:
    found = read([Scraped(HOSTILE, "", metered([tube(HOSTILE, total_jobs=3)]))], openmetrics=openmetrics)
    assert found["beanpole_jobs_put_total", frozenset({"server": HOSTILE, "tube": HOSTILE}.items())] == 3


def test_what_is_no_text_is_still_served() -> None:
    found = read([Scraped("a", "", metered([tube("\udcff", total_jobs=3)]))])
    assert found["beanpole_jobs_put_total", frozenset({"server": "a", "tube": "?"}.items())] == 3


def test_a_server_that_is_away_is_only_down() -> None:
    found = read([Scraped("a", "", None), Scraped("b", "", metered([]))])
    assert found["beanpole_up", frozenset({("server", "a")})] == 0
    assert found["beanpole_up", frozenset({("server", "b")})] == 1
    assert [name for name, labels in found if ("server", "a") in labels] == ["beanpole_up"]


def test_a_node_that_follows_says_what_it_is_and_counts_no_jobs() -> None:
    node = metered([], cluster_role="follower", cluster_epoch=4, cluster_lag=70)
    found = read([Scraped("a", "", node)])
    assert found["beanpole_cluster_role", frozenset({"server": "a", "role": "follower"}.items())] == 1
    assert found["beanpole_cluster_role", frozenset({"server": "a", "role": "leader"}.items())] == 0
    assert found["beanpole_cluster_epoch", frozenset({("server", "a")})] == 4
    assert found["beanpole_cluster_lag_bytes", frozenset({("server", "a")})] == 70
    assert not any(name.startswith(("beanpole_commands", "beanpole_job", "beanpole_conn")) for name, _ in found)


def test_users_and_spaces_have_lines_of_their_own_where_something_is_limited() -> None:
    users = {"shop": {"connections": 2, "commands": 5, "refused": 1}}
    spaces = {"m*": {"jobs": 3, "jobs-max": 9, "bytes": 7, "bytes-max": 0, "tubes": 1, "tubes-max": 0}}
    rights = Rights("me", admin=False, stats=True, patterns={}, used={}, spaces=spaces, users=users)
    found = read([Scraped("a", "", replace(metered([]), rights=rights))])
    labels = frozenset({"server": "a", "user": "shop"}.items())
    assert [found[f"beanpole_user_{each}", labels] for each in ("connections", "commands_total", "refused_total")] == [
        *(2, 5, 1)
    ]
    spaced = {(name, dict(labels)["kind"]): value for (name, labels), value in found.items() if "space" in name}
    assert spaced == {("beanpole_space_used", "jobs"): 3, ("beanpole_space_limit", "jobs"): 9}


def test_a_tube_that_takes_the_dead_says_so() -> None:
    server = replace(metered([tube("a", total_jobs=3), tube("a-dead", total_jobs=0)]), dead_tubes=["a-dead"])
    found = read([Scraped("b", "", server)])
    dead = {name: value for name, value in found.items() if name[0] == "beanpole_tube_takes_dead"}
    assert dead == {("beanpole_tube_takes_dead", frozenset({"server": "b", "tube": "a-dead"}.items())): 1}


def test_what_a_server_does_not_say_has_no_line() -> None:
    found = read([Scraped("", "", metered([tube("a", total_jobs=1)]))])
    assert ("beanpole_jobs_put_total", frozenset({("tube", "a")})) in found
    assert not any(name.startswith("beanpole_job_ends") for name, _ in found)


def test_the_other_tubes_have_their_sum() -> None:
    node = metered([tube("a", total_jobs=1, pause=60)], {"total-jobs": 9, "pause": 2})
    found = read([Scraped("", "", node)])
    assert found["beanpole_jobs_put_total", frozenset({("tube", "*")})] == 9
    assert found["beanpole_tube_paused", frozenset({("tube", "a")})] == 1
    assert found["beanpole_tube_paused", frozenset({("tube", "*")})] == 2


@pytest.mark.parametrize("openmetrics", [False, True])
def test_the_counts_of_a_histogram_add_up(openmetrics: bool) -> None:
    times = Times(
        {"job": (100, 250), "commands": (1, 2)},
        {"turn-commands": [7, 1, 2, 3]},
        {"mail": {"job-ready": [2_500_000, 1, 0, 4]}},
        {"job-ready": [0, 0, 0, 0], "job-held": [5, 1, 0, 0]},
    )
    found = read([Scraped("a", "", replace(metered([]), times=times))], openmetrics=openmetrics)

    def value(name: str, **labels: str) -> float | None:
        return found.get((name, frozenset({"server": "a", **labels}.items())))

    ready = "beanpole_job_ready_seconds"
    assert [value(f"{ready}_bucket", tube="mail", le=le) for le in ("0.0001", "0.00025", "+Inf")] == [1, 1, 5]
    assert value(f"{ready}_count", tube="mail") == 5
    assert value(f"{ready}_sum", tube="mail") == 2.5
    assert value(f"{ready}_count", tube="*") is None
    assert value("beanpole_job_held_seconds_count", tube="*") == 1
    assert [value("beanpole_turn_commands_bucket", le=le) for le in ("1.0", "2.0", "+Inf")] == [1, 3, 6]
    assert value("beanpole_turn_commands_sum") == 7


def test_the_text_comes_in_slices() -> None:
    tubes = [tube(f"tube-{number}", total_jobs=number) for number in range(3000)]
    pieces = list(slices(lines_of([Scraped("a", "", metered(tubes))], openmetrics=False)))
    assert len(pieces) > 2
    assert max(map(len, pieces)) < CHARS_PER_SLICE + 10_000
