"""What HTTP requests ask for: no sockets, and no parsing of HTTP. All of it runs in the loop of the service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.http.asked import Asked
from beanpole_ids.http.guard import Guard
from beanpole_ids.http.health import Health
from beanpole_ids.http.listing import Listing
from beanpole_ids.http.numbers import PARAMETERS, Numbers, read_query, serve_counter, to_count
from beanpole_ids.http.openapi import docs_page, document
from beanpole_ids.http.response import JSON, TEXT, Answer, ProblemError, Response, problem, to_json
from beanpole_ids.request import BadRequestError
from beanpole_ids.service import Service

HTTP_PAGES_WAITING_MAX = 128  # requests for metrics and lists that wait: they are answered one at a time

Serve = Callable[[Asked, Answer], None]
Route = tuple[str, tuple[str, ...], Serve]
"""What is served at a path: its pattern, as the API has it, its methods, and who serves it."""

Make = Callable[[str], Serve]
"""Returns who serves a query."""

Reload = Callable[[], Awaitable[Mapping[str, object]]]

LOOKING = ("GET", "HEAD")

ALWAYS = frozenset({"/health", "/metrics"})
"""Paths that are served even if there are too many connections."""

PAGE_FIELDS = (("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),)
"""The page loads nothing and runs nothing."""


def plain(text: str) -> str:
    """Return a part of a path without its percents.

    Raises BadRequestError: it has a NUL; ValueError: it is no UTF-8.
    """
    found = unquote(text, errors="strict")
    if "\0" in found:
        raise BadRequestError("a name contains a NUL")
    return found


def unasked(serve: Serve, query: str) -> Serve:
    """Return who serves a path without parameters. Raises BadRequestError: there are some."""
    read_query(query)
    return serve


@dataclass(slots=True)
class Routes:
    """The API."""

    service: Service
    health: Health
    metrics: Callable[[], Coroutine[Any, Any, bytes]]
    listing: Listing
    about: dict[str, object]
    """What a health check reports as well: version, node, epoch."""

    guard: Guard
    reload: Reload
    """Reads the rules again; returns what has changed, or raises RuleError if it is refused."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """Responses by path, as the API has it, and status."""

    _fixed: dict[str, Response] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting_count: int = 0
    """Requests that have or wait for the lock."""

    def __post_init__(self) -> None:
        described = document(str(self.about["version"]))
        self._fixed |= {
            "/openapi.json": to_json(200, described),
            "/docs": Response(200, docs_page(described), "text/html; charset=utf-8", PAGE_FIELDS),
            "/": Response(303, b"", JSON, (("Location", "/docs"),)),
        }

    def handle(self, asked: Asked, answer: Answer) -> None:
        """Answer a request. HEAD is answered as GET; the connection leaves the body out."""
        pattern = "unknown"

        def count_and_answer(response: Response) -> None:
            tally = (pattern, str(response.status))
            self.counts[tally] = self.counts.get(tally, 0) + 1
            answer(response)

        try:
            self.guard.check(asked)
            pattern, methods, serve = self._find(asked.target)
            if asked.method not in methods:
                allowed = ("Allow", ", ".join(methods))
                count_and_answer(problem("wrong-method", f"this path takes {' and '.join(methods)}", allowed))
            elif asked.body and asked.method != "POST":
                count_and_answer(problem("bad-request", "only a POST has a body"))
            else:
                serve(asked, count_and_answer)
        except ProblemError as error:
            count_and_answer(error.response)
        except (BadRequestError, ValueError) as error:
            count_and_answer(problem("bad-request", str(error)))
        except Exception as error:  # noqa: BLE001 - the service reports it
            self.service.record_failure(error)
            count_and_answer(problem("failed", "an error of ours; the log has it"))

    def _find(self, target: str) -> Route:
        """Return the route of a target.

        Raises ProblemError: nothing is served there.
        """
        path, _, query = target.partition("?")
        pattern, methods, make = self._route(path)
        try:
            return pattern, methods, make(query)
        except (BadRequestError, ValueError) as error:
            refusal = problem("bad-request", str(error))
            return pattern, methods, lambda _, answer: answer(refusal)

    def _route(self, path: str) -> tuple[str, tuple[str, ...], Make]:
        """Return what is served at a path. Raises ProblemError: nothing is."""
        match path.split("/"):
            case ["", "v1", "ids", rule, app]:
                return "/v1/ids/{rule}/{app}", ("GET", "POST"), partial(self._numbers, rule, app)
            case ["", "v1", "counters", rule, app]:
                return "/v1/counters/{rule}/{app}", LOOKING, partial(self._counter, rule, app)
            case ["", "v1", "counters", rule]:
                return "/v1/counters/{rule}", LOOKING, partial(self._counters, rule)
            case ["", "v1", "rules", rule]:
                return "/v1/rules/{rule}", LOOKING, partial(self._rule, rule)
        others: dict[str, tuple[tuple[str, ...], Make]] = {
            "/v1/rules": (LOOKING, partial(unasked, self._list_rules)),
            "/v1/reload": (("POST",), partial(unasked, self._reload)),
            "/health": (LOOKING, partial(unasked, self._serve_health)),
            "/metrics": (LOOKING, lambda _: self._serve_metrics),  # scrapers may add parameters of their own
        }
        if path in self._fixed:
            return path, LOOKING, lambda _: lambda _, answer: answer(self._fixed[path])
        if path not in others:
            raise ProblemError("unknown-path", "there is no such path; see /docs")
        return path, *others[path]

    # --- What is served with a query; each raises BadRequestError or ValueError if something makes no sense -----------

    def _numbers(self, rule: str, app: str, query: str) -> Serve:
        return Numbers(self.service, plain(rule), plain(app), read_query(query, *PARAMETERS)).serve

    def _counter(self, rule: str, app: str, query: str) -> Serve:
        return unasked(partial(self._serve_counter, plain(rule), plain(app)), query)

    def _counters(self, rule: str, query: str) -> Serve:
        wanted = read_query(query, "after", "limit", errors="surrogateescape")  # as names of applications are
        limit = to_count(wanted.get("limit", str(limits.HTTP_PAGE_DEFAULT)), limits.HTTP_PAGE_MAX, "limit")
        return partial(self._list_counters, plain(rule), wanted.get("after", ""), limit)

    def _rule(self, rule: str, query: str) -> Serve:
        return unasked(partial(self._show_rule, plain(rule)), query)

    # --- Numbers and rules --------------------------------------------------------------------------------------------

    def _serve_counter(self, rule: str, app: str, asked: Asked, answer: Answer) -> None:
        serve_counter(self.service, rule, app, answer, asked.source)

    def _list_rules(self, _: Asked, answer: Answer) -> None:
        async def send() -> None:
            async with self._turn():
                answer(to_json(200, {"rules": await self.listing.rules()}))

        self._later(send(), answer)

    def _show_rule(self, name: str, _: Asked, answer: Answer) -> None:
        async def send() -> None:
            async with self._turn():
                found = await self.listing.rule(name)
            answer(to_json(200, found) if found else problem("unknown-rule", f"there is no rule {name!r}"))

        self._later(send(), answer)

    def _list_counters(self, name: str, after: str, limit: int, _: Asked, answer: Answer) -> None:
        if name not in self.service.config.rules:
            raise ProblemError("unknown-rule", f"there is no rule {name!r}")

        async def send() -> None:
            async with self._turn():
                answer(to_json(200, await self.listing.counters(name, after, limit)))

        self._later(send(), answer)

    def _reload(self, asked: Asked, answer: Answer) -> None:
        self.guard.check_reload(asked)
        if asked.body:
            raise BadRequestError("a reload takes no body")

        async def send() -> None:
            try:
                answer(to_json(200, await self.reload()))
            except RuleError as error:
                answer(problem("refused", str(error)))

        self._later(send(), answer)

    # --- Watching -----------------------------------------------------------------------------------------------------

    def _serve_health(self, _: Asked, answer: Answer) -> None:
        async def send() -> None:
            reasons = await self.health.reasons()
            status = "failing" if reasons else "ok"
            found = {"status": status, "reasons": reasons, "warnings": self.health.warnings()} | self.about
            answer(to_json(503 if reasons else 200, found))

        self._later(send(), answer)

    def _serve_metrics(self, _: Asked, answer: Answer) -> None:
        async def send() -> None:
            async with self._turn():
                answer(Response(200, await self.metrics(), TEXT))

        self._later(send(), answer)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until an answer may be made that takes milliseconds, such as metrics and lists: one is at a time.

        Raises ProblemError: too many wait.
        """
        if self._waiting_count >= HTTP_PAGES_WAITING_MAX:
            raise ProblemError("busy", "too many requests for metrics and lists wait")
        self._waiting_count += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting_count -= 1

    def _later(self, work: Coroutine[Any, Any, None], answer: Answer) -> None:
        async def run() -> None:
            try:
                await work
            except ProblemError as error:
                answer(error.response)
            except Exception:
                answer(problem("failed", "an error of ours; the log has it"))
                raise

        task = asyncio.create_task(run())
        self._tasks.add(task)  # the loop keeps no strong reference
        task.add_done_callback(self._tasks.discard)
