"""Pages that change while they are looked at, and what the keyboard and the switches do."""

from contextlib import ExitStack
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Request, expect

from beanpole import Client
from tests.browser.watched import Tab, tab_of
from tests.browser.world import World, url_of
from tests.e2e.console.process import console
from tests.servers import HOST, beanpole_server, kept_port

LIVE = "[data-live-state]"


def is_stream(request: Request) -> bool:
    return request.headers.get("accept") == "text/event-stream"


def put(world: World) -> None:
    with world.client() as client:
        client.put(b"one more", tube="live")


def wait_for_change(tab: Tab, before: str) -> None:
    expect(tab.page.locator("main")).not_to_have_text(before, use_inner_text=True)


def test_page_changes_by_itself_unless_it_is_paused(tab: Tab, world: World) -> None:
    tab.open("/")
    page = tab.page
    expect(page.locator(LIVE)).to_have_text("live")
    before = page.locator("main").inner_text()
    put(world)
    wait_for_change(tab, before)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(LIVE)).to_contain_text("paused at ")
    before = page.locator("main").inner_text()
    put(world)
    with page.expect_request(is_stream):
        assert page.locator("main").inner_text() == before
        page.keyboard.press("p")
    wait_for_change(tab, before)
    expect(page.locator(LIVE)).to_have_text("live")


def test_hidden_page_closes_its_stream(tab: Tab) -> None:
    tab.open("/")
    page = tab.page
    expect(page.locator(LIVE)).to_have_text("live")
    hide = "is => {Object.defineProperty(document, 'hidden', {value: is, configurable: true});"
    with page.expect_event("requestfailed") as ended:
        page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange'))}", arg=True)
    assert ended.value.headers["accept"] == "text/event-stream"
    with page.expect_request(is_stream):
        page.evaluate(hide + "document.dispatchEvent(new Event('visibilitychange'))}", arg=False)


def test_open_page_says_that_the_console_is_gone_and_comes_back_with_it(chromium: Browser) -> None:
    with beanpole_server() as server, kept_port() as port, ExitStack() as first:
        flags = ("--url", f"here=beanstalk://{HOST}:{server.port}", "--http", f"{HOST}:{port}")
        served = first.enter_context(console(*flags))
        with tab_of(chromium, url_of(served)) as tab:
            tab.allowed.append("ERR_")
            tab.open("/")
            page, banner = tab.page, tab.page.locator("#banner")
            expect(page.locator(LIVE)).to_have_text("live")
            first.close()
            expect(banner).to_contain_text("has not answered since")
            expect(page.locator(LIVE)).to_have_text("lost")
            before = page.locator("main").inner_text()
            with Client((HOST, server.port), None) as client:
                client.put(b"since then")
            with console(*flags):
                expect(banner).to_be_hidden()
                expect(page.locator(LIVE)).to_have_text("live")
                wait_for_change(tab, before)


def test_page_of_a_server_that_is_away_says_so(chromium: Browser) -> None:
    with ExitStack() as first:
        server = first.enter_context(beanpole_server())
        with (
            console("--url", f"here=beanstalk://{HOST}:{server.port}") as served,
            tab_of(chromium, url_of(served)) as tab,
        ):
            tab.open("/")
            expect(tab.page.locator(LIVE)).to_have_text("live")
            first.close()
            expect(tab.page.get_by_role("main")).to_contain_text("away")


def test_switches_are_kept(tab: Tab) -> None:
    tab.open("/")
    page = tab.page
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="UTC").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    expect(page.get_by_role("button", name="Local time")).to_be_visible()
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="UTC")).to_be_visible()


def test_keys_are_listed_and_go_where_they_say(tab: Tab) -> None:
    tab.open("/")
    page = tab.page
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Pause")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    for key, path in page.locator("nav a[data-key]").evaluate_all(
        "links => links.map(each => [each.dataset.key, each.pathname])"
    ):
        with page.expect_navigation(url=f"**{path}"):
            page.keyboard.press("g")
            page.keyboard.press(key)


def test_list_is_worked_on_with_keys_alone(tab: Tab, world: World) -> None:
    tab.open("/jobs?tube=emails")
    page, first, second = tab.page, *world.ids["emails"][:2]
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(f"tr#job-{second}")).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator(f"#choose-{second}")).to_be_checked()
    expect(page.locator("[data-chosen]")).to_have_text("(1)")
    page.keyboard.press("k")
    page.keyboard.press("/")
    page.keyboard.type("jk?")
    expect(page.get_by_label("In the body or the key")).to_have_value("jk?")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    with page.expect_navigation(url=f"**/jobs/{first}*"):
        page.keyboard.press("Enter")


def test_all_jobs_of_a_page_are_chosen_and_some_left_out(tab: Tab, world: World) -> None:
    tab.open("/jobs?tube=emails")
    page, ids, every = tab.page, world.ids["emails"], tab.page.locator("[data-choose-all]")
    every.check()
    expect(page.locator("[data-chosen]")).to_have_text("(100)")
    page.locator(f"#choose-{ids[2]}").click()
    page.locator(f"#choose-{ids[4]}").click(modifiers=["Shift"])
    expect(page.locator("[data-chosen]")).to_have_text("(97)")
    assert every.evaluate("box => box.indeterminate")
    every.click()
    expect(page.locator("[data-chosen]")).to_have_text("(100)")
    every.uncheck()
    expect(page.locator("tbody input:checked")).to_have_count(0)


def test_filter_leaves_out_what_is_empty(tab: Tab) -> None:
    tab.open("/jobs?tube=emails")
    tab.page.get_by_label("In the body or the key").fill("user7@")
    with tab.page.expect_navigation() as navigation:
        tab.page.keyboard.press("Enter")
    assert parse_qs(urlsplit(navigation.value.url).query) == {
        "tube": ["emails"],
        "state": ["ready"],
        "text": ["user7@"],
        "order": ["id"],
    }


def test_focus_choices_and_open_parts_stay_while_a_page_changes(tab: Tab, world: World) -> None:
    tab.open("/tubes")
    page = tab.page
    link = page.locator("tbody[data-live] a", has_text="payments").first
    link.focus()
    before = page.locator("main").inner_text()
    with world.client() as client:
        client.put(b"first by name", tube="a-tube-before-all")
    wait_for_change(tab, before)
    expect(page.locator("tbody[data-live]")).to_contain_text("a-tube-before-all")
    expect(link).to_be_focused()
