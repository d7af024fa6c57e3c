"""What the overview and the lists of tubes and servers show, out of samples."""

import asyncio
import re
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from beanpole.client import Histogram, Histograms, StatsTube
from beanpole.console.history import History
from beanpole.console.screens import overview, render, servers, tubes
from beanpole.console.screens.screen import Screen, View
from beanpole.console.servers import see
from beanpole.observe.sampling import HELD, READY
from tests.unit.console import made as samples
from tests.unit.console.screens.made import MadeServer, changed, look

PLAIN = {
    "current_jobs_ready": 3,
    "current_jobs_reserved": 0,
    "current_jobs_delayed": 0,
    "current_jobs_buried": 1,
    "total_jobs": 9,
    "current_watching": 0,
    "current_waiting": 0,
    "cmd_delete": 2,
}
"""What plain beanstalkd says of a tube, in part."""

OURS = PLAIN | {"oldest_ready": 70, "jobs_reserved": 5, "jobs_released": 1}  # what Beanpole says of it besides


def sampled(*tubes: StatsTube, at_s: float = 0, **more: int | str) -> Any:  # noqa: ANN401 - a sample, or what is like one
    return samples.sample(*tubes, at_s=at_s, histograms=None, **more)


def typed(name: str, **counts: int) -> StatsTube:
    """A tube as the client reads it: with its fields."""
    raw = {"name": name} | {key.replace("_", "-"): value for key, value in counts.items()}
    return StatsTube.parse(("---\n" + "".join(f"{key}: {value}\n" for key, value in raw.items())).encode())


def text_of(screen: Screen, shown: View, **path: str) -> str:
    shown.request.scope["path_params"] = path

    async def made() -> bytes:
        return bytes(render.page(shown, screen, await screen.show(shown)).body)

    return asyncio.run(made()).decode()


def rows(*servers: MadeServer) -> list[tubes.Row]:
    async def found() -> list[tubes.Row]:
        return await tubes.rows_of([await see(each) for each in servers])  # type: ignore[arg-type]

    return asyncio.run(found())


def names(found: list[tubes.Row]) -> list[str]:
    return [row.tube.name for row in found]


# --- Tubes ---


def test_tubes_are_in_the_order_that_was_asked_for() -> None:
    found = rows(
        MadeServer("one", sampled(typed("b", current_jobs_ready=2), typed("a", current_jobs_ready=7), typed("c")))
    )
    assert names(tubes.ordered(found, "name")) == ["a", "b", "c"]
    assert names(tubes.ordered(found, "-name")) == ["c", "b", "a"]
    assert names(tubes.ordered(found, "nonsense")) == ["a", "b", "c"]
    assert names(tubes.ordered(found, "-ready"))[:2] == ["a", "b"]
    assert names(tubes.ordered(found, "ready"))[:2] == ["b", "a"]


def test_what_needs_a_look_comes_first() -> None:
    late = {"current_jobs_ready": 1, "oldest_ready": tubes.WAITS_S}
    said = {
        "a": {"current_jobs_ready": 9, "oldest_ready": tubes.WAITS_S - 1},
        "b": {"current_jobs_buried": 1},
        "c": {"jobs_released": 4},
        "d": {"jobs_released": 4, "current_jobs_buried": 1},
        "e": late,
        "f": late | {"oldest_ready": 3_600},
    }
    zero = {"current_jobs_ready": 0, "current_jobs_buried": 0, "jobs_released": 0}
    after = [typed(name, **zero | counts) for name, counts in said.items()]
    found = rows(MadeServer("one", sampled(*after, at_s=2), sampled(*(typed(name, **zero) for name in said))))
    assert names(tubes.found(look("/tubes"), found)) == ["f", "e", "d", "c", "b", "a"]
    assert names(tubes.found(look("/tubes", sort="name"), found)) == list("abcdef")


def test_lines_of_tubes_have_one_scale() -> None:
    taken = sampled(typed("few", current_jobs_ready=9), typed("many", current_jobs_ready=18))
    server = MadeServer("one", taken)
    server.history.add(taken, server.sampler.change)
    few, many = tubes.sparks(rows(server))
    assert 'd="M1 10h.1"' in few, "half as high"
    assert 'd="M1 1h.1"' in many
    assert "up to 9<" in few


def test_what_is_not_known_comes_last_in_any_order() -> None:
    found = rows(MadeServer("one", sampled(typed("plain", **PLAIN), typed("ours", **OURS))))
    for by in ("oldest", "-oldest"):
        assert names(tubes.ordered(found, by)) == ["ours", "plain"]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("", ["buried", "empty", "lonely", "paused", "held"]),
        ("jobs", ["buried", "lonely", "held"]),
        ("busy", ["held"]),
        ("buried", ["buried"]),
        ("paused", ["paused"]),
        ("alone", ["lonely"]),
        ("nonsense", ["buried", "empty", "lonely", "paused", "held"]),
    ],
)
def test_tubes_are_filtered_by_what_is_in_them(only: str, expected: list[str]) -> None:
    server = MadeServer(
        "one",
        sampled(
            typed("empty"),
            typed("held", current_jobs_reserved=1),
            typed("buried", current_jobs_buried=1),
            typed("paused", pause=60),
            typed("lonely", current_jobs_ready=1),
        ),
    )
    assert names(tubes.found(look("/tubes", server, only=only), rows(server))) == sorted(expected)


def test_a_part_of_a_name_is_found_whatever_its_case() -> None:
    server = MadeServer("one", sampled(typed("Mail-in"), typed("images")))
    assert names(tubes.found(look("/tubes", server, text="mAIL"), rows(server))) == ["Mail-in"]


def test_columns_are_those_of_the_address() -> None:
    server = MadeServer("one", sampled(typed("a", **OURS)))
    page = text_of(tubes.SCREEN, look("/tubes", server, column="total"))
    assert ">Total<" in page
    assert "Watch</a>" not in page
    assert "15 minutes" not in page
    first = text_of(tubes.SCREEN, look("/tubes", server))
    assert "Watch</a>" in first
    assert "15 minutes" in first


def test_how_long_jobs_wait_and_run_is_on_the_pages() -> None:
    def timed(count: int) -> Any:  # noqa: ANN401 - see above
        times = {READY: Histogram(count, 0, (count, 0)), HELD: Histogram(count, 0, (0, count))}
        histograms = Histograms({"job": (1_000_000, 41_000_000)}, times, {"a": times})
        return replace(sampled(typed("a", **OURS), typed("idle", **OURS), at_s=10 * count), histograms=histograms)

    server = MadeServer("one", timed(2), before=timed(1))
    moments = chain((0, 10), repeat(10))
    server.history = History(lambda: next(moments))
    server.history.add(timed(1), changed(None, timed(1)))
    server.history.add(timed(2), server.sampler.change)
    shown = rows(server)
    (waited, ran) = (each for each in tubes.COLUMNS if each.key in {"waited", "ran"})
    assert [tubes.cells(row, (waited, ran)) for row in shown] == [
        [("right", "990ms"), ("right", "40s")],
        [("right zero", tubes.NOT_KNOWN)] * 2,
    ]
    assert "Ran" not in text_of(tubes.SCREEN, look("/tubes", server)).partition("stands where")[2]
    page = re.sub("<[^>]*>", "", text_of(tubes.TUBE, look("/tubes/a", server), tube="a"))
    assert "99 % ran 40s, half 21s" in page
    assert "99 % waited 990ms, half 500ms" in page


def test_a_page_has_100_rows_and_says_where_it_is() -> None:
    server = MadeServer("one", sampled(*(typed(f"many-{number:04}", **OURS) for number in range(1000))))
    page = text_of(tubes.SCREEN, look("/tubes", server, after="900", sort="name"))
    assert page.count('<th scope="row">') == tubes.TUBES_PER_PAGE
    assert "901 to 1000 of 1000 tubes" in page
    assert "Next page" not in page
    assert "many-0899" not in page
    everything = text_of(tubes.SCREEN, look("/tubes", server))
    assert len(everything) <= 300_000
    assert "after=100" in everything


@pytest.mark.parametrize("after", ["-1", "x", "\u0663", "9" * 5000, "99999"])
def test_no_page_is_asked_for_that_there_is_not(after: str) -> None:
    server = MadeServer("one", sampled(typed("a")))
    assert "Tubes" in text_of(tubes.SCREEN, look("/tubes", server, after=after))


def test_what_a_server_does_not_say_is_named_with_the_reason() -> None:
    plain = MadeServer("one", sampled(typed("a", **PLAIN)))
    page = text_of(tubes.SCREEN, look("/tubes", plain))
    assert "Oldest" in page.split("stands where a server does not say it:")[1]
    assert tubes.NEEDS in page


def test_rates_that_are_to_come_are_no_fault_of_the_server() -> None:
    early = text_of(tubes.SCREEN, look("/tubes", MadeServer("one", sampled(typed("a", **OURS)))))
    assert "Rates come with the next sample." in early
    assert tubes.NEEDS not in early
    plain = MadeServer("one", sampled(typed("a", **PLAIN), at_s=2), sampled(typed("a", **PLAIN)))
    later = text_of(tubes.SCREEN, look("/tubes", plain))
    assert "Oldest, Failed/s need" in later
    assert "Rates come" not in later


def test_all_tubes_of_a_list_are_lines_with_all_that_is_said_of_them() -> None:
    server = MadeServer("one", sampled(*(typed(f"many-{number:04}", **OURS) for number in range(150)), typed("other")))

    async def lines() -> list[Any]:
        return [record async for piece in tubes.lines(look("/tubes", server, text="many")) for record in piece]

    found = asyncio.run(lines())
    assert len(found) == 150
    assert found[149] == {
        "server": "one",
        "tube": "many-0149",
        **{key.replace("_", "-"): value for key, value in OURS.items()},
    }


def test_the_rates_are_those_between_two_samples() -> None:
    server = MadeServer(
        "one", sampled(typed("a", total_jobs=30, cmd_delete=5), at_s=10), sampled(typed("a", total_jobs=10), at_s=0)
    )
    (row,) = rows(server)
    assert row.rates.put == 2
    assert row.rates.failed is None


# --- Overview ---


def test_the_overview_adds_servers_up() -> None:
    one = MadeServer("one", sampled(typed("a", **OURS), current_jobs_ready=3, current_jobs_buried=1))
    two = MadeServer("two", sampled(typed("b", current_jobs_ready=1, oldest_ready=5), id="b", current_jobs_ready=1))

    async def figures() -> dict[str, Any]:
        return overview.figures([await see(one), await see(two)])  # type: ignore[arg-type]

    found = asyncio.run(figures())
    assert (found["ready"], found["buried"], found["oldest"]) == (4, 1, 70)
    assert found["put_rate"] is None
    page = text_of(overview.SCREEN, look("/", one, two))
    assert 'href="/?server=two"' in page
    assert 'href="/tubes/b?server=two"' in page


def test_the_doctor_speaks_of_what_the_samples_show() -> None:
    server = MadeServer("one", sampled(typed("<b>", current_jobs_ready=4), current_jobs_ready=4))
    page = text_of(overview.SCREEN, look("/", server))
    assert "Jobs are ready in tubes that no connection watches" in page
    assert "&lt;b&gt;: 4 ready" in page
    assert page.index("Jobs are ready in tubes") < page.index('class="cards"')
    assert "<b>:" not in page


def test_nobody_is_missed_where_the_dead_are() -> None:
    tubes_there = (
        typed("grave", current_jobs_ready=4, oldest_ready=900),
        typed("a", current_jobs_ready=1, oldest_ready=7),
    )
    server = MadeServer(
        "one", replace(sampled(*tubes_there, current_jobs_ready=5), dead_tubes={"grave": ("a", "mail-*")})
    )
    page = text_of(overview.SCREEN, look("/", server))
    assert re.search(r"that no connection watches <span class=.grey.>· a</span>", page)
    assert "Dead jobs are in the tubes into which rules send them" in page
    assert re.search(r"Oldest ready</span><span class=.value.><span class=.number.>7s<", page)
    assert [row.tube.name for row in tubes.found(look("/tubes", server, only="alone"), rows(server))] == ["a"]
    assert {row.tube.name: tubes.need(row) for row in rows(server)}["grave"] == (0, 0, 0)


def test_a_tube_of_the_dead_says_whose_they_are_and_brings_them_back() -> None:
    server = MadeServer(
        "one", replace(sampled(typed("grave", current_jobs_ready=4)), dead_tubes={"grave": ("a", "mail-*")})
    )
    page = text_of(tubes.TUBE, look("/tubes/grave", server), tube="grave")
    banner = page[page.index("Jobs that die in") : page.index('<div class="cards">')]
    assert 'href="/tubes/a"' in banner
    assert 'href="/rules"' in banner
    assert all(f'name="{name}" value="{value}"' in banner for name, value in (("verb", "redrive"), ("state", "ready")))
    other = MadeServer("one", replace(sampled(typed("a", current_jobs_ready=4)), dead_tubes={"grave": ("a",)}))
    assert "Jobs that die in" not in text_of(tubes.TUBE, look("/tubes/a", other), tube="a")


def test_a_server_that_is_away_is_shown_as_it_was_with_the_reason() -> None:
    away = MadeServer("one", sampled(typed("a", **OURS), current_jobs_ready=3), away="no route <i>")
    page = text_of(overview.SCREEN, look("/", away))
    assert page.index("is away since") < page.index('class="cards"')
    assert "Nothing is wrong." not in page
    assert "no route &lt;i&gt;" in page
    assert "1970-01-01 00:00:07" in page
    never = text_of(servers.SCREEN, look("/servers", MadeServer("one", None, away="no route")))
    assert "It has never answered this console." in never


@pytest.mark.parametrize(
    ("screen", "path"),
    [(overview.SCREEN, "/"), (servers.SCREEN, "/servers"), (tubes.SCREEN, "/tubes"), (tubes.TUBE, "/tubes/a")],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_open_page_hears_that_a_server_is_away(screen: Screen, path: str) -> None:
    shown = look(path, MadeServer("one", sampled(typed("a", **OURS)), away="no route"))
    shown.request.scope["path_params"] = {"tube": "a"}

    async def sent() -> str:
        return "".join(render.blocks(shown, screen, await screen.show(shown), screen.live).values())

    text = asyncio.run(sent())
    assert "no route" in text
    assert "1970-01-01 00:00:07" in text


# --- Servers ---


def test_plain_beanstalkd_is_shown_with_what_it_lacks() -> None:
    page = text_of(servers.SCREEN, look("/servers", MadeServer("one", sampled(binlog_current_index=3))))
    assert "beanstalkd 1.13" in page
    assert "this server does not say" in page


def test_a_node_of_a_cluster_has_its_role_and_its_lag() -> None:
    node = sampled(
        cluster_role="follower", cluster_epoch=7, cluster_lag=2048, cluster_silence="0.250", cluster_leader="db:1"
    )
    page = text_of(servers.SCREEN, look("/servers", MadeServer("one", node)))
    assert "<h2>Cluster</h2>" in page
    assert "2\u202fKiB" in page
    assert "250ms" in page
    assert "db:1" in page
    lost = sampled(cluster_role="follower", cluster_epoch=7, cluster_leader='""')
    assert "not known" in text_of(servers.SCREEN, look("/servers", MadeServer("one", lost)))


# --- One tube ---


def test_a_tube_is_shown_also_where_the_server_answers_no_questions() -> None:
    server = MadeServer("one", sampled(typed("a", **OURS)))
    page = text_of(tubes.TUBE, look("/tubes/a", server), tube="a")
    assert "the server does not answer" in page
    assert 'value="a"' in page


def test_a_tube_that_is_not_there_is_no_mistake() -> None:
    page = text_of(tubes.TUBE, look("/tubes/gone", MadeServer("one", sampled())), tube="gone")
    assert "There is no such tube now." in page


def test_a_name_that_no_tube_can_have_is_a_mistake() -> None:
    with pytest.raises(HTTPException, match="a tube's name has"):
        text_of(tubes.TUBE, look("/tubes/x", MadeServer("one", sampled())), tube="<b>")


def test_a_name_of_dots_comes_in_the_query() -> None:
    server = MadeServer("one", sampled(typed("..", **OURS)))
    assert '<span class="mono">..</span>' in text_of(tubes.TUBE, look("/tubes/-", server, tube=".."), tube="-")
