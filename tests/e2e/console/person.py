"""Somebody who logs in to a console, as a browser does, and sends forms."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlencode

from tests.e2e.console.process import FORM, Answer, Console
from tests.servers import HOST


@dataclass
class Person:
    """A browser's worth of memory: a cookie, and the token of the forms that the last page had."""

    served: Console
    cookie: str = ""
    form_token: str = field(default="", repr=False)

    @property
    def origin(self) -> str:
        """What a browser says of the pages of this console."""
        return f"http://{HOST}:{self.served.port}"

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Asks as a browser; `Origin=""` and the like leave a header out."""
        return self.served.ask(method, path, body, **{"Accept": "text/html", "Cookie": self.cookie} | headers)

    def get(self, path: str, **headers: str) -> Answer:
        """Looks at a page, and keeps the token of its forms."""
        answer = self.ask("GET", path, b"", **headers)
        found = re.search(rb'name="form_token" value="([0-9a-f]+)"', answer.body)
        self.form_token = found[1].decode() if found else self.form_token
        return answer

    def post(self, path: str, fields: "dict[str, str | list[str]] | None" = None, **headers: str) -> Answer:
        """Sends a form of the last page."""
        sent = {"form_token": self.form_token} | (fields or {})
        headers = {"Origin": self.origin, "Content_Type": FORM} | headers
        return self.ask("POST", path, urlencode(sent, doseq=True).encode(), **headers)

    def log_in(self, token: str, **fields: str) -> Answer:
        """Logs in, and looks at the first page."""
        answer = self.post("/login", {"token": token, **fields})
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        if self.cookie:
            self.get("/")
        return answer


def person(served: Console, token: str) -> Person:
    made = Person(served)
    assert made.log_in(token).status == 303
    return made
