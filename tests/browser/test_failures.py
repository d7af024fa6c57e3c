"""Failures, held jobs, sessions and rules in a browser: what people do there, and what others have written there."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import hostile
from tests.browser.watched import WAIT_MS, Tab, tab_of
from tests.browser.world import HELD, World
from tests.e2e.process import wait_until


def test_some_jobs_of_a_group_are_chosen(tab: Tab) -> None:
    tab.open("/failures?tube=payments")
    page = tab.page
    page.get_by_role("link", name="(buried, no reason given)").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.locator("tbody input[type=checkbox]").first.check()
    expect(page.locator("[data-chosen]")).to_have_text(" (1)")
    page.locator("#bulk").get_by_role("button", name="Kick").click()
    page.get_by_role("button", name="Kick 1 job").click()
    expect(page.get_by_text("done", exact=True)).to_be_visible(timeout=WAIT_MS)
    expect(page.locator(".card").filter(has_text="Kicked")).to_contain_text("1")


def test_filter_becomes_the_address(tab: Tab) -> None:
    tab.open("/failures")
    page = tab.page
    page.get_by_label("Reason has").fill("keyerror")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/failures?text=keyerror")
    expect(page.locator("tbody tr").first).to_contain_text("KeyError")
    page.get_by_role("link", name="Failed in").click()
    page.wait_for_url("**/failures?text=keyerror&sort=tube")


def test_busy_shows_what_is_held_without_being_asked_again(tab: Tab, world: World) -> None:
    tab.open(f"/busy?tube={HELD}")
    page = tab.page
    jobs = page.locator("[data-live=jobs] tbody tr")
    expect(jobs).to_have_count(2)
    expect(jobs.first.get_by_role("img")).to_have_count(1)
    with world.client("new worker:1") as client:
        client.features()
        client.watch(HELD)
        client.reserve(timeout=0)
        expect(jobs).to_have_count(3, timeout=WAIT_MS)
        expect(page.locator("[data-live=workers]")).to_contain_text("new worker:1", timeout=WAIT_MS)
    expect(jobs).to_have_count(2, timeout=WAIT_MS)


def test_sessions_come_and_go(tab: Tab, world: World) -> None:
    tab.open("/sessions?text=visitor")
    page = tab.page
    expect(page.locator("tbody")).to_contain_text("No session fits this filter")
    with world.client("visitor:7") as client:
        client.features()
        client.tubes()  # with the name in front
        expect(page.locator("tbody")).to_contain_text("visitor:7", timeout=WAIT_MS)
    expect(page.locator("tbody")).to_contain_text("No session fits this filter", timeout=WAIT_MS)


def test_sessions_of_a_program_are_unfolded_and_stay_so(tab: Tab, world: World) -> None:
    with world.client() as first, world.client() as second, world.client() as third:
        first.name_session("pool")
        second.name_session("pool")
        tab.open("/sessions?text=pool")
        folded = tab.page.locator("tr.folded")
        expect(folded).to_have_count(2)
        expect(folded.first).to_be_hidden()
        tab.page.keyboard.press("j")
        tab.page.keyboard.press("Enter")
        expect(folded.first).to_be_visible()
        third.name_session("pool")
        expect(folded).to_have_count(3)
        expect(folded.last).to_be_visible()


def test_rules_are_set_edited_and_dropped(tab: Tab) -> None:
    tab.open("/rules")
    page = tab.page
    page.get_by_label("Pattern: a tube").fill("new-*")
    page.get_by_label("Rules, a line each").fill("attempts: 3")
    page.get_by_role("button", name="Set rules…").click()
    page.get_by_role("button", name="Set rules", exact=True).click()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    tab.open("/rules")
    row = page.locator("tbody tr").filter(has_text="new-*")
    row.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Rules, a line each")).to_have_value("attempts: 3\n")
    row.get_by_role("button", name="Drop").click()
    page.get_by_role("button", name="Drop rules").click()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    tab.open("/rules?tube=new-one")
    expect(page.locator("tbody tr").filter(has_text="new-*")).to_have_count(0)
    expect(page.get_by_text("no pattern fits")).to_be_visible()


@pytest.fixture(scope="module")
def written(world: World) -> Iterator[int]:
    """Reasons and names of people who mean no good; returns how many reasons."""
    with ExitStack() as clients:
        for name, reason in zip(hostile.NAMES * 2, hostile.MARKUP, strict=False):
            client = clients.enter_context(world.client(name))
            client.features()
            client.watch("odd")
            client.put(b"x", tube="odd")
            client.fail_job(client.reserve(timeout=0), f"{reason}\n{reason}", dead=True)
            client.put(b"x", tube="odd")
            client.reserve(timeout=0)
        wait_until(lambda: len(seen_in("odd", world)) == len(hostile.MARKUP), "the console has a new sample")
        yield len(hostile.MARKUP)


def seen_in(tube: str, world: World) -> list[str]:
    """The failures of a tube that the console sees."""
    return world.console.get(f"/failures.jsonl?tube={tube}", Authorization=f"Bearer {world.token}").text.splitlines()


def test_what_others_wrote_is_only_shown_and_fits_a_telephone(chromium: Browser, world: World, written: int) -> None:
    """Whatever runs, asks or opens something, or breaks the policy, is a complaint of the tab."""
    with tab_of(chromium, world.url, world.token, width=390) as tab:
        for path in ("/busy?tube=odd", "/sessions", "/failures?tube=odd"):
            tab.open(path)
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390, path
        links = [each.get_attribute("href") for each in tab.page.locator("tbody th a").all()]
        assert len(links) == written
        for link in links:
            tab.open(link or "")
            expect(tab.page.locator("tbody tr")).to_have_count(1)
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390, link
