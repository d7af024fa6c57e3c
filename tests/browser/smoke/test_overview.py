"""A browser shows the console: the one browser test of `make test`. All others: `make test-browser`."""

from playwright.sync_api import expect

from tests.browser.watched import Tab
from tests.browser.world import World


def test_first_page_shows_the_server(tab: Tab, world: World) -> None:
    tab.open("/")
    expect(tab.page).to_have_title("Overview · Beanpole")
    expect(tab.page.get_by_role("main")).to_contain_text(world.name)
