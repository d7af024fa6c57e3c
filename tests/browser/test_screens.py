"""Each screen for everybody: axe-core finds nothing serious, and nothing is wider than a telephone."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from tests.browser.screens import PATHS, address_of
from tests.browser.watched import Tab
from tests.browser.world import READY, World

RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
SERIOUS = {"serious", "critical"}
TELEPHONE = 390


def complaints_of(page: Page, theme: str) -> list[str]:
    """What axe-core finds in a page, and where."""
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("(rules) => axe.run(document, rules)", RULES)
    return [
        f"{theme}: {each['id']} ({each['impact']}): {each['help']}\n"
        + "\n".join(f"    {' '.join(map(str, node['target']))}: {node['html']}" for node in each["nodes"][:5])
        for each in found["violations"]
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_serious_and_it_fits_a_telephone(path: str, tab: Tab, world: World) -> None:
    tab.open(address_of(path, world))
    found = []
    for theme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        found += complaints_of(tab.page, theme)
    assert not found, "\n".join(found)
    tab.page.set_viewport_size({"width": TELEPHONE, "height": 800})
    widest = tab.page.evaluate("document.documentElement.scrollWidth")
    assert widest <= TELEPHONE, f"{widest} pixels wide: a table may scroll in a box of its own, the page may not"
    boxes = tab.page.locator(".scroll:has(.list)").evaluate_all(
        "all => all.map(box => box.scrollWidth - box.clientWidth)"
    )
    assert not any(boxes), "a list may not scroll either: each of its rows is a card"


def test_a_filter_is_folded_on_a_telephone_unless_it_is_used(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": TELEPHONE, "height": 800})
    tab.open("/tubes")
    name = tab.page.get_by_label("Name has")
    expect(name).to_be_hidden()
    tab.page.get_by_label("Filter").check()
    name.fill(READY)
    tab.page.get_by_role("button", name="Show").click()
    tab.page.wait_for_url("**/tubes?*")
    expect(name).to_have_value(READY)
    expect(name).to_be_visible()
