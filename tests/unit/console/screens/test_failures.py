"""How the page of failures says that it has not looked at all jobs."""

import re

import pytest

from beanpole.console.reading.failures import FailureFilter, Failures, Group, Stretch
from beanpole.console.screens import failures, render
from beanpole.console.screens.screen import Heard
from tests.unit.console.screens.made import MadeServer, look


def page_of(looked: int, further: int | None, **query: str) -> str:
    """The page of one server with a group of 1 000 jobs in a place of 3 000."""
    server = MadeServer("one", None)
    view = look("/failures", server, **query)
    group = Group("one", "mail", "boom", 1_000, ids=[1], example="boom")
    found = Failures([group], [Stretch("grave", "ready", 3_000, looked, further)], [])
    wanted = FailureFilter(error=query.get("error"), after=int(query.get("from", 0)))
    shown = failures.told(view, wanted, [Heard(server, found)], [])  # type: ignore[arg-type]
    return bytes(render.page(view, failures.SCREEN, shown).body).decode()


def numbers_of(page: str) -> list[str]:
    """What the page says of numbers of jobs, without markup."""
    text = re.sub(r"<[^>]+>", "", page)
    return re.findall(r"(?:at least )?1\s?000(?= jobs|\n)", text)


@pytest.mark.parametrize("error", ["", "boom"])
def test_what_was_not_looked_at_stands_above_numbers_that_are_lower_bounds(error: str) -> None:
    page = page_of(1_500, 77, **({"error": error} if error else {}))
    assert page.index("Not all jobs were looked at") < page.index("boom</")
    assert "from=77" in page
    assert all(each.startswith("at least ") for each in numbers_of(page))
    assert numbers_of(page)


def test_jobs_behind_an_id_are_not_all() -> None:
    page = page_of(3_000, None, **{"from": "5"})
    assert page.index("Only jobs behind id 5") < page.index("<table")
    assert all(each.startswith("at least ") for each in numbers_of(page))


def test_numbers_are_exact_where_all_were_looked_at() -> None:
    page = page_of(3_000, None)
    assert "Not all jobs" not in page
    assert "at least" not in page
    assert len(numbers_of(page)) == 2
