"""Requests: what a JSON object asks for.

Requests use few different names, so the rule and the key of each pair are cached.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from beanpole_ids import limits
from beanpole_ids.errors import NeedCookieError, NoNumberError, RuleFailedError
from beanpole_ids.original import wire
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Key
from beanpole_ids.window import name_of

BAD_NAME = re.compile(r"[\x00-#%&'<>]")
"""What the original refuses in an application's name: controls, space ! " # % & ' < >."""

GETS = frozenset({"get", "create"})
"""The actions that make numbers; every other asks for the state of a counter."""

NAMES_MAX = 1_000
"""Rules and applications whose key is remembered."""

Answer = Callable[[bytes], None]
"""Sends a reply."""


class BadRequestError(Exception):
    """A request makes no sense; one sentence says why."""


@dataclass(slots=True, eq=False)
class Request:
    """A request that is well-formed."""

    found: dict[str, Any]
    answer: Answer
    key: Key
    rule: Rule
    count: int
    salt: bytes
    is_get: bool
    source: str = ""
    """The client's IP address, or "" if it is not known."""

    room: int = limits.REPLY_BYTES_MAX
    """Bytes of the largest reply that its address may get."""

    waits_since_s: float = 0.0

    is_proven: bool = True
    """Whether nobody can have forged its address: it is trusted, showed a cookie, or has a connection."""

    @property
    def number_count(self) -> int:
        """How many numbers it wants; 0: it asks for the state of a counter."""
        return self.count if self.is_get else 0

    @property
    def app(self) -> bytes:
        return to_bytes(self.found["app_name"])

    @property
    def is_list(self) -> bool:
        return "count" in self.found

    @property
    def name(self) -> bytes | None:
        """What is equal for a repetition by its address; None: it may not be repeated.

        Without a `count` it differs, as the answer is no list.
        """
        found = self.found
        if (id_ := found.get("request_id")) is None:
            return None
        return name_of(
            to_bytes(found["rule_name"]),
            self.app,
            self.source.encode(),
            self.salt,
            str(self.count).encode() if self.is_list else b"",
            b"s" + to_bytes(id_) if isinstance(id_, str) else f"i{id_}".encode(),
        )

    def around(self) -> tuple[bytes, bytes]:
        """Return what stands before the data of the reply that has some, and after it."""
        reply = self.found | {"code": 0, "message": "success"}
        before = {key: value for key, value in reply.items() if key < "data"}
        after = {key: value for key, value in reply.items() if key > "data"}
        return wire.render(before)[:-1] + b',"data":', b"," + wire.render(after)[1:]


def too_large(size: int, count: int) -> NoNumberError:
    """Return why a reply of that size, with so many numbers, can't be sent."""
    if size <= limits.REPLY_BYTES_MAX:
        return NeedCookieError()  # to an address that is not proven
    what = "count is too large: the numbers don't" if count > 1 else "the request is too large: its echo does not"
    return RuleFailedError(f"{what} fit into the datagram of the reply")


class Reader:
    """Reads requests for some rules."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self._names: dict[tuple[str, str], tuple[Rule, Key]] = {}
        """Rules and keys by the names in a request; only valid ones, and few: names that come often are known in C."""

        self._rule_names: dict[str, bytes] = {}
        """What keys have in common, so that many take little memory."""

    def read(self, found: dict[str, Any], answer: Answer, source: str = "") -> Request:
        """Return a request.

        Raises BadRequestError: it is none.
        """
        try:
            rule, key = self._names[found["rule_name"], found["app_name"]]
        except (KeyError, TypeError):
            rule, key = self._find(found)
        action = found.get("action")
        if not isinstance(action, str):
            raise BadRequestError("need action")
        count, salt = found.get("count", 1), found.get("salt", "")
        if type(count) is not int or not 1 <= count <= limits.COUNT_MAX:
            raise BadRequestError(f"count must be 1 to {limits.COUNT_MAX}")
        if "request_id" in found and not isinstance(found["request_id"], str | int):
            raise BadRequestError("request_id must be a string or a whole number")
        salt = to_bytes(salt) if salt and isinstance(salt, str) else b""
        if len(salt) > limits.SALT_BYTES_MAX:
            raise BadRequestError(f"salt has more than {limits.SALT_BYTES_MAX} bytes")
        return Request(found, answer, key, rule, count, salt, action in GETS, source)

    def _find(self, found: dict[str, Any]) -> tuple[Rule, Key]:
        """Return the rule and the key for names that are not cached."""
        for name in ("action", "app_name", "rule_name"):
            if not isinstance(found.get(name), str):
                raise BadRequestError(f"need {name}")
        names = found["rule_name"], found["app_name"]
        rule, app = self.rules.get(names[0]), to_bytes(names[1])
        is_get, is_bad = found["action"] in GETS, BAD_NAME.search(names[1]) is not None
        if rule is None:
            raise BadRequestError("system error: unknown rule" if is_get else "not exist")
        if is_get and rule.apps is not None and names[1] not in rule.apps:
            raise BadRequestError("system error: the rule is not for this application")
        if (is_get and is_bad) or len(app) > limits.NAME_BYTES_MAX:
            raise BadRequestError("system error: app_name has a bad character or is too long")
        key = Key(self._rule_names.setdefault(rule.name, rule.name.encode()), b"" if rule.shared else app)
        if is_get and not is_bad:
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            self._names[names] = rule, key
        return rule, key


def to_bytes(text: str) -> bytes:
    """Return the bytes of a string as they came, and of half a pair of UTF-16 what WTF-8 says."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
