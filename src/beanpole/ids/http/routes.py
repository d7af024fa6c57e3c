"""What HTTP requests ask for, and how answers look: no sockets, and no parsing of HTTP.

A request for numbers becomes a request of the wire (`wire`) and its reply a response, so that both ways have the same
rules, limits and codes. Errors are problem details (RFC 9457); their `type` leads to the page that explains them.
"""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any
from urllib.parse import parse_qsl, unquote

from beanpole.ids.http.health import Health
from beanpole.ids.http.openapi import PROBLEMS, docs_page, document
from beanpole.ids.original import wire
from beanpole.ids.request import BadRequestError
from beanpole.ids.service import Service
from beanpole.limits import IDS_COUNT_MAX, IDS_REQUEST_BYTES_MAX

JSON = "application/json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""The text format of Prometheus."""

OUTCOMES = {0: "success", -1: "invalid", -2: "exhausted", -3: "storage", -4: "clock", -5: "limited", -6: "cookie"}
"""The name of each code of the wire in metrics, and from -2 on that of its problem."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whole."""

    status: int
    body: bytes
    kind: str = JSON
    fields: tuple[tuple[str, str], ...] = ()


Answer = Callable[[Response], None]
"""Takes the response, now or later."""

Query = dict[str, str]


def to_json(status: int, found: object, kind: str = JSON, *fields: tuple[str, str]) -> Response:
    """Return a response in JSON. It is ASCII, so that a rule's bytes that are no UTF-8 make no bad JSON."""
    return Response(status, json.dumps(found).encode(), kind, fields)


def problem(name: str, detail: str, *fields: tuple[str, str], **more: object) -> Response:
    """Return the response to what went wrong; `name` is one of `PROBLEMS`."""
    status, title, _ = PROBLEMS[name]
    if status == 503:
        fields = (*fields, ("Retry-After", "1"))
    found = {"type": f"/docs#{name}", "title": title, "status": status, "detail": detail} | more
    return to_json(status, found, "application/problem+json", *fields)


def read_query(text: str, *known: str) -> Query:
    """Return the parameters of a request, each once."""
    found: Query = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
    except ValueError as error:
        raise BadRequestError(f"the query can't be read: {error}") from error
    for name, value in pairs:
        if name not in known:
            raise BadRequestError(f"unknown parameter {name!r}; known: {', '.join(known) or 'none'}")
        if name in found:
            raise BadRequestError(f"{name} is given twice")
        if "\0" in value:
            raise BadRequestError(f"{name} contains a NUL")
        found[name] = value
    return found


def plain(text: str) -> str:
    """Return a part of a path without its percents."""
    found = unquote(text, errors="strict")
    if "\0" in found:
        raise BadRequestError("a name contains a NUL")
    return found


class Routes:
    """The API."""

    def __init__(
        self,
        service: Service,
        health: Health,
        metrics: Callable[[], Coroutine[Any, Any, bytes]],
        about: dict[str, object],
    ) -> None:
        self.service = service
        self.health = health
        self.metrics = metrics
        self.about = about
        """What a health check reports as well: version, node, epoch."""

        self.counts: dict[tuple[str, str], int] = {}
        """Responses by path, as the API has it, and status."""

        described = document(str(about["version"]))
        self._fixed = {
            "/openapi.json": to_json(200, described),
            "/docs": Response(200, docs_page(described), "text/html; charset=utf-8", PAGE_FIELDS),
            "/": Response(303, b"", JSON, (("Location", "/docs"),)),
        }
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, method: str, target: str, answer: Answer) -> None:
        """Answer a request. HEAD is answered as GET; the connection leaves the body out."""
        pattern = "unknown"

        def count_and_answer(response: Response) -> None:
            tally = (pattern, str(response.status))
            self.counts[tally] = self.counts.get(tally, 0) + 1
            answer(response)

        try:
            path, _, query = re.sub("^https?://[^/?]*", "", target).partition("?")
            pattern, methods, serve = self._find(path)
            if method not in methods:
                fields = (("Allow", ", ".join(methods)),)
                count_and_answer(problem("wrong-method", f"{path} takes {' and '.join(methods)}", *fields))
                return
            serve(query, count_and_answer)
        except LookupError:
            count_and_answer(problem("unknown-path", "there is no such path; see /docs"))
        except (BadRequestError, ValueError) as error:
            count_and_answer(problem("bad-request", str(error)))
        except Exception as error:  # noqa: BLE001 - the service reports it
            self.service.record_failure(error)
            count_and_answer(problem("failed", "an error of ours; the log has it"))

    def _find(self, path: str) -> tuple[str, tuple[str, ...], Callable[[str, Answer], None]]:
        """Return what is served at a path: its pattern, its methods, and who serves it."""
        if path in self._fixed:
            return path, ("GET", "HEAD"), lambda _, answer: answer(self._fixed[path])
        if path == "/health":
            return path, ("GET", "HEAD"), self._serve_health
        if path == "/metrics":
            return path, ("GET", "HEAD"), self._serve_metrics
        match path.split("/"):
            case ["", "v1", "ids", rule, app]:
                return "/v1/ids/{rule}/{app}", ("GET", "POST"), partial(self._ids, plain(rule), plain(app))
            case ["", "v1", "counters", rule, app]:
                return "/v1/counters/{rule}/{app}", ("GET", "HEAD"), partial(self._counter, plain(rule), plain(app))
        raise LookupError(path)

    # --- Numbers ------------------------------------------------------------------------------------------------------

    def _ids(self, rule: str, app: str, text: str, answer: Answer) -> None:
        query = read_query(text, "count", "request_id", "salt")
        count = query.pop("count", "1")
        if not re.fullmatch("[0-9]{1,9}", count) or not 1 <= int(count) <= IDS_COUNT_MAX:
            raise BadRequestError(f"count must be 1 to {IDS_COUNT_MAX}, not {count!r}")
        found = {"action": "get", "count": int(count)} | query
        self._ask(rule, app, found, answer, lambda data: {"rule": rule, "app": app, "ids": data})

    def _counter(self, rule: str, app: str, text: str, answer: Answer) -> None:
        read_query(text)
        self._ask(rule, app, {"action": "monitor"}, answer, lambda data: {"rule": rule, "app": app} | data)

    def _ask(
        self,
        rule: str,
        app: str,
        found: dict[str, Any],
        answer: Answer,
        show: Callable[[Any], dict[str, Any]],
    ) -> None:
        """Ask the service as a datagram would, and answer with what `show` makes of the data."""
        if rule not in self.service.config.rules:
            answer(problem("unknown-rule", f"there is no rule {rule!r}"))
            return
        data = wire.render(found | {"rule_name": rule, "app_name": app})
        if len(data) > IDS_REQUEST_BYTES_MAX:
            raise BadRequestError(f"the request has more than {IDS_REQUEST_BYTES_MAX} bytes")

        def reply(data: bytes) -> None:
            replied = json.loads(data.decode("utf-8", "surrogateescape"))
            if replied["code"] == 0:
                answer(to_json(200, show(replied["data"])))
            else:
                answer(refused(replied))

        self.service.receive(data, reply)

    # --- Watching -----------------------------------------------------------------------------------------------------

    def _serve_health(self, text: str, answer: Answer) -> None:
        read_query(text)
        self._later(self._send_health(answer), answer)

    async def _send_health(self, answer: Answer) -> None:
        reasons = await self.health.reasons()
        found = {"status": "failing" if reasons else "ok", "reasons": reasons} | self.about
        answer(to_json(503 if reasons else 200, found))

    def _serve_metrics(self, _: str, answer: Answer) -> None:
        self._later(self._send_metrics(answer), answer)

    async def _send_metrics(self, answer: Answer) -> None:
        answer(Response(200, await self.metrics(), TEXT))

    def _later(self, work: Coroutine[Any, Any, None], answer: Answer) -> None:
        async def run() -> None:
            try:
                await work
            except Exception:
                answer(problem("failed", "an error of ours; the log has it"))
                raise

        task = asyncio.create_task(run())
        self._tasks.add(task)  # the loop keeps no strong reference
        task.add_done_callback(self._tasks.discard)


PAGE_FIELDS = (("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),)
"""The page loads nothing and runs nothing."""


def refused(reply: dict[str, Any]) -> Response:
    """Return the response to a reply without a number."""
    code, message = reply["code"], reply["message"]
    name = OUTCOMES[code]
    if name == "invalid":
        name = "unused" if message == "not exist" else "bad-request"
        if message.startswith("system error") and "app_name" not in message:
            name = "failed"
        if message.endswith("is not for this application"):
            name = "forbidden"
    more = {key: reply[key] for key in ("resets_at", "retry_s") if key in reply}
    fields = (("Retry-After", str(ceil(reply["retry_s"]))),) if "retry_s" in reply else ()
    return problem(name, message.removeprefix("system error: "), *fields, code=code, **more)
