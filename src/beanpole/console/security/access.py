"""Who a visitor is: which token or cookie is whose, and how long who tries wrong ones waits.

A cookie holds nothing but who has logged in, until when, a number that only it has, and a signature that only the token
can have made. So it outlives a restart of the console, and it ends with the token.
"""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from beanpole.console import limits
from beanpole.console.sampler import Logger
from beanpole.console.security.tokens import Token, TokenFile
from beanpole.console.security.users import Users
from beanpole.console.settings import Clock
from beanpole.protocol.rights import RIGHTS

READ_ONLY = "read-only: this console was started without --http-token-file"
"""Why a visitor may not change anything where nobody may."""

NO_MANAGE = 'read-only: this user lacks manage = ["*"]'
"""Why one may not who has logged in."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who sends requests, and what they may do."""

    name: str = "anybody"  # whose token it is, for the log
    may_change: bool = False  # whether actions are allowed
    form_token: str = ""  # what each form of a page must bring back; empty: there is no cookie
    may_see: bool = True  # whether they may know anything of the servers; else they have yet to log in
    may_meter: bool = True  # whether they may know everybody's numbers
    rights: frozenset[str] = frozenset(RIGHTS)  # those that they have in all tubes
    read_only: str = READ_ONLY  # why they may not change anything, if they may not


STRANGER = Visitor("nobody", may_see=False)
"""Who has not logged in, where one must."""


def visitor_with(token: Token, form_token: str = "") -> Visitor:
    """Who has a token. What the console asks of a server is asked of no user, so only rights to all tubes count."""
    user = token.user
    if user is None or user.admin:
        return Visitor(token.name, may_change=True, form_token=form_token)
    rights = frozenset(each for each in RIGHTS if user.grants.covers(each, b"*"))
    may_see = user.stats and "look" in rights
    return Visitor(token.name, may_see and "manage" in rights, form_token, may_see, user.stats, rights, NO_MANAGE)


def visitor_of(request: Request) -> Visitor:
    """The visitor who sent a request, as the guard has identified them."""
    found = request.scope.get("state", {}).get("visitor")
    return found if isinstance(found, Visitor) else Visitor()


WRONG_TOKEN_S = 0.25  # seconds that the answer to a first wrong token waits; each further one twice as long
WRONG_TOKEN_S_MAX = 5  # seconds that it waits at most
WRONG_TOKEN_FORGOTTEN_S = 600  # seconds after which a wrong token is forgotten
WRONG_TOKEN_PEERS_MAX = 1_000  # peers whose wrong tokens are counted: the last ones


class Attempts:
    """Wrong tokens make who tries them wait: longer each time, up to five seconds. Nobody else waits."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._peers: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def wrong(self, peer: str) -> float:
        """Notes a wrong token of a peer; returns for how many seconds its answer has to wait."""
        now_ns = self._now_ns()
        count, at_ns = self._peers.pop(peer, (0, now_ns))
        if now_ns - at_ns > WRONG_TOKEN_FORGOTTEN_S * 1e9:
            count = 0
        self._peers[peer] = (count + 1, now_ns)
        if len(self._peers) > WRONG_TOKEN_PEERS_MAX:
            self._peers.popitem(last=False)
        return min(WRONG_TOKEN_S_MAX, WRONG_TOKEN_S * 2.0 ** min(count, 30))


REFUSALS_MAX = 100  # lines about refused logins in a second


class Refusals:
    """Says in the log who was not let in: of a kind once a second, and never much in all.

    How many had no line, of any kind, stands in the next one.
    """

    def __init__(self, logger: Logger, now_ns: Callable[[], int]) -> None:
        self._logger = logger
        self._now_ns = now_ns
        self._second = 0
        self._said: set[tuple[str, str, str]] = set()  # in this second
        self._left_out = 0  # that have had no line since the last one

    def note(self, who: str, peer: str, reason: str) -> None:
        """Takes note of a refused login; `who` is whose token it was, if it was anybody's."""
        second, kind = self._now_ns() // 10**9, (who, peer, reason)
        if second != self._second:
            self._second = second
            self._said.clear()
        if kind in self._said or len(self._said) >= REFUSALS_MAX:
            self._left_out += 1
            return
        self._said.add(kind)
        left_out = {"left_out": self._left_out} if self._left_out else {}
        self._left_out = 0
        self._logger.log("warning", "login refused", who=who or "-", peer=peer, reason=reason, **left_out)


ENDED_SESSIONS_MAX = 10_000
"""Sessions of which is kept that they were ended: each takes about 200 bytes, and one needs a token to make one."""

COOKIE_CHARS_MAX = 300  # characters of a cookie that is looked at

COOKIE = "beanpole-session"


@dataclass(frozen=True, slots=True)
class Session:
    """A cookie that holds."""

    token: Token
    nonce: str
    ends_s: int

    @property
    def visitor(self) -> Visitor:
        return visitor_with(self.token, self.token.signature(b"form", self.nonce.encode()))

    @property
    def cookie(self) -> str:
        signed = f"{self.ends_s}.{self.nonce}.{self.token.name}"
        return f"{self.token.signature(b'session', signed.encode())}.{signed}"


class Access:
    """Knows the tokens of a console: of a file of its own, of the users of a server, or of both."""

    def __init__(self, path: Path | None, logger: Logger, clock: Clock, users: Users | None = None) -> None:
        self.attempts = Attempts(clock.now_ns)
        self.refusals = Refusals(logger, clock.now_ns)
        self.users = users
        self._file = None if path is None else TokenFile(path)
        self._fault = ""
        self._logger = logger
        self._unix_s = clock.unix_s
        self._ended: OrderedDict[str, None] = OrderedDict()

    def token(self, text: str) -> Token | None:
        """The token that is the same as a text. All are compared, each in a time that says nothing."""
        given, found = digest(text.encode(errors="replace")), None
        for each in self._tokens():
            if hmac.compare_digest(digest(each.secret), given):
                found = each
        return found or (self.users.token(text) if self.users is not None else None)

    def begin(self, token: Token) -> Session:
        return Session(token, secrets.token_hex(16), int(self._unix_s()) + limits.SESSION_S)

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie; None: it is forged, over, or its token is gone."""
        _, *parts = cookie.split(".", 3)
        if len(cookie) > COOKIE_CHARS_MAX or not cookie.isascii() or len(parts) != 3 or not parts[0].isdecimal():
            return None
        ends_s, nonce, name = int(parts[0]), parts[1], parts[2]
        if ends_s <= self._unix_s() or nonce in self._ended:
            return None
        tokens = [each for each in self._tokens() if each.name == name]
        tokens += self.users.tokens_of(name) if self.users is not None else ()
        found = (Session(each, nonce, ends_s) for each in tokens)
        return next((each for each in found if hmac.compare_digest(each.cookie, cookie)), None)

    def end(self, session: Session) -> None:
        """Ends a session before its time. As many as may be forgotten are kept in mind."""
        self._ended[session.nonce] = None
        if len(self._ended) > ENDED_SESSIONS_MAX:
            self._ended.popitem(last=False)

    def _tokens(self) -> tuple[Token, ...]:
        if self._file is None:
            return ()
        tokens, fault = self._file.tokens(), self._file.fault
        if fault != self._fault:
            self._fault = fault
            if fault:
                self._logger.log("error", "tokens unreadable", reason=fault, effect="nobody gets in")
            else:
                self._logger.log("info", "tokens readable")
        return tokens


def digest(secret: bytes) -> bytes:
    """Something of one length, so that comparing says nothing of the length of a token."""
    return hmac.digest(b"beanpole", secret, "sha256")
