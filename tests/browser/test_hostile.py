"""Texts of other people stay texts, wherever they are shown; and each link of each page leads somewhere."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import hostile
from tests.browser.watched import tab_of
from tests.browser.world import World, fill_with_hostile, living
from tests.e2e.console.process import TOKEN

PAGES_MAX = 25
ALIKE_MAX = 3  # pages that differ only in what they are about
SCRIPTS = 2  # of each page: both are files of the console's own

MARKUP = "[onerror], [onload], [onmouseover], [href^='javascript:'], [src^='javascript:'], main img, main iframe, base"


@pytest.fixture(scope="module")
def bad_world() -> Iterator[World]:
    """A world full of what nobody would put who means well."""
    with living() as world, ExitStack() as clients:
        fill_with_hostile(world.process, clients)
        yield world


def check_markup(page: Page) -> None:
    """Fails if a page has markup that is not its own."""
    assert page.locator("script").count() == SCRIPTS, page.url
    assert page.locator(MARKUP).count() == 0, page.url
    assert hostile.EVALUATED not in page.locator("main").inner_text(), page.url


def links_of(page: Page) -> list[str]:
    """Where a page leads, but for files."""
    found: list[str] = page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
    return [each.partition("#")[0] for each in found if not urlsplit(each).path.endswith((".jsonl", "/body", ".json"))]


def shape_of(url: str) -> tuple[str, ...]:
    """What pages have in common that show the same of different things."""
    parts = urlsplit(url)
    return (parts.path.split("/")[1], str("/" in parts.path[1:]), *sorted(parse_qs(parts.query)))


def test_every_link_leads_to_a_page_that_runs_nothing(chromium: Browser, bad_world: World) -> None:
    with tab_of(chromium, bad_world.url, TOKEN) as tab:
        waiting, seen, shapes = [f"{bad_world.url}/"], {f"{bad_world.url}/"}, Counter[tuple[str, ...]]()
        for _ in range(PAGES_MAX):
            if not waiting:
                break
            url = waiting.pop(0)
            answer = tab.page.goto(url)
            assert answer is not None
            assert answer.status == 200, f"{url}: {answer.status}"
            check_markup(tab.page)
            for each in links_of(tab.page):
                if each not in seen and shapes[shape_of(each)] < ALIKE_MAX:
                    seen.add(each)
                    shapes[shape_of(each)] += 1
                    waiting.append(each)
        assert len(shapes) > 10, f"too few kinds of pages: {sorted(shapes)}"


def test_tube_of_any_name_has_its_page(chromium: Browser, bad_world: World) -> None:
    with tab_of(chromium, bad_world.url, TOKEN) as tab:
        for tube in hostile.TUBES:
            tab.open("/tubes")
            tab.page.get_by_role("link", name=tube, exact=True).first.click()
            expect(tab.page.get_by_role("heading", level=1)).to_contain_text(tube)
            check_markup(tab.page)
            tab.open(f"/jobs?tube={quote(tube, safe='')}")
            assert tab.page.locator("tbody tr").count() >= len(hostile.BODIES) - len(hostile.NAMES)
            check_markup(tab.page)


def test_what_is_typed_comes_back_as_text(chromium: Browser, bad_world: World) -> None:
    text = quote(" ".join(hostile.MARKUP))
    with tab_of(chromium, bad_world.url, TOKEN) as tab:
        tab.allowed.append("status of 40[04] ")
        for path in ("/tubes", "/jobs", "/failures", "/sessions", "/rules", "/schedules", "/busy", "/put", "/login"):
            for query in (f"tube={text}", f"text={text}&error={text}&to={text}"):
                tab.page.goto(f"{bad_world.url}{path}?{query}")
                check_markup(tab.page)
