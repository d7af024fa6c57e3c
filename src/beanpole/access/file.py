"""The file of users: TOML, checked as a whole, with that of their tokens, before anything of it counts.

::

    [user.shop]
    certificates = ["CN=shop", "DNS:shop.internal", "URI:spiffe://corp/shop"]
    unix = ["www-data"]
    put = ["orders", "mail-*"]
    reserve = ["mail-*"]
    connections = 200

    [space."mail-*"]
    limits = { jobs = 1_000_000, bytes = "2GiB", tubes = 100 }

What a user may do is the union of what its patterns give; nothing is denied.
"""

import contextlib
import pwd
import re
import stat
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path

from beanpole.access.access import Access, Space, UserConfig, comparable, unix_name
from beanpole.access.tokens import NAME, NAME_FORM, Token, TokenFile, read
from beanpole.errors import AccessError
from beanpole.files import TomlFile, label
from beanpole.protocol.names import NAME_RULE, PATTERN
from beanpole.protocol.rights import RIGHTS, Grants
from beanpole.quantities import SIZE_FORM, bytes_of

USERS_MAX = 10_000
"""Users of a file: to read so many takes a second."""

SPACES_MAX = 256
"""Spaces of a file: each has metrics of its own."""

PATTERNS_MAX = 64
"""Patterns of a user: whatever names a tube is compared with each."""

LIMIT_MAX = 2**62
"""The greatest limit of connections, jobs, bytes and tubes, which no machine reaches."""

UID_MAX = 2**32 - 2
"""The greatest number of a user of the system: the one above means nobody."""

KEYS = ("user", "space")
USER_KEYS = ("certificates", "unix", "admin", "stats", *RIGHTS, "links", "connections")
LIMITS = ("jobs", "bytes", "tubes")

CERTIFICATE = re.compile(r"(CN=|DNS:|URI:)[ -~]{1,200}|sha256:[0-9a-fA-F]{64}")
CERTIFICATE_FORM = "CN=…, DNS:…, URI:… of printable ASCII, or sha256:… of its key in 64 digits is wanted"


def load(path: Path, tokens: Path | None = None, listeners: Collection[str] = ()) -> Access:
    """Read the files of users and tokens. `listeners` are the users that listeners name.

    Raises:
        AccessError: something is wrong in one of them, or with both together.
    """
    file = TomlFile(path, AccessError, stat.S_IWOTH)
    if file.text and not file.text.endswith("\n"):
        raise AccessError(str(path), file.text.count("\n") + 1, "this line has no end, so there may be more")
    file.check_keys(KEYS, "a file of users")
    if not file.value(dict, "user"):
        raise file.wrong("there is no user: each is a table [user.NAME]", *["user"] * (file.get("user") is not None))
    if len(file.values["user"]) > USERS_MAX:
        raise file.wrong(f"user: there are more than {USERS_MAX}", "user")
    faults: list[str] = []
    users = {name: user_of(file, name, faults) for name in file.values["user"]}
    owners = owners_of(file, users)
    for name in listeners:
        if name not in users:
            raise file.wrong(f"user: there is no {name}, and a listener names it")
    if len(file.value(dict, "space")) > SPACES_MAX:
        raise file.wrong(f"space: there are more than {SPACES_MAX}", "space")
    spaces = {pattern.encode(): space_of(file, pattern) for pattern in file.value(dict, "space")}
    token_file = None if tokens is None else read(tokens)
    found = {} if token_file is None else tokens_of(token_file, users, faults)
    text = file.text if token_file is None else f"{file.text}\0{token_file.text}"
    digest = sha256(text.encode()).hexdigest()
    return Access(users, spaces, found, frozenset(listeners), tuple(faults), owners, digest)


def tokens_of(file: TokenFile, users: Collection[str], faults: list[str]) -> dict[bytes, Token]:
    """Return the tokens of a file. Raises AccessError."""
    for line, token in file.lines.items():
        if token.user not in users:
            raise file.wrong(f"there is no user {token.user}", line)
    if file.unfinished is not None:
        faults.append(str(file.unfinished))
    return {token.digest: token for token in file.lines.values()}


# --- Users ------------------------------------------------------------------------------------------------------------


def user_of(file: TomlFile, name: str, faults: list[str]) -> UserConfig:
    """Read the table of a user. Raises AccessError."""
    at = ("user", name)
    if not NAME.fullmatch(name):
        raise file.wrong(f"user: {NAME_FORM}: {name[:40]!a}", *at)
    file.check_keys(USER_KEYS, "a user", *at)
    patterns = {right: patterns_of(file, *at, right) for right in RIGHTS}
    if len({each for row in patterns.values() for each in row}) > PATTERNS_MAX:
        raise file.wrong(f"{name}: there are more than {PATTERNS_MAX} patterns", *at)
    return UserConfig(
        name,
        certificates_of(file, *at, "certificates"),
        *uids_of(file, faults, *at, "unix"),
        file.value(bool, *at, "admin"),
        file.value(bool, *at, "stats"),
        patterns,
        frozenset(file.strings(*at, "links")),
        limit_of(file, *at, "connections"),
        Grants(patterns),
    )


def patterns_of(file: TomlFile, *at: str) -> tuple[bytes, ...]:
    """Read patterns of tubes. Raises AccessError."""
    patterns = file.strings(*at)
    for each in patterns:
        check_pattern(file, each, *at)
    return tuple(each.encode() for each in patterns)


def check_pattern(file: TomlFile, pattern: str, *at: str) -> None:
    """Check a pattern of tubes. Raises AccessError."""
    if not PATTERN.fullmatch(pattern.encode()):
        raise file.wrong(f"{label(at)}{NAME_RULE}; a * may end it: {pattern[:40]!a}", *at)


def certificates_of(file: TomlFile, *at: str) -> frozenset[str]:
    """Read names of certificates. Raises AccessError."""
    names = file.strings(*at)
    for each in names:
        if not CERTIFICATE.fullmatch(each):
            raise file.wrong(f"{label(at)}{CERTIFICATE_FORM}: {each[:40]!a}", *at)
    return frozenset(map(comparable, names))


def uids_of(file: TomlFile, faults: list[str], *at: str) -> tuple[frozenset[int], frozenset[str]]:
    """Read users of the system, by their names or numbers; return numbers, and what fronts may call them.

    One that this machine lacks is no error: each node of a cluster may have the same file. Raises AccessError.
    """
    found, names = set(), set()
    for each in file.value(list, *at):
        if not (isinstance(each, str) or (type(each) is int and 0 <= each <= UID_MAX)):
            raise file.wrong(f"{label(at)}a list of names or numbers of the system's users is wanted", *at)
        names.add(str(each))
        try:
            uid = pwd.getpwnam(each).pw_uid if isinstance(each, str) else each
        except (KeyError, ValueError):
            faults.append(f"{label(at)}this machine has no user {str(each)[:40]!a}")
            continue
        found.add(uid)
        with contextlib.suppress(KeyError):
            names.add(pwd.getpwuid(uid).pw_name)  # of several names for a number a front says this one
    return frozenset(found), frozenset(map(unix_name, names))


def owners_of(file: TomlFile, users: Mapping[str, UserConfig]) -> dict[str | int, str]:
    """Return who has which name or uid. Raises AccessError: two have one, or links name somebody whom there is not."""
    owners: dict[str | int, str] = {}
    for user in users.values():
        for key, names in (("certificates", user.certificates), ("unix", user.uids), ("unix", user.unix)):
            for name in names:
                owner = owners.setdefault(name, user.name)
                if owner != user.name:
                    raise file.wrong(f"{user.name}: {key}: {name} is that of {owner}", "user", user.name, key)
        for each in user.links:
            if each not in users:
                raise file.wrong(f"{user.name}: links: there is no user {each[:40]!a}", "user", user.name, "links")
    return owners


# --- Limits -----------------------------------------------------------------------------------------------------------


def space_of(file: TomlFile, pattern: str) -> Space:
    """Read the table of a space. Raises AccessError."""
    at = ("space", pattern)
    check_pattern(file, pattern, *at)
    file.check_keys(("limits",), "a space", *at)
    if not file.value(dict, *at, "limits"):
        raise file.wrong(f"{pattern}: limits: {', '.join(LIMITS)} may be limited, and nothing is", *at)
    file.check_keys(LIMITS, "limits", *at, "limits")
    return Space(pattern.encode(), *(limit_of(file, *at, "limits", key) for key in LIMITS))


def limit_of(file: TomlFile, *at: str) -> int | None:
    """Read a limit; None: there is none. Raises AccessError."""
    found = file.get(*at)
    if found is None:
        return None
    is_size = at[-1] == "bytes"
    number = bytes_of(found) if is_size and isinstance(found, str) else found
    if type(number) is not int or not 0 < number <= LIMIT_MAX:
        form = f"; {SIZE_FORM}" if is_size else ""
        raise file.wrong(f"{label(at)}a number from 1 to {LIMIT_MAX} is wanted{form}", *at)
    return number
