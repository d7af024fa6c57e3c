"""Takes the pictures of the console that stand in the documentation: `python -m tests.browser.pictures`.

A shop works for some minutes, so that there is something to see; then each screen is looked at. Whoever runs this looks
at each picture before it is committed: no test sees that something is ugly.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.png import smaller
from tests.browser.shop import Shop
from tests.browser.watched import tab_of
from tests.browser.world import client_of, url_of
from tests.e2e.console.process import TOKEN, console, token_file
from tests.e2e.process import healthy
from tests.servers import HOST, peer

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
BYTES_MAX = 100_000
SECONDS = 300


@dataclass(frozen=True)
class Picture:
    """What is looked at, and how."""

    name: str
    path: str
    dark: bool = False
    width: int = 1200
    height: int = 800
    does: Callable[[Page], None] | None = None  # what is done on the page first
    has_token: bool = True


def ask_to_delete(page: Page) -> None:
    """Selects jobs, and asks for a dry run of their deletion."""
    for box in page.locator("tbody input[type=checkbox]").all()[:5]:
        box.check()
    page.get_by_role("button", name="Delete").first.click()
    page.wait_for_load_state()


def act(page: Page) -> None:
    """Does some of what people do, and looks at the list of that."""
    for path, button in (
        ("/failures?text=410+Gone", "Redrive"),
        ("/jobs?tube=webhooks&state=buried", "Kick"),
        ("/jobs?tube=newsletter", "Bury"),
    ):
        page.goto(urljoin(page.url, path))
        for box in page.locator("tbody input[type=checkbox]").all()[:3]:
            box.check()
        page.locator("main").get_by_role("button", name=button, exact=True).first.click()
        page.locator("main form[action='/actions'] button").click()
        page.wait_for_url("**/actions/*")
    page.goto(urljoin(page.url, "/actions"))


def show_keys(page: Page) -> None:
    page.keyboard.press("?")


def unfold(page: Page) -> None:
    """Shows the sessions of a program."""
    page.locator(".fold summary").first.click()


PICTURES = (
    Picture("overview", "/"),
    Picture("overview-dark", "/", dark=True),
    Picture("tubes", "/tubes"),
    Picture("tube", "/tubes/webhooks"),
    Picture("jobs", "/jobs?tube=newsletter", height=640),
    Picture("search", "/jobs?tube=newsletter&text=customer1", height=640),
    Picture("job", "/jobs/{dead}"),
    Picture("failures", "/failures", height=720),
    Picture("busy", "/busy"),
    Picture("sessions", "/sessions?server=shop&text=web", height=720, does=unfold),
    Picture("rules", "/rules"),
    Picture("schedules", "/schedules?server=shop", height=640),
    Picture("schedule", "/schedules/daily-sales?server=shop"),
    Picture("servers", "/servers"),
    Picture("dry-run", "/jobs?tube=webhooks-dead", does=ask_to_delete),
    Picture("put", "/put"),
    Picture("actions", "/actions", does=act),
    Picture("api", "/examples"),
    Picture("keys", "/tubes", does=show_keys, dark=True),
    Picture("telephone", "/tubes/webhooks", width=390),
    Picture("login", "/", has_token=False),
)


def take(browser: Browser, url: str, picture: Picture, ids: dict[str, int]) -> None:
    with tab_of(browser, url, TOKEN if picture.has_token else "", width=picture.width, dark=picture.dark) as tab:
        tab.page.set_viewport_size({"width": picture.width, "height": picture.height})
        tab.page.goto(url + picture.path.format(**ids))
        if picture.does is not None:
            picture.does(tab.page)
        tab.page.wait_for_timeout(1_500)  # a live page has had its first state then
        file = FOLDER / f"console-{picture.name}.png"
        size = file.write_bytes(smaller(tab.page.screenshot(animations="disabled", caret="initial")))
        sys.stdout.write(f"{file.name}: {size} bytes{' - TOO LARGE' if size > BYTES_MAX else ''}\n")


def main() -> None:
    """Take all pictures, or some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these pictures")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the shop works before")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        data = stack.enter_context(TemporaryDirectory())
        process, second = stack.enter_context(healthy("-b", data)), stack.enter_context(healthy())
        flags = stack.enter_context(token_file())
        for name, each in (("shop", process), ("backup", second)):
            flags += ["--url", f"{name}=beanstalk://{HOST}:{each.port}"]
        url = url_of(stack.enter_context(console(*flags)))
        shop = Shop(process)
        stack.callback(shop.close)
        shop.open()
        time.sleep(given.seconds)
        with client_of(process) as client, sync_playwright() as playwright:
            ids = {"dead": client.list_jobs("webhooks-dead", "ready", 1).jobs[0].id}
            browser = playwright.chromium.launch(executable_path=peer("chromium"))
            for picture in PICTURES:
                if not given.names or picture.name in given.names:
                    take(browser, url, picture, ids)
            browser.close()


if __name__ == "__main__":
    main()
