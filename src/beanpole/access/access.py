"""What the files of users and tokens say, and who a client is by what it has shown.

Nothing here changes: files that are read again give another object, and a connection keeps what its client has shown,
which is looked up again then. Tokens are found by their digests, so no comparison says anything of a secret.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from beanpole.access.tokens import Token, date_text, digest_of
from beanpole.protocol.evidence import Evidence
from beanpole.protocol.rights import Grants

UNIX = "uid "  # no name of a certificate begins with it

WARNING_S = 14 * 86_400
"""Warnings begin this many seconds before a token or certificate ends."""

Proof = bytes | int | str | tuple[str, ...]
"""What a client has shown: the digest of a token, a uid, the user of its listener, or the names of a certificate.

A user of another machine's system is one by a name as well: `unix_name`."""


@dataclass(frozen=True, slots=True)
class UserConfig:
    """What the file says of a user. Two that are equal give the same."""

    name: str
    certificates: frozenset[str] = frozenset()
    """Names that certificates have, as `comparable` makes them."""
    uids: frozenset[int] = frozenset()
    unix: frozenset[str] = frozenset()
    """The names that machines have for these, as the file or this machine says them, as `unix_name` makes them."""
    admin: bool = False
    """Whether it may do everything."""
    stats: bool = False
    """Whether it may see everybody's numbers."""
    patterns: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    """Patterns of tubes, by the names of the rights."""
    links: frozenset[str] = frozenset()
    """The users for whom its links may speak."""
    connections: int | None = None
    """Connections at a time; None: no limit."""
    grants: Grants = field(default_factory=lambda: Grants({}), compare=False)
    """The patterns, as the engine asks them."""


@dataclass(frozen=True, slots=True)
class Space:
    """What may lie in the tubes that a pattern fits, together; None: no limit."""

    pattern: bytes
    jobs: int | None = None
    bytes: int | None = None
    """Of bodies."""
    tubes: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Who a client is."""

    user: str
    evidence: Proof
    until: float | None = None
    """When the evidence ends, in seconds since 1970; None: it does not, or nobody knows."""


@dataclass(frozen=True, slots=True)
class Access:
    """What the files say."""

    users: Mapping[str, UserConfig]
    spaces: Mapping[bytes, Space]
    """By their patterns."""
    tokens: Mapping[bytes, Token]
    """By their digests."""
    listeners: frozenset[str]
    """The users that listeners name."""
    faults: tuple[str, ...]
    """What is odd in the files and forbids nothing, a sentence each."""
    owners: Mapping[str | int, str]
    """The users of certificates, by names as `comparable` makes them, of uids, and of their names (`unix_name`)."""
    digest: str
    """Of the files, in hexadecimal digits."""

    # --- Who a client is ----------------------------------------------------------------------------------------------

    def by_token(self, text: bytes, now_s: float) -> Found | None:
        """Return whose token a text is; None: nobody's, or it is over."""
        digest = digest_of(text)
        return None if digest is None else self.by_digest(digest, now_s)

    def by_digest(self, digest: bytes, now_s: float) -> Found | None:
        """Return whose token has a digest; None: nobody's, or it is over."""
        token = self.tokens.get(digest)
        if token is None or (token.until is not None and token.until <= now_s):
            return None
        return Found(token.user, digest, token.until)

    def by_uid(self, uid: int) -> Found | None:
        """Return the user that a user of the system is; None: it is none."""
        name = self.owners.get(uid)
        return None if name is None else Found(name, uid)

    def by_certificate(self, names: Iterable[str], until: float | None = None) -> Found | None:
        """Return the user of a certificate that ends then; None: it has a name of none, or names of two."""
        names = tuple(names)
        found = self.users_of(names)
        return Found(found.pop(), names, until) if len(found) == 1 else None

    def by_listener(self, name: str) -> Found | None:
        """Return the user that a listener names; None: there is none of this name."""
        return Found(name, name) if name in self.users else None

    def by_evidence(self, shown: Evidence, now_s: float, uid: int | None = None) -> tuple[Found | None, str]:
        """Return who a client is by what it has shown where it came in, else what is wrong with that.

        Neither: it has shown nothing that could say so. `uid` is that of a user of this machine's system.
        """
        if shown.certificates or shown.until is not None:
            found = self.by_certificate(shown.certificates, shown.until)
            if found is None or (shown.until is not None and shown.until <= now_s):
                return None, "its certificate has ended" if found else self.fault_of(shown.certificates, now_s)
            return found, ""
        if shown.user:
            return self.by_listener(shown.user), self.fault_of(shown.user, now_s)
        if uid is not None:
            return self.by_uid(uid), ""
        return (self.by_certificate([unix_name(shown.uid)]) if shown.uid else None), ""

    def users_of(self, names: Iterable[str]) -> set[str]:
        """Return the users that have one of the names of a certificate. What is not printable ASCII is no name."""
        names = [comparable(each) for each in names if each.isascii() and each.isprintable()]
        return {self.owners[each] for each in names if each in self.owners}

    def again(self, found: Found, now_s: float) -> Found | None:
        """Return who a client is by now, by what it has shown; None: nobody."""
        match found.evidence:
            case bytes(digest):
                return self.by_digest(digest, now_s)
            case int(uid):
                return self.by_uid(uid)
            case str(name):
                return self.by_listener(name)
            case names:
                return self.by_certificate(names, found.until)

    def keeps(self, before: "Access") -> bool:
        """Whether all who were somebody before are the same by the same now: nobody has to be looked up again."""
        return (
            self.owners.items() >= before.owners.items()
            and len(self.owners) == len(before.owners)  # one more can make a certificate one of two users
            and self.tokens.items() >= before.tokens.items()
            and self.users.keys() >= before.users.keys()
            and all(self.users[each.name].links >= each.links for each in before.users.values())
        )

    def next_end(self, now_s: float) -> float:
        """Return when the next token ends; infinity: none does."""
        return min((each.until for each in self.tokens.values() if each.until and each.until > now_s), default=math.inf)

    # --- For people ---------------------------------------------------------------------------------------------------

    def fault_of(self, evidence: Proof, now_s: float) -> str:
        """Return why nobody is found by what a client has shown; empty: somebody is."""
        if self.again(Found("", evidence), now_s) is not None:
            return ""
        match evidence:
            case bytes(digest):
                token = self.tokens.get(digest)
                return "nobody has this token" if token is None else f"{token} is over"
            case int(uid):
                return f"uid {uid} is no user"
            case str(name):
                return f"there is no user {name}"
            case names:
                users = sorted(self.users_of(names))
                shown = ", ".join(ascii(each)[1:-1] for each in names) or "no name"
                if shown.startswith(UNIX):
                    return f"{shown} is no user"
                return f"a certificate has {shown}: " + (f"names of {' and '.join(users)}" if users else "of no user")

    def warnings(self, now_s: float) -> Iterator[str]:
        """Return what people should know of the files, a sentence each; the same at any time, if it is still so."""
        yield from self.faults
        for token in self.tokens.values():
            if token.until is not None and token.until <= now_s + WARNING_S:
                yield f"{token} {'was over' if token.until <= now_s else 'will be over'} at {date_text(token.until)}"
        for name in self.unreachable(now_s):
            lacks = "it has no certificate, no token and no user of the system"
            yield f"nobody can be {name}: {lacks}, unless a listener has user={name}"

    def unreachable(self, now_s: float) -> list[str]:
        """Return the users that nobody can be."""
        known = {each.user for each in self.tokens.values() if each.until is None or each.until > now_s}
        known |= self.listeners | set(self.owners.values())
        return [name for name in self.users if name not in known]


def comparable(name: str) -> str:
    """Return the name of a certificate as it is compared: domains and digests have no upper case."""
    return name if name.startswith(("CN=", "URI:", UNIX)) else name[:4] + name[4:].lower()


def unix_name(name: str) -> str:
    """Return what stands for a user of a system that a front has named, by its name or its number."""
    return UNIX + name
