"""Two servers in one console, of which one is plain beanstalkd: what that can't say is grey, and nothing is broken."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from beanpole import Client
from tests.browser.screens import PATHS, RUN
from tests.browser.test_screens import complaints_of
from tests.browser.watched import Tab, tab_of
from tests.browser.world import url_of
from tests.e2e.console.process import TOKEN, Console, console, token_file
from tests.e2e.console.process import url_of as flag_of
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server


@pytest.fixture(scope="module")
def old() -> Iterator[Server]:
    """Plain beanstalkd, with a job in each state."""
    with beanstalkd_server() as server, Client((HOST, server.port), watch="crates") as client:
        for _ in range(2):
            client.put("x", tube="crates")
            client.bury(client.reserve(timeout=0))
        client.put("held", tube="crates")
        client.reserve(timeout=0)
        client.put("later", tube="crates", delay=500)
        client.put("next", tube="crates")
        yield server


@pytest.fixture(scope="module")
def both(old: Server) -> Iterator[Console]:
    with beanpole_server() as new, Client((HOST, new.port)) as client, token_file() as flags, ExitStack() as stack:
        client.put("y", tube="boxes")
        flags += ["--url", flag_of(new, "new"), "--url", flag_of(old, "old")]
        yield stack.enter_context(console(*flags))


@pytest.fixture
def pair(chromium: Browser, both: Console) -> Iterator[Tab]:
    with tab_of(chromium, url_of(both), TOKEN) as found:
        yield found


def test_lists_have_both_servers_and_a_server_can_be_chosen(pair: Tab) -> None:
    pair.open("/tubes")
    main = pair.page.get_by_role("main")
    expect(main).to_contain_text("boxes")
    expect(main).to_contain_text("crates")
    pair.page.locator(".chooser summary").click()
    pair.page.locator(".chooser").get_by_role("link", name="old", exact=True).click()
    expect(main).not_to_contain_text("boxes")
    pair.page.get_by_role("link", name="crates", exact=True).first.click()
    expect(pair.page.locator("h1")).to_contain_text("crates")
    assert "server=old" in pair.page.url


def test_screens_of_plain_beanstalkd(pair: Tab) -> None:
    for path in PATHS:
        if path not in {RUN, "/schedules/{schedule:path}"}:  # it has no schedule
            address = path.replace("{tube:path}", "crates").replace("{id}", "1") + "?server=old"
            pair.open(address + "&tube=crates" if path == "/jobs" else address)
            if path in {"/tubes/{tube:path}", "/jobs/{id}", "/sessions"}:  # which say what it lacks
                assert not complaints_of(pair.page, "light"), path


def test_what_plain_beanstalkd_can_not_say_is_grey_with_the_reason(pair: Tab) -> None:
    for path in ("/sessions", "/rules", "/tubes/crates"):
        pair.open(f"{path}?server=old")
        grey = pair.page.locator("main .missing, main .grey").filter(has_text="does not have")
        assert grey.count() > 0, path


def test_job_of_plain_beanstalkd_is_kicked(pair: Tab, old: Server) -> None:
    pair.open("/tubes/crates?server=old")
    pair.page.get_by_role("button", name="Kick buried").click()
    expect(pair.page.locator("main")).to_contain_text("2 jobs")
    pair.page.locator("main form[action='/actions'] button").click()
    expect(pair.page.locator("[data-live=progress] .badge").first).to_have_text("done")
    with Client((HOST, old.port)) as client:
        assert client.stats_tube("crates").current_jobs_buried == 0
