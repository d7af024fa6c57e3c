"""Jobs in a browser: choosing many, the ways to show a body, the keyboard, hostile bodies."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import hostile
from tests.browser.watched import Tab, tab_of
from tests.browser.world import READY, READY_COUNT, World
from tests.servers import HOST


def test_list_is_read_by_its_links(tab: Tab, world: World) -> None:
    tab.open("/jobs")
    page = tab.page
    page.get_by_role("link", name=f"{READY_COUNT} ready jobs of {READY}").click()
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("tbody tr")).to_have_count(READY_COUNT - 100)
    page.get_by_label("In the body or the key").fill("user119@")
    page.get_by_label("After id").fill("")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="these are all that fit")).to_be_visible()
    page.locator("tbody a.job").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Job {world.ids[READY][119]}")


def test_counts_of_the_states_change_by_themselves(tab: Tab, world: World) -> None:
    with world.client() as client:
        client.put(b"first", tube="counted")
        tab.open("/jobs?tube=counted&text=first")
        states = tab.page.get_by_role("navigation", name="States")
        expect(states).to_contain_text("Ready 1")
        tab.page.locator("tbody input").check()
        client.put(b"later", delay=3_600, tube="counted")
        expect(states).to_contain_text("Delayed 1")
        expect(tab.page.locator("tbody input")).to_be_checked()


def test_body_is_shown_in_four_ways(tab: Tab, world: World) -> None:
    id = world.ids[READY][0]
    tab.open(f"/jobs/{id}")
    page = tab.page
    for name, text in (
        ("JSON", '"to": "user0@example.org",\n'),
        ("Text", '{"to": "user0@example.org", '),
        ("Hex", "00000000  7b 22 74 6f"),
        ("Base64", "eyJ0byI6"),
    ):
        page.get_by_role("navigation", name="Ways to show the body").get_by_role("link", name=name).click()
        expect(page.locator("#body ~ pre")).to_contain_text(re.compile(re.escape(text)))
    with page.expect_download() as begun:
        page.get_by_role("link", name="Download the body").click()
    assert begun.value.suggested_filename == f"job-{id}"
    assert begun.value.path().read_bytes().startswith(b'{"to": "user0@example.org"')


@pytest.fixture(scope="module")
def odd(world: World) -> Iterator[list[int]]:
    """Jobs with bodies that a page must not run."""
    with world.client() as client:
        yield [client.put(body[:60_000], tube="odd") for body in hostile.BODIES]


def test_hostile_bodies_are_only_shown(tab: Tab, odd: list[int]) -> None:
    """Whatever runs, asks or opens something, or breaks the policy, is a complaint of the tab."""
    tab.open("/jobs?tube=odd")
    expect(tab.page.locator("tbody tr")).to_have_count(len(odd))
    for id in odd:
        for kind in ("", "?as=text"):
            tab.open(f"/jobs/{id}{kind}")
    tab.open(f"/jobs/{odd[0]}?as=text")
    assert tab.page.locator("#body ~ pre").inner_text() == hostile.MARKUP[0]
    answer = tab.page.request.get(f"{tab.url}/jobs/{odd[0]}/body")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert tab.url.startswith(f"http://{HOST}:")


def test_pages_fit_a_telephone(chromium: Browser, world: World, odd: list[int]) -> None:
    with tab_of(chromium, world.url, world.token, width=390) as tab:
        for path in (f"/jobs?tube={READY}", "/jobs?tube=odd", *(f"/jobs/{id}" for id in odd[-6:])):
            tab.open(path)
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390, path
