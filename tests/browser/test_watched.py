"""The watch over a page sees what it is there to see: a test that can't fail proves nothing."""

import time

import pytest
from playwright.sync_api import Browser

from tests.browser.test_screens import complaints_of
from tests.browser.watched import WAIT_MS, tab_of
from tests.browser.world import World

FAULTS = {
    "<script>alert(1)</script>": "dialog: 1",
    "<script>nothing.there</script>": "error: ",
    "<img src='http://127.0.0.1:9/x'>": "request: http://127.0.0.1:9/x",
    "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\"><p style='color: red'>x": "violates",
}


@pytest.mark.parametrize("markup", FAULTS)
def test_fault_is_a_complaint(markup: str, chromium: Browser, world: World) -> None:
    with tab_of(chromium, world.url) as tab:
        tab.page.set_content(markup)
        give_up_at = time.monotonic() + WAIT_MS / 1000
        while not any(FAULTS[markup] in each for each in tab.complaints):
            assert time.monotonic() < give_up_at, tab.complaints
            tab.page.wait_for_timeout(10)
        with pytest.raises(AssertionError):
            tab.check()
        tab.allowed.append("")


def test_axe_finds_what_is_serious(chromium: Browser, world: World) -> None:
    with tab_of(chromium, world.url) as tab:
        tab.page.set_content("<html lang=en><title>x</title><main><h1>x</h1><p><img src='data:,x'> <input>")
        found = "\n".join(complaints_of(tab.page, "light"))
        assert "image-alt" in found
        assert "label" in found
