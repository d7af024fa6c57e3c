"""The file of tokens: who may change things, a line each.

A line is ``NAME TOKEN``, or a token alone, whose name is then ``token-N``, the N-th of the file. Empty lines and those
that begin with ``#`` are left out. One name may have several tokens: a new one can be given out before the old one
goes. No message says anything of what stands in the file but the number of a line.

Only its user, and perhaps a group, may read and write it: others would have the tokens, or give themselves one.
"""

import hashlib
import hmac
import os
import re
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path

from beanpole.access.access import UserConfig
from beanpole.files import stamp

TOKEN_CHARS_MIN = 16  # characters of a token: shorter ones could be guessed
TOKEN_CHARS_MAX = 256  # characters of a token
TOKEN_FILE_BYTES_MAX = 65_536  # bytes of the file of tokens

NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
SECRET = re.compile(rf"[!-~]{{{TOKEN_CHARS_MIN},{TOKEN_CHARS_MAX}}}")


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and whose it is."""

    name: str
    secret: bytes = field(repr=False)
    user: UserConfig | None = None
    """What the user may do whose token it is; None: it stands in a file of the console's own, and may do everything."""

    def signature(self, purpose: bytes, text: bytes) -> str:
        """What only this token can have made of a text."""
        return hmac.digest(self.secret, purpose + b"\0" + text, hashlib.sha256).hex()


def parse(text: str) -> tuple[Token, ...]:
    """The tokens of a file. Raises ValueError: a line is none, or there is none."""
    if len(text) > TOKEN_FILE_BYTES_MAX:
        raise ValueError(f"it has more than {TOKEN_FILE_BYTES_MAX} bytes")
    tokens: list[Token] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name, secret = (f"token-{len(tokens) + 1}", words[0]) if len(words) == 1 else words[:2]
        if len(words) > 2 or not NAME.fullmatch(name):
            raise ValueError(f"line {number} is not NAME TOKEN; a name has letters, digits and ._@- only, 64 at most")
        if not SECRET.fullmatch(secret):
            raise ValueError(
                f"the token in line {number} must have {TOKEN_CHARS_MIN} to {TOKEN_CHARS_MAX}"
                " printable ASCII characters"
            )
        if any(hmac.compare_digest(each.secret, secret.encode()) for each in tokens):
            raise ValueError(f"the token in line {number} is there twice")
        tokens.append(Token(name, secret.encode()))
    if not tokens:
        raise ValueError("there is no token in it")
    return tuple(tokens)


def read(path: Path) -> tuple[Token, ...]:
    """The tokens of a file. Raises ValueError, which says in a sentence what is wrong with it."""
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(TOKEN_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ValueError(
            f"others may read or write {path}, so its tokens are no secret: chmod o-rw {shlex.quote(str(path))}"
        )
    try:
        return parse(data.decode())
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no file of tokens: it is not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{path} is no file of tokens: {error}") from None


class TokenFile:
    """A file of tokens that is read again when it has changed. One that has become bad has none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, ...] | None = None
        self._tokens: tuple[Token, ...] = ()
        self.fault = ""  # what is wrong with the file as it is now; empty: nothing

    def tokens(self) -> tuple[Token, ...]:
        """The tokens, as the file is now."""
        now = stamp(self._path)
        if now != self._stamp:
            self._stamp = now
            try:
                self._tokens, self.fault = read(self._path), ""
            except ValueError as error:
                self._tokens, self.fault = (), str(error)
        return self._tokens


def absolute(path: str) -> Path:
    """A path that holds in whichever folder a process runs."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - links are left as they are: a new version may replace one
