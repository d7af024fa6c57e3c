"""A page of a browser that complains: what would be an attack or a fault of ours fails the test.

A page may ask only its own console, opens no dialog, violates no policy, and writes no error to the browser's console.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, Response, StorageState

WAIT_MS = 60_000  # how long a test waits for what must come: never in vain, so it may be long

LOGGED_IN: dict[tuple[str, str], StorageState] = {}  # what a browser keeps of who has logged in, by console and token


@dataclass
class Tab:
    """A page, with what was wrong in it."""

    page: Page
    url: str  # where the console is
    complaints: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)  # patterns of complaints that the test expects

    def open(self, path: str, status: int = 200) -> Response:
        if status >= 400:
            self.allowed.append(f"status of {status} ")
        answer = self.page.goto(self.url + path)
        assert answer is not None, f"{path} is the page that is open"
        assert answer.status == status, f"{path}: {answer.status} instead of {status}"
        return answer

    def log_in(self, token: str, path: str = "/") -> None:
        """Gets the cookie by the page that asks for a token."""
        self.page.goto(f"{self.url}/login?to={quote(path)}")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(self.url + path)

    def check(self) -> None:
        """Fails if anything was wrong that was not allowed."""
        found = [each for each in self.complaints if not any(re.search(known, each) for known in self.allowed)]
        assert not found, "\n".join(found)

    def _watch(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)
        self.page.on("popup", lambda page: self.complaints.append(f"window: {page.url}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.complaints.append(f"{message.type}: {message.text} ({message.location['url']}, at {self.page.url})")

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self.url + "/", "data:", "blob:")):
            self.complaints.append(f"request: {request.url} from {self.page.url}")


@contextmanager
def tab_of(
    browser: Browser, url: str, token: str = "", *, width: int = 1280, dark: bool = False, has_javascript: bool = True
) -> Iterator[Tab]:
    """A page of somebody who has logged in if there is a token. At the end it must have nothing to complain of."""
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if dark else "light",
        java_script_enabled=has_javascript,
        locale="en-GB",
        timezone_id="Asia/Kolkata",
        accept_downloads=True,
        storage_state=LOGGED_IN.get((url, token)),
    )
    try:
        context.set_default_timeout(WAIT_MS)
        tab = Tab(context.new_page(), url)
        tab._watch()
        if token and (url, token) not in LOGGED_IN:
            tab.log_in(token)
            LOGGED_IN[url, token] = context.storage_state()
        yield tab
        tab.check()
    finally:
        context.close()
