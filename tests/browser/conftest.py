"""Fixtures for tests that drive a browser: Debian's chromium, by Playwright, which downloads none.

A browser serves the tests of a file, and so does a world. While it runs, an event loop of Playwright's runs in the
thread of the test: nothing there may start another one.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.watched import WAIT_MS, Tab, tab_of
from tests.browser.world import World, living
from tests.servers import peer

expect.set_options(timeout=WAIT_MS)


@pytest.hookimpl(tryfirst=True)  # xdist names the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets one worker run all tests of a file: they share a browser and a server."""
    for item in items:
        if "/browser/" in item.nodeid:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser; skipped where there is none, but not in CI."""
    program = peer("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A server in which a bit of everything has happened, and its console."""
    with living() as found:
        yield found


@pytest.fixture
def tab(chromium: Browser, world: World) -> Iterator[Tab]:
    """A page of the world's console, of somebody who has logged in."""
    with tab_of(chromium, world.url, world.token) as found:
        yield found
