"""Views that tests make up."""

from types import SimpleNamespace
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from starlette.requests import Request

from beanpole.client import Address
from beanpole.console.history import History
from beanpole.console.sampler import Away
from beanpole.console.screens.screen import View
from beanpole.console.screens.table import SCREENS
from beanpole.console.security.access import Visitor
from beanpole.console.servers import Purpose, Server
from beanpole.console.settings import Source
from beanpole.console.single_flight import AwayError
from beanpole.observe.growth import Change
from beanpole.observe.sampling import Sample

T = TypeVar("T")

HOSTILE = "<script>alert('\"&x\x00\u202e\ud800</script>"
"""What a client may have called itself: markup, controls, text that turns round, half a character."""
ANYBODY = Visitor()


def changed(before: Sample | None, after: Sample | None) -> Change:
    change = Change()
    for each in (before, after):
        if each is not None:
            change = Change(change, each)
            change.add(each.tubes.values())
    return change


class MadeServer:
    """A server of which only a sample is known: it answers no questions."""

    def __init__(self, name: str, taken: Sample | None, before: Sample | None = None, away: str = "") -> None:
        self.name = name
        self.source = Source(name, Address("127.0.0.1", 11300))
        self.history = History(lambda: 1000.0)
        self.hide_bodies = False
        self.own_connections = 0
        change = changed(before, taken)
        self.sampler = SimpleNamespace(
            look=self._look, change=change, sample=SimpleNamespace(value=taken), away=Away(7, away) if away else Away()
        )
        self._taken, self._away = taken, away

    async def _look(self) -> Sample:
        if self._away or self._taken is None:
            raise AwayError(self._away)
        return self._taken

    def kept(self, kind: type[T]) -> T:
        return kind()

    async def shared(self, _: object) -> Any:  # noqa: ANN401 - there is none
        raise AwayError("nobody answers")

    async def client(self, _: Purpose = Purpose.PAGES) -> Any:  # noqa: ANN401 - there is none
        raise AwayError("nobody answers")


def look(path: str, *servers: MadeServer, **query: str) -> View:
    """A look at an address, of a console with these servers."""
    shown = view(path, servers=tuple(each.name for each in servers), visitor=ANYBODY, **query)
    shown.console.servers.update({each.name: cast("Server", each) for each in servers})
    return shown


def view(path: str = "/", *, servers: tuple[str, ...] = ("one",), visitor: Visitor = ANYBODY, **query: str) -> View:
    """A look at an address, of a console with some servers that nothing is known of."""
    known: dict[str, Any] = dict.fromkeys(servers)

    def asked(request: Request) -> list[Any]:
        name = request.query_params.get("server")
        return list(known.values()) if name is None else [known[name]]

    console: Any = SimpleNamespace(servers=known, asked=asked)
    app = SimpleNamespace(state=SimpleNamespace(console=console, screens=SCREENS))
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "server": ("localhost", 80),
        "root_path": "",
        "path": path,
        "query_string": urlencode(query).encode(),
        "headers": [],
        "app": app,
    }
    return View(Request(scope), cast("Any", console), visitor)
