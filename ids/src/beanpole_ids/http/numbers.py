"""Requests for numbers: what HTTP asks is asked of the service as a datagram would, so both ways have the same rules.

What a client asks for is the same again and again, so the datagram is made once (`Plan`), with the bytes that the reply
begins and ends with if it has numbers. These are cut out of the reply as they are: no JSON is read for them.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from math import ceil
from typing import Any
from urllib.parse import parse_qsl

import orjson

from beanpole_ids import limits
from beanpole_ids.http.asked import Asked
from beanpole_ids.http.response import JSON, ProblemError, Response, problem, to_json
from beanpole_ids.original import wire
from beanpole_ids.request import BadRequestError
from beanpole_ids.service import Service

OUTCOMES = {0: "success", -1: "invalid", -2: "exhausted", -3: "storage", -4: "clock", -5: "limited", -6: "cookie"}
"""The name of each code of the wire in metrics, and from -2 on that of its problem."""

PARAMETERS = ("count", "request_id", "salt")

MEMBERS = json.JSONDecoder(object_pairs_hook=list)
"""Reads the members of an object one by one: orjson has the last one of a name."""


class Plan:
    """A request for numbers, as it goes to the service, and what its reply looks like if it has them."""

    def __init__(self, rule: str, app: str, wanted: dict[str, object]) -> None:
        echoed = {"rule_name": rule} | {key: wanted[key] for key in ("request_id", "salt") if key in wanted}
        asked = {"action": "get", "app_name": app, "count": wanted.get("count", 1)}
        self.data = wire.render(asked | echoed)
        if len(self.data) > limits.REQUEST_BYTES_MAX:
            raise BadRequestError(f"the request has more than {limits.REQUEST_BYTES_MAX} bytes")
        self._begin = wire.render(asked | {"code": 0})[:-1] + b',"data":'
        self._end = b"," + wire.render(echoed | {"message": "success"})[1:]
        self._head = json.dumps({"rule": rule, "app": app}, separators=(",", ":")).encode()[:-1] + b',"ids":'

    def response(self, reply: bytes) -> Response:
        """Return the response that says what the reply of the service says."""
        begin, end = self._begin, self._end
        if reply.startswith(begin) and reply.endswith(end):
            ids = reply[len(begin) : -len(end)]
            if ids.isascii():  # a rule may put bytes that are no UTF-8 into its numbers
                return Response(200, b"%b%b}" % (self._head, ids), JSON)
        found = json.loads(self._head + b"[]}")
        return show(lambda data: found | {"ids": data}, reply)


def show(shown: Callable[[Any], dict[str, Any]], reply: bytes) -> Response:
    """Return the response to a reply of the service; `shown` makes it of the data."""
    found = json.loads(reply.decode("utf-8", "surrogateescape"))
    return to_json(200, shown(found["data"])) if found["code"] == 0 else refused(found)


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
    detail = "nobody has a number of this counter" if name == "unused" else message.removeprefix("system error: ")
    more = {key: reply[key] for key in ("resets_at", "retry_s") if key in reply}
    fields = (("Retry-After", str(ceil(reply["retry_s"]))),) if "retry_s" in reply else ()
    return problem(name, detail, *fields, code=code, **more)


Answered = Response | Awaitable[Response]
"""The response, now or later."""


def ask(service: Service, data: bytes, asked: Asked, response_to: Callable[[bytes], Response]) -> Answered:
    """Ask the service; return the response to its reply."""
    if (reply := service.answer_quickly(data, asked.source)) is not None:
        return response_to(reply)
    found: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    service.receive(data, lambda reply: found.set_result(response_to(reply)), asked.source)
    return found.result() if found.done() else found


def give(service: Service, asked: Asked, rule: str, app: str) -> Answered:
    """Answer with numbers.

    Raises ProblemError: a page of another site may ask, or the body is of another type; BadRequestError: something
    makes no sense.
    """
    wanted: dict[str, object] = dict(read_query(asked.query, *PARAMETERS))
    if "count" in wanted:
        wanted["count"] = to_count(str(wanted["count"]))
    plan = Plan(rule, app, wanted)
    if asked.method == "GET" and not asked.is_marked:
        detail = "a GET gives numbers only with the field X-Beanpole, as X-Beanpole: 1; a POST needs none"
        raise ProblemError("unmarked", detail)
    if asked.body:
        more = read_body(asked)
        if twice := more.keys() & wanted.keys():
            raise BadRequestError(f"{min(twice)} is given twice, in the query and in the body")
        plan = Plan(rule, app, wanted | more)
    if rule not in service.config.rules:
        raise ProblemError("unknown-rule", f"there is no rule {rule!r}")
    return ask(service, plan.data, asked, plan.response)


def show_counter(service: Service, asked: Asked, rule: str, app: str) -> Answered:
    """Answer how a counter stands."""
    read_query(asked.query)
    if rule not in service.config.rules:
        raise ProblemError("unknown-rule", f"there is no rule {rule!r}")
    data = wire.render({"action": "monitor", "app_name": app, "rule_name": rule})
    if len(data) > limits.REQUEST_BYTES_MAX:
        raise BadRequestError(f"the request has more than {limits.REQUEST_BYTES_MAX} bytes")
    return ask(service, data, asked, partial(show, lambda state: {"rule": rule, "app": app} | state))


# --- Parameters -------------------------------------------------------------------------------------------------------


def read_query(text: str, *known: str, errors: str = "strict") -> dict[str, str]:
    """Return the parameters of a request, each once. `errors`: what bytes become that are no UTF-8.

    Raises BadRequestError: they make no sense.
    """
    found: dict[str, str] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors=errors)
    except ValueError as error:
        raise BadRequestError(f"the query can't be read: {error}") from error
    for name, value in pairs:
        check_name(name, known)
        if name in found:
            raise BadRequestError(f"{name} is given twice")
        found[name] = without_nul(name, value)
    return found


def read_body(asked: Asked) -> dict[str, object]:
    """Return the parameters that a body has.

    Raises ProblemError: it is of another type than JSON; BadRequestError: it makes no sense.
    """
    if asked.kind != "application/json":
        raise ProblemError(
            "not-json", "a body must be a JSON object, with Content-Type: application/json; none is needed"
        )
    try:
        found = orjson.loads(asked.body)
    except ValueError as error:
        raise BadRequestError(f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadRequestError("the body must be a JSON object")
    for name, value in found.items():
        check_name(name, PARAMETERS)
        if name == "count":
            check_count(value)
        elif isinstance(value, str):
            without_nul(name, value)
        elif name == "salt" or type(value) is not int:
            raise BadRequestError(f"{name} must be a string" + (" or a whole number" if name != "salt" else ""))
    if asked.body.count(b":") > len(found):  # no member is an object, so each has one, or more in its string
        names = [name for name, _ in MEMBERS.decode(asked.body.decode())]
        if twice := [name for name in found if names.count(name) > 1]:
            raise BadRequestError(f"{twice[0]} is given twice")
    return found


def check_name(name: str, known: tuple[str, ...]) -> None:
    """Raises BadRequestError: there is no such parameter."""
    if name not in known:
        raise BadRequestError(f"unknown parameter {name!r}; known: {', '.join(known) or 'none'}")


def without_nul(name: str, value: str) -> str:
    """Return a value.

    Raises BadRequestError: it has a NUL, where strings of the wire end.
    """
    if "\0" in value:
        raise BadRequestError(f"{name} contains a NUL")
    return value


def to_count(text: str, most: int = limits.COUNT_MAX, name: str = "count") -> int:
    """Return a parameter that is a number of things.

    Raises BadRequestError: it is none, or more than the most.
    """
    if not re.fullmatch("[0-9]{1,9}", text):
        raise BadRequestError(f"{name} must be 1 to {most}, not {text!r}")
    check_count(int(text), most, name)
    return int(text)


def check_count(value: object, most: int = limits.COUNT_MAX, name: str = "count") -> None:
    """Raises BadRequestError: a value is no number of things, or more than the most."""
    if type(value) is not int or not 1 <= value <= most:
        raise BadRequestError(f"{name} must be 1 to {most}, not {value!r}")
