"""Tokens, by which clients say who they are, and the file that has their digests: a line each.

A line is ``NAME sha256:HEX [until=DATE] [# words]``; empty lines and those that begin with ``#`` are left out, and so
is a last line without its end, which may be half of one. The digest is that of the token as text. A token has 256
random bits, so that its digest needs no salt and can't be searched; still nobody but its user, and perhaps a group,
may read the file. No message says anything of a line but its number.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from beanpole.errors import AccessError
from beanpole.files import SECRET, read_text
from beanpole.quantities import moment_of

NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}")
NAME_FORM = "a user's name has 1 to 64 letters, digits and ._@- and begins with none of .@-"

TOKEN = re.compile(rb"bp_[A-Za-z0-9_-]{43}")
TOKEN_BYTES = 32  # random ones in a token

LINE = re.compile(rf"({NAME.pattern})[ \t]+sha256:([0-9a-f]{{64}})(?:[ \t]+until=([^ \t]+))?(?:[ \t]+#[ \t]*(.*))?")
LINE_FORM = "NAME sha256:HEX [until=DATE] [# words]"
DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
DATE_FORM = "a date as in 2026-12-31, its first moment in UTC, or a moment as in 2026-12-31T18:00Z"
HEADING = f"# {LINE_FORM}: made by beanpole token add\n"


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token."""

    user: str
    digest: bytes
    until: float | None = None
    """When it ends, in seconds since 1970; None: it does not."""
    words: str = ""
    """What people have written of it."""

    def __str__(self) -> str:
        return f"{self.user} sha256:{self.digest.hex()[:12]}"


def digest_of(text: bytes) -> bytes | None:
    """Return what is known of a token; None: it can't be one."""
    return sha256(text).digest() if TOKEN.fullmatch(text) else None


def date_of(text: str) -> float | None:
    """Return the seconds since 1970 of a date or a moment; None: it is none."""
    found = moment_of(f"{text}T00:00Z" if DATE.fullmatch(text) else text)
    return None if found is None else float(found)


def date_text(seconds: float) -> str:
    """Return a moment as a line has it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class TokenFile:
    """What a file of tokens says."""

    path: Path
    lines: dict[int, Token]
    """The tokens, by the numbers of their lines."""
    text: str

    def wrong(self, why: str, line: int = 0) -> AccessError:
        return AccessError(str(self.path), line, why)

    @property
    def unfinished(self) -> AccessError | None:
        """What is wrong with the last line, which is not read; None: nothing."""
        if self.text.endswith("\n"):
            return None
        return self.wrong("this line has no end, so it is not read", self.text.count("\n") + 1)


def read(path: Path) -> TokenFile:
    """Read a file of tokens. Raises AccessError: something is wrong with it."""
    found = TokenFile(path, {}, read_text(path, AccessError, SECRET))
    if not found.text.strip():
        raise found.wrong("it is empty")
    seen: dict[bytes, int] = {}
    for number, each in enumerate(found.text.split("\n")[:-1], 1):
        line = each.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        parts = LINE.fullmatch(line)
        if parts is None:
            raise found.wrong(f"this is not {LINE_FORM}; beanpole token add writes such lines", number)
        name, hexadecimal, date, words = parts.groups()
        until = None if date is None else date_of(date)
        if date is not None and until is None:
            raise found.wrong(f"until: {DATE_FORM} is wanted", number)
        token = found.lines[number] = Token(name, bytes.fromhex(hexadecimal), until, words or "")
        before = seen.setdefault(token.digest, number)
        if before != number:
            raise found.wrong(f"this is the token of line {before}", number)
    return found


# --- Writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def locked(path: Path, flags: int = 0) -> Iterator[int]:
    """Open a file and lock it against other writers. Raises OSError."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            mine, there = os.fstat(fd), path.stat()
            if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):  # else somebody has replaced it
                yield fd
                return
        finally:
            os.close(fd)


def new_token() -> bytes:
    """Return a token that nobody can guess."""
    return f"bp_{secrets.token_urlsafe(TOKEN_BYTES)}".encode()


def add(path: Path, user: str, until: float | None = None, words: str = "") -> bytes:
    """Make a token and append its line; a file that is not there is made, for its user alone.

    Returns:
        The token, which is nowhere else.

    Raises:
        AccessError: something is wrong with the file, which is left as it is.
        OSError: it can't be written.
    """
    token = new_token()
    line = f"{user} sha256:{sha256(token).hexdigest()}"
    line += f" until={date_text(until)}" if until is not None else ""
    line += f" # {words}" if words else ""
    with locked(path, os.O_CREAT) as fd:
        size = os.fstat(fd).st_size
        if size:
            unfinished = read(path).unfinished
            if unfinished is not None:
                raise unfinished
        append(fd, size, f"{'' if size else HEADING}{line}\n".encode())
    return token


def append(fd: int, size: int, data: bytes) -> None:
    """Append to a file of a size, all or nothing. Raises OSError."""
    is_whole = False
    try:
        is_whole = os.write(fd, data) == len(data)
        os.fsync(fd)
    finally:
        if not is_whole:
            os.ftruncate(fd, size)
    if not is_whole:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def remove(path: Path, token: Token) -> None:
    """Remove a token's line. Readers see the old file or the new one, never a mixture.

    Raises:
        AccessError: something is wrong with the file, or the line is gone.
        OSError: it can't be written.
    """
    path = path.resolve()  # a link stays one
    with locked(path) as fd:
        found = read(path)
        number = next((number for number, each in found.lines.items() if each == token), None)
        if number is None:
            raise found.wrong(f"the line of {token} is gone")
        lines = found.text.split("\n")
        del lines[number - 1]
        replace(path, "\n".join(lines) or HEADING, os.fstat(fd))


def replace(path: Path, text: str, old: os.stat_result) -> None:
    """Put a file in the place of one, whose owner and mode it gets. Raises OSError."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, old.st_uid, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
            file.write(text.encode())
            file.flush()
            os.fsync(fd)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
