"""Actions as people do them: chosen in a list, looked at in a dry run, followed, stopped and undone."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from beanpole.errors import NotFoundError
from tests.browser.screens import PATHS, RUN, address_of
from tests.browser.watched import WAIT_MS, Tab, tab_of
from tests.browser.world import DEAD, READY, World, living
from tests.e2e.process import wait_until

if TYPE_CHECKING:
    from beanpole import Client


@pytest.fixture
def client(world: World) -> Iterator["Client[bytes]"]:
    with world.client("ann") as found:
        yield found


def press(page: Page, name: str) -> None:
    """Presses a button of the page, not of its frame."""
    page.locator("main").get_by_role("button", name=name, exact=True).first.click()


def fill(page: Page, **values: str) -> None:
    """Fills in what an action asks for, and goes on to its dry run."""
    for name, value in values.items():
        page.locator(f"main [name={name}]").fill(value)
    press(page, "Dry run")


def choose_all(page: Page, verb: str) -> None:
    """Asks for what is done to all jobs that fit, not only to those of the page."""
    page.locator("input[name=scope][value=all]").check()
    page.locator("#bulk").get_by_role("button", name=verb).click()


def confirm(page: Page, jobs: int | None = None) -> None:
    """Does what the dry run says, which is about so many jobs, and waits until it is done."""
    if jobs is not None:
        expect(page.locator("main")).to_contain_text(f"{jobs} job")
    page.locator("main form[action='/actions'] button").click()
    expect(page.locator("[data-live=progress] .badge").first).to_have_text("done", timeout=WAIT_MS)


def state_of(client: "Client[bytes]", id: int) -> str:
    try:
        return client.stats_job(id).state
    except NotFoundError:
        return ""


def put_into(world: World, tube: str, count: int) -> list[int]:
    """Jobs of a tube that only one test has."""
    with world.client() as client:
        return client.put_many([b"job %d" % number for number in range(count)], tube=tube)


def left_in(world: World, tube: str, state: str = "ready") -> list[int]:
    """What a tube has now."""
    with world.client() as client:
        return [job.id for job in client.list_jobs(tube, state).jobs]


def test_chosen_jobs_are_deleted_and_others_stay(tab: Tab, world: World) -> None:
    ids = put_into(world, "chosen", 4)
    tab.open("/jobs?tube=chosen")
    for id in ids[1:3]:
        tab.page.get_by_label(f"Choose job {id}", exact=True).check()
    tab.page.locator("#bulk").get_by_role("button", name="Delete").click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(f"Delete: jobs {ids[1]}, {ids[2]}?")
    assert left_in(world, "chosen") == ids
    confirm(tab.page, 2)
    assert left_in(world, "chosen") == [ids[0], ids[3]]


def test_all_that_fit_are_moved_but_not_those_put_since(tab: Tab, world: World) -> None:
    put_into(world, "fit", 3)
    tab.open("/jobs?tube=fit")
    choose_all(tab.page, "Move")
    tab.allowed.append("status of 409 ")
    fill(tab.page, to="fit there")
    expect(tab.page.get_by_role("alert")).to_contain_text("To: ")
    fill(tab.page, to="fitted")
    expect(tab.page.get_by_role("button", name="Move 3 jobs")).to_be_visible()  # it has counted
    later = put_into(world, "fit", 1)
    confirm(tab.page)
    assert left_in(world, "fit") == later
    assert len(left_in(world, "fitted")) == 3


def test_above_a_thousand_jobs_the_number_is_typed(tab: Tab, world: World) -> None:
    put_into(world, "many", 1_001)
    tab.open("/jobs?tube=many")
    choose_all(tab.page, "Delete")
    tab.allowed.append("status of 409 ")
    for typed in ("1000", "1\u202f001"):
        tab.page.get_by_label("To confirm, type the number of jobs: 1001").fill(typed)
        tab.page.get_by_role("button", name=re.compile("Delete 1.001 jobs")).click()
        if typed == "1000":
            expect(tab.page.get_by_role("alert")).to_contain_text("type this number")
            assert len(left_in(world, "many")) == 1_000  # of which a page has so many
    wait_until(lambda: not left_in(world, "many"), "they are gone")


def test_a_bury_is_undone(tab: Tab, world: World) -> None:
    (id,) = put_into(world, "undone", 1)
    tab.open(f"/jobs/{id}")
    press(tab.page, "Bury")
    confirm(tab.page, 1)
    press(tab.page, "Undo")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(f"Kick: job {id}")
    wait_until(lambda: left_in(world, "undone") == [id], "it is ready again")


def test_a_job_is_put_by_the_keyboard_alone(tab: Tab, world: World) -> None:
    tab.open("/put?tube=typed")
    tab.page.get_by_label("Body", exact=True).focus()
    tab.page.keyboard.type('{"n": 1}')
    tab.page.get_by_role("button", name="Dry run").focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("button", name="Put", exact=True).focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator(".badge").filter(has_text="done")).to_be_visible(timeout=WAIT_MS)
    with world.client() as client:
        (job,) = client.list_jobs("typed", "ready", bodies=100).jobs
    assert job.body == b'{"n": 1}'


def test_without_javascript_the_scope_and_the_form_work(chromium: Browser, world: World) -> None:
    put_into(world, "plain", 2)
    with tab_of(chromium, world.url, world.token, has_javascript=False) as tab:
        tab.open("/jobs?tube=plain")
        expect(tab.page.get_by_label("Choose all jobs of this page")).to_be_hidden()
        choose_all(tab.page, "Delete")
        press(tab.page, "Delete 2 jobs")
        tab.page.wait_for_url("**/actions/*")
    wait_until(lambda: not left_in(world, "plain"), "they are gone")


def test_nothing_chosen_is_said(tab: Tab) -> None:
    tab.open(f"/jobs?tube={READY}")
    tab.allowed.append("status of 409 ")
    tab.page.locator("#bulk").get_by_role("button", name="Delete").click()
    expect(tab.page.get_by_role("alert")).to_contain_text("No job was chosen")


def test_a_job_is_changed_put_off_and_kicked(tab: Tab, client: "Client[bytes]") -> None:
    id = client.put(b"one", tube="changed")
    tab.open(f"/jobs/{id}")
    press(tab.page, "Change")
    fill(tab.page, priority="3", ttr="99")
    confirm(tab.page)
    changed = client.stats_job(id)
    assert (changed.pri, changed.ttr) == (3, 99)
    tab.open(f"/jobs/{id}")
    press(tab.page, "Snooze")
    fill(tab.page, delay="500")
    confirm(tab.page)
    assert state_of(client, id) == "delayed"
    tab.open("/tubes/changed")
    press(tab.page, "Kick delayed")
    confirm(tab.page, 1)
    assert state_of(client, id) == "ready"


def test_a_tube_is_paused_resumed_and_cleared(tab: Tab, client: "Client[bytes]") -> None:
    ids = [client.put(b"x", tube="closed"), client.put(b"x", tube="closed", delay=99)]
    tab.open("/tubes/closed")
    tab.page.locator("main [name=seconds]").fill("500")
    press(tab.page, "Pause")
    confirm(tab.page)
    assert client.stats_tube("closed").pause == 500
    tab.open("/actions")
    expect(tab.page.locator("main tbody tr", has_text="closed")).to_contain_text("ann")
    tab.open("/tubes/closed")
    press(tab.page, "Resume")
    confirm(tab.page)
    assert client.stats_tube("closed").pause == 0
    tab.open("/tubes/closed")
    tab.page.locator("main summary", has_text="Clear").click()
    press(tab.page, "Delete all ready")
    confirm(tab.page, 1)
    assert [state_of(client, id) for id in ids] == ["", "delayed"]


def test_a_group_of_failures_is_brought_back_by_keyboard_alone(tab: Tab, client: "Client[bytes]") -> None:
    dead = [each.id for each in client.list_jobs(DEAD, "ready").jobs]
    tab.open("/failures?text=TimeoutError")
    assert_reached(tab.page, tab.page.locator("tbody").get_by_role("button", name="Redrive"))
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/actions/dry-run")
    assert_reached(tab.page, tab.page.locator("main form[action='/actions'] button"))
    tab.page.keyboard.press("Space")
    expect(tab.page.locator("[data-live=progress] .badge").first).to_have_text("done")
    left = [each.id for each in client.list_jobs(DEAD, "ready").jobs]
    assert sorted(dead) != sorted(left)
    assert all(client.stats_job(id).tube == "payments" for id in set(dead) - set(left))
    tab.open("/failures?tube=payments&text=TimeoutError")
    expect(tab.page.get_by_text("No job that failed fits this filter")).to_be_visible()


def assert_reached(page: Page, wanted: Locator) -> None:
    """Goes to something with the Tab key, from the top of the page; what has the focus shows that."""
    for _ in range(200):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        style = focused.evaluate("each => getComputedStyle(each).outlineStyle + getComputedStyle(each).boxShadow")
        assert style != "nonenone", focused.evaluate("each => each.outerHTML")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError("the Tab key does not lead there")


def test_without_tokens_no_button_can_be_pressed(chromium: Browser) -> None:
    count = 0
    with living(token="") as world, tab_of(chromium, world.url) as tab:
        pages = [address_of(path, world) for path in PATHS if path != RUN]
        for path in (*pages, "/jobs?tube=payments&state=buried", "/failures?tube=payments"):
            tab.open(path)
            for button in tab.page.locator("main form[method=post] button").all():
                assert button.is_disabled(), f"{path}: {button.inner_text()}"
                count += 1
    assert count > 20
