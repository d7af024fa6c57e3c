"""Logging in and out, by the keyboard, with and without JavaScript; and a page from elsewhere that tries to act."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.test_screens import complaints_of
from tests.browser.watched import Tab, tab_of
from tests.browser.world import World


@pytest.fixture(params=[True, False], ids=["script", "no script"])
def stranger(request: pytest.FixtureRequest, chromium: Browser, world: World) -> Iterator[Tab]:
    """Somebody who has yet to log in."""
    with tab_of(chromium, world.url, has_javascript=request.param) as tab:
        yield tab


def test_one_logs_in_where_one_wanted_to_go_and_out(stranger: Tab, world: World) -> None:
    page = stranger.page
    stranger.open("/tubes?sort=-ready")
    assert page.url == f"{world.url}/login?to=/tubes%3Fsort%3D-ready"
    stranger.allowed.append("status of 401 ")
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type("not the token of anybody")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This token is not known here.")
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(world.token)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{world.url}/tubes?sort=-ready")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{world.url}/login")
    stranger.open("/")
    assert "/login" in page.url


def test_a_page_from_elsewhere_can_not_log_anybody_out(chromium: Browser, world: World) -> None:
    with tab_of(chromium, world.url, world.token) as tab:
        there = f"http://evil.localhost:{world.console.port}/"
        tab.allowed += ["request: ", "status of 403 "]
        form = f'<form method="post" action="{world.url}/logout"><button>Win</button></form>'
        tab.page.route(there, lambda route: route.fulfill(content_type="text/html", body=form))
        tab.page.goto(there)
        with tab.page.expect_navigation() as answered:
            tab.page.get_by_role("button", name="Win").click()
        answer = answered.value
        assert answer is not None
        assert answer.request.redirected_from is not None or answer.status == 403
        tab.open("/")
        expect(tab.page.get_by_role("button", name="Log out")).to_be_visible()
        assert tab.page.evaluate("document.cookie") == "", "a cookie is not for scripts"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_the_page_that_asks(theme: str, chromium: Browser, world: World) -> None:
    with tab_of(chromium, world.url, width=390, dark=theme == "dark") as tab:
        tab.open("/login")
        assert not complaints_of(tab.page, theme)
