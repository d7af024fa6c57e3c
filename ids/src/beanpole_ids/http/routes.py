"""What HTTP requests ask for: no sockets, and no parsing of HTTP. All of it runs in the loop of the service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import unquote

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.http import numbers
from beanpole_ids.http.asked import Asked
from beanpole_ids.http.guard import Guard
from beanpole_ids.http.metrics import Metrics
from beanpole_ids.http.numbers import Answered, read_query, to_count
from beanpole_ids.http.openapi import docs_page, document
from beanpole_ids.http.response import JSON, TEXT, ProblemError, Response, problem, to_json
from beanpole_ids.http.watching import Health, Listing
from beanpole_ids.request import BadRequestError

PAGES_WAITING_MAX = 128  # requests for metrics and lists, which are answered one at a time
LOOKING = ("GET", "HEAD")

ALWAYS = frozenset({"/health", "/metrics"})
"""Paths that are served even if there are too many connections."""

PAGE_FIELDS = (("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),)
"""The page loads nothing and runs nothing."""


class Routes:
    """The API."""

    def __init__(self, metrics: Metrics, guard: Guard, reload: Callable[[], Awaitable[Mapping[str, object]]]) -> None:
        """`reload`: reads the rules again; returns what has changed, or raises RuleError if it is refused."""
        self.service = metrics.service
        self.metrics = metrics
        self.health = Health(self.service, metrics.store)
        self.listing = Listing(self.service, metrics.totals)
        self.guard = guard
        self.reload = reload
        self.counts: dict[tuple[str, str], int] = {}
        """Responses by path, as the API has it, and status."""

        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()
        self._waiting_count = 0
        """Requests that have or wait for the lock."""

        described = document(metrics.version)
        page = Response(200, docs_page(described), "text/html; charset=utf-8", PAGE_FIELDS)
        description, home = to_json(200, described), Response(303, b"", JSON, (("Location", "/docs"),))
        self._paths: dict[str, tuple[tuple[str, ...], Callable[..., Answered]]] = {
            "/v1/ids/{rule}/{app}": (("GET", "POST"), self._give),
            "/v1/counters/{rule}/{app}": (LOOKING, self._show_counter),
            "/v1/counters/{rule}": (LOOKING, self._list_counters),
            "/v1/rules/{rule}": (LOOKING, self._show_rule),
            "/v1/rules": (LOOKING, self._list_rules),
            "/v1/reload": (("POST",), self._reload),
            "/health": (LOOKING, self._check_health),
            "/metrics": (LOOKING, self._measure),  # scrapers may add parameters of their own
            "/openapi.json": (LOOKING, lambda _: description),
            "/docs": (LOOKING, lambda _: page),
            "/": (LOOKING, lambda _: home),
        }
        """The methods of each path, and what answers with the request and the names in it."""

    def handle(self, asked: Asked, answer: Callable[[Response], None]) -> None:
        """Answer a request, now or later. HEAD is answered as GET; the connection leaves the body out."""
        pattern = "unknown"
        found: Answered
        try:
            self.guard.check(asked)
            pattern, names = self._find(asked.path)
            found = self._serve(asked, pattern, names)
        except Exception as error:  # noqa: BLE001 - it is answered
            found = self._problem(error)

        def count_and_answer(response: Response) -> None:
            tally = (pattern, str(response.status))
            self.counts[tally] = self.counts.get(tally, 0) + 1
            answer(response)

        if isinstance(found, Response):
            count_and_answer(found)
        else:
            task = asyncio.create_task(self._answer_later(found, count_and_answer))
            self._tasks.add(task)  # the loop keeps no strong reference
            task.add_done_callback(self._tasks.discard)

    def _find(self, path: str) -> tuple[str, list[str]]:
        """Return a path as the API has it, and the names in it. Raises ProblemError: nothing is served there."""
        pattern, names = path, list[str]()
        match path.split("/"):
            case ["", "v1", what, rule]:
                pattern, names = f"/v1/{what}/{{rule}}", [rule]
            case ["", "v1", what, rule, app]:
                pattern, names = f"/v1/{what}/{{rule}}/{{app}}", [rule, app]
        if pattern not in self._paths:
            raise ProblemError("unknown-path", "there is no such path; see /docs")
        return pattern, names

    def _serve(self, asked: Asked, pattern: str, names: list[str]) -> Answered:
        methods, serve = self._paths[pattern]
        if asked.method not in methods:
            allowed = ("Allow", ", ".join(methods))
            raise ProblemError("wrong-method", f"this path takes {' and '.join(methods)}", allowed)
        if asked.body and asked.method != "POST":
            raise ProblemError("bad-request", "only a POST has a body")
        return serve(asked, *map(plain, names))

    async def _answer_later(self, found: Awaitable[Response], answer: Callable[[Response], None]) -> None:
        try:
            response = await found
        except Exception as error:  # noqa: BLE001 - it is answered
            response = self._problem(error)
        answer(response)

    def _problem(self, error: Exception) -> Response:
        """Return what says why a request has failed; the service reports it if that is an error of ours."""
        if isinstance(error, ProblemError):
            return error.response
        if isinstance(error, (BadRequestError, UnicodeError)):
            return problem("bad-request", str(error))
        self.service.record_failure(error)
        return problem("failed", "an error of ours; the log has it")

    # --- What answers; each may raise ProblemError or BadRequestError -------------------------------------------------

    def _give(self, asked: Asked, rule: str, app: str) -> Answered:
        return numbers.give(self.service, asked, rule, app)

    def _show_counter(self, asked: Asked, rule: str, app: str) -> Answered:
        return numbers.show_counter(self.service, asked, rule, app)

    async def _list_counters(self, asked: Asked, rule: str) -> Response:
        wanted = read_query(asked.query, "after", "limit", errors="surrogateescape")  # as names of applications are
        limit = to_count(wanted.get("limit", str(limits.HTTP_PAGE_DEFAULT)), limits.HTTP_PAGE_MAX, "limit")
        if rule not in self.service.config.rules:
            raise ProblemError("unknown-rule", f"there is no rule {rule!r}")
        async with self._turn():
            return to_json(200, await self.listing.counters(rule, wanted.get("after", ""), limit))

    async def _list_rules(self, asked: Asked) -> Response:
        read_query(asked.query)
        async with self._turn():
            return to_json(200, {"rules": await self.listing.rules()})

    async def _show_rule(self, asked: Asked, name: str) -> Response:
        read_query(asked.query)
        async with self._turn():
            rule = await self.listing.rule(name)
        return to_json(200, rule) if rule else problem("unknown-rule", f"there is no rule {name!r}")

    async def _reload(self, asked: Asked) -> Response:
        read_query(asked.query)
        self.guard.check_reload(asked)
        if asked.body:
            raise BadRequestError("a reload takes no body")
        try:
            return to_json(200, await self.reload())
        except RuleError as error:
            return problem("refused", str(error))

    async def _check_health(self, asked: Asked) -> Response:
        read_query(asked.query)
        reasons = await self.health.reasons()
        said = {"status": "failing" if reasons else "ok", "reasons": reasons, "warnings": self.health.warnings()}
        about = {"version": self.metrics.version, "node": self.service.config.offset, "epoch": self.metrics.epoch}
        return to_json(503 if reasons else 200, said | about)

    async def _measure(self, _: Asked) -> Response:
        async with self._turn():
            return Response(200, await self.metrics.page(), TEXT)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until an answer may be made that takes milliseconds, such as metrics and lists: one is at a time.

        Raises ProblemError: too many wait.
        """
        if self._waiting_count >= PAGES_WAITING_MAX:
            raise ProblemError("busy", "too many requests for metrics and lists wait")
        self._waiting_count += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting_count -= 1


def plain(text: str) -> str:
    """Return a part of a path without its percents.

    Raises BadRequestError: it has a NUL; ValueError: it is no UTF-8.
    """
    found = unquote(text, errors="strict")
    if "\0" in found:
        raise BadRequestError("a name contains a NUL")
    return found
