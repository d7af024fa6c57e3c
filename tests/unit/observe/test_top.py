"""What keys do to the view: sorting, filtering, moving, and orders that meet the tube that was seen."""

from itertools import product

import pytest

from beanpole.observe.columns import COLUMNS
from beanpole.observe.top import (
    ACTIONS,
    AGE,
    HELP,
    HISTORY,
    MOVES,
    Kick,
    Mode,
    Order,
    Pause,
    Simple,
    Top,
    keys,
)
from beanpole.observe.top_sampler import CommandRates
from tests.unit.observe.made import job, row, top_sample


def view(height: int = 10) -> Top:
    """A view of four tubes."""
    top = Top(height=height)
    top.show(
        top_sample(
            row("mail", current_jobs_ready=5, put_rate=1.0, next_job=job(age=3)),
            row("Reports", current_jobs_ready=70, current_jobs_buried=4, current_jobs_delayed=9),
            row("backup", current_jobs_delayed=2, put_rate=0.0, delete_rate=8.0),
            row("audit", current_jobs_ready=5, pause=60, pause_time_left=30),
        )
    )
    return top


def names(top: Top) -> list[str]:
    return [each.stats.name for each in top.rows]


def press(top: Top, *keys: str) -> list[Order]:
    return [order for key in keys if (order := top.press(key)) is not None]


# --- Sorting ----------------------------------------------------------------------------------------------------------


def test_most_ready_jobs_come_first_and_equals_are_in_the_order_of_their_names() -> None:
    assert names(view()) == ["Reports", "audit", "mail", "backup"]


@pytest.mark.parametrize(
    ("title", "first"),
    [("TUBE", "Reports"), ("BURIED", "Reports"), ("DELETE/S", "backup"), ("AGE", "mail"), ("PAUSE", "audit")],
)
def test_sort_by_column(title: str, first: str) -> None:
    top = view()
    while top.column.title != title:
        press(top, ">")
    assert names(top)[0] == first


def test_sorting_goes_round_both_ways() -> None:
    top = view()
    press(top, "<", "<")
    assert top.column is COLUMNS[-1]
    press(top, "right")
    assert top.column is COLUMNS[0]
    assert not top.descending, "names begin with A"


def test_reverse() -> None:
    top = view()
    press(top, "r")
    assert names(top)[-1] == "Reports"


def test_what_is_not_known_sorts_below_nothing() -> None:
    top = view()
    while top.column.title != "PUT/S":
        press(top, ">")
    assert names(top)[:2] == ["mail", "backup"]


def test_ages_outside_the_window_are_wanted_only_when_they_decide() -> None:
    top = view(height=1)
    assert top.wanted() == ["Reports"]
    while top.sort != AGE:
        press(top, ">")
    assert set(top.wanted()) == {"Reports", "audit", "mail", "backup"}


# --- Moving -----------------------------------------------------------------------------------------------------------


def test_selection_stays_on_its_tube_when_the_table_is_sorted_anew() -> None:
    top = view()
    press(top, "down", "down")
    assert top.selected == "mail"
    top.show(top_sample(row("mail", current_jobs_ready=500), row("Reports", current_jobs_ready=1)))
    assert top.selected == "mail"
    assert names(top)[0] == "mail"


def test_selection_goes_on_when_its_tube_is_gone() -> None:
    top = view()
    press(top, "end")
    top.show(top_sample(row("mail")))
    assert top.selected == "mail"
    top.show(top_sample())
    assert top.selected == ""
    assert press(top, "up", "down", "k", "p", "u", "end", "enter") == []


def test_window_follows_the_selection() -> None:
    top = view(height=2)
    press(top, "down", "down")
    assert [each.stats.name for each in top.page()] == ["audit", "mail"]
    press(top, "page down")
    assert [each.stats.name for each in top.page()] == ["mail", "backup"]
    press(top, "home")
    assert [each.stats.name for each in top.page()] == ["Reports", "audit"]
    press(top, "end")
    top.resize(10)
    assert top.first == 0, "a larger window shows more"
    top.resize(-5)
    assert top.page(), "a tiny window shows the selected tube"


# --- Filter -----------------------------------------------------------------------------------------------------------


def test_filter_while_typing() -> None:
    top = view()
    assert press(top, "/", "r", "e") == [Simple.REFRESH, Simple.REFRESH]
    assert names(top) == ["Reports"]
    press(top, "backspace")
    assert names(top) == ["Reports"]
    press(top, "enter")
    assert top.mode is Mode.TABLE
    assert top.pattern == "r"
    press(top, "escape")
    assert len(names(top)) == 4


def test_filter_takes_keys_that_are_orders_elsewhere() -> None:
    top = view()
    assert Simple.QUIT not in press(top, "/", "q", "up")
    assert top.pattern == "q"
    assert names(top) == []
    press(top, "escape")
    assert (top.mode, top.pattern) == (Mode.TABLE, "")


# --- Orders -----------------------------------------------------------------------------------------------------------


def test_kick_asks_how_many() -> None:
    top = view()
    assert press(top, "k", "1", "2", "x", "backspace", "enter") == [Kick("Reports", 12)]
    assert top.mode is Mode.TABLE


def test_kick_of_all_is_of_the_buried_jobs_or_else_of_the_delayed_ones() -> None:
    top = view()
    assert press(top, "k", "enter") == [Kick("Reports", 4)]
    press(top, "end")
    assert top.kickable() == (4, "buried"), "the prompt was about the tube before"
    assert press(top, "k", "enter") == [Kick("backup", 2)]


def test_kick_of_nothing_is_told() -> None:
    top = view()
    press(top, "down", "k")
    assert "no buried" in top.message
    assert top.mode is Mode.TABLE
    press(top, "up")
    assert top.message == ""


def test_kick_can_be_called_off() -> None:
    top = view()
    assert press(top, "k", "3", "escape", " ") == [Simple.REFRESH]
    assert press(top, "k", "0", "enter") == [], "none is none"


def test_order_is_about_the_tube_that_was_selected_when_the_prompt_was_opened() -> None:
    top = view()
    press(top, "k")
    top.show(top_sample(row("mail", current_jobs_ready=500, current_jobs_buried=3)))
    assert top.selected == "mail"
    assert press(top, "1", "enter") == [Kick("Reports", 1)]


def test_pause_and_resume() -> None:
    top = view()
    assert press(top, "p", "9", "0", "enter") == [Pause("Reports", 90)]
    assert press(top, "p", "enter") == [Pause("Reports", 3600)]
    assert press(top, "u") == [Pause("Reports", 0)]


@pytest.mark.parametrize("typed", ["abc", "10x", "1s2m"])
def test_prompt_refuses_what_it_does_not_understand(typed: str) -> None:
    top = view()
    assert press(top, "p", *typed, "enter") == []
    assert (top.mode, "10m" in top.message) == (Mode.PAUSE, True)
    assert press(top, *["backspace"] * len(typed), *"1h30m", "enter") == [Pause("Reports", 5400)]
    assert top.mode is Mode.TABLE
    assert press(top, "k", "x", "enter") == []
    assert (top.mode, top.message) == (Mode.KICK, "a number, please")
    assert press(top, "escape") == []


@pytest.mark.parametrize("keys", [[], ["/"], ["k"], ["p"], ["?"]])
def test_control_keys_work_everywhere(keys: list[str]) -> None:
    top = view()
    press(top, *keys)
    assert press(top, "control-c") == [Simple.QUIT]
    assert press(top, "control-z") == [Simple.SUSPEND]


def test_any_key_ends_the_help() -> None:
    top = view()
    assert press(top, "?", "q") == []
    assert top.mode is Mode.TABLE
    assert press(top, "q", " ") == [Simple.QUIT, Simple.REFRESH]


def test_no_two_keys_leave_a_state_that_breaks() -> None:
    every = [*MOVES, *ACTIONS, "enter", "backspace", "1", "unknown key"]
    for first, second in product(every, every):
        top = view(height=2)
        press(top, first, second, "x")
        top.arrange()
        assert not top.rows or top.selected in names(top)


def test_help_names_every_key() -> None:
    said = " ".join(key for key, _ in HELP)
    symbols = {" ": "space", "left": "←", "right": "→", "up": "↑", "down": "↓", "escape": "/", "page up": "page"}
    symbols |= {"page down": "page", "control-l": "space"}
    assert [key for key in [*MOVES, *ACTIONS] if symbols.get(key, key) not in said] == []


# --- Samples ----------------------------------------------------------------------------------------------------------


def test_rates_are_kept_for_a_while_and_forgotten_with_the_server() -> None:
    top = Top(problem="lost")
    for number in range(HISTORY + 5):
        top.show(top_sample(rates=CommandRates(float(number), 0, 0, 0)))
    assert top.problem == ""
    assert [top.history[0].put, top.history[-1].put] == [5.0, HISTORY + 4.0]
    restarted = top_sample()
    top.show(type(restarted)(0, restarted.server, None, {}, 0))
    assert not top.history


# --- What terminals send ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"q", ["q"]),
        (b"\x1b[A", ["up"]),
        (b"\x1bOB", ["down"]),
        (b"\x1b[5~\x1b[6~", ["page up", "page down"]),
        (b"\x1b", ["escape"]),
        (b"\x1b/x", ["escape", "/", "x"]),
        (b"12\x7f\r", ["1", "2", "backspace", "enter"]),
        (b"\x03\x1a\x0c", ["control-c", "control-z", "control-l"]),
        (b"\x1b[200~", []),
        (b"\x01\x00", []),
        ("ü€".encode(), ["ü", "€"]),
        (b"\xff\xfe", []),
        (b"", []),
    ],
)
def test_keys(data: bytes, names: list[str]) -> None:
    assert keys(data) == names


# --- A tube alone -----------------------------------------------------------------------------------------------------


def test_a_tube_is_opened_and_left() -> None:
    top = view()
    assert press(top, "down", "enter") == [Simple.REFRESH], "its first jobs are asked for at once"
    assert (top.mode, top.shown_alone()) == (Mode.TUBE, "audit")
    assert press(top, "down", "u") == [Pause("audit", 0)], "keys are about the tube that is shown"
    press(top, "escape")
    assert (top.mode, top.shown_alone(), top.selected) == (Mode.TABLE, "", "audit")


def test_no_key_meets_another_tube_than_the_open_one() -> None:
    top = view()
    press(top, "enter")
    top.show(top_sample(row("mail", current_jobs_buried=4)))
    assert top.selected == "mail"
    assert press(top, "u", "k") == []
    assert top.mode is Mode.TABLE
