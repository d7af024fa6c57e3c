"""How a client shows who it is, and whom it believes: files of certificates, and a token. No I/O, but for these files.

They are read for each connection, so that a new certificate or token counts from the next one on. A token is sent where
nobody else can read it: over TLS to a server whose name was verified, or to a Unix socket. It is never in an argument
of a program or in a URL.
"""

import functools
import os
import ssl
import stat
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

from beanpole.address import Address, certificate_refusal_of, tls_reason_of
from beanpole.errors import ArgumentError, CommandError, ConnectionLostError, NotAuthenticatedError
from beanpole.protocol.limits import ALPN

TOKEN_BYTES_MAX = 200  # of a token: a server reads no longer first line

StrPath = str | Path


@dataclass(frozen=True, slots=True)
class Login:
    """Files for ``beanstalks://``, and the token for that or a Unix socket. Raises ArgumentError for what can't be."""

    ca: StrPath | None = None
    """The certificates of the CAs that are trusted, in PEM; None: those of the system."""
    cert: StrPath | None = None
    """The client's certificate and those above it, in PEM; None: it has none."""
    cert_key: StrPath | None = None
    """The certificate's private key, in PEM; None: it stands in the same file."""
    token_file: StrPath | None = None
    """A file that others may not read, of one line: the token."""
    token: str | None = field(default=None, repr=False)
    """The token itself, of a program that has it from elsewhere."""

    def __post_init__(self) -> None:
        """Raises ArgumentError."""
        if self.cert_key is not None and self.cert is None:
            raise ArgumentError("a key belongs to a certificate: give that as well")
        if self.token is not None and self.token_file is not None:
            raise ArgumentError("a client has one token: give it, or its file")
        if self.token is not None:
            token_bytes(self.token, "the token")
        if os.fspath(self.token_file or "").startswith("bp_"):
            raise ArgumentError("a token file is the name of a file, not the token")

    @classmethod
    def default(cls) -> Self:
        """What the variables BEANPOLE_CA, BEANPOLE_CERT, BEANPOLE_CERT_KEY and BEANPOLE_TOKEN_FILE say."""
        return cls(**{name: os.environ.get(variable) or None for name, variable in VARIABLES.items()})

    def check(self, address: Address) -> Self:
        """Return this, if all of it can be used there. Raises ArgumentError."""
        if not address.tls and (self.ca or self.cert):
            raise ArgumentError(f"certificates are for beanstalks://HOST, not for {address}")
        if not (address.tls or all(each.path for each in address.each())) and (self.token or self.token_file):
            raise ArgumentError(f"a token is sent to beanstalks://HOST or a Unix socket only, not to {address}")
        return self

    def auth(self) -> bytes:
        """Return the line with the token; empty: there is none. Raises ArgumentError: its file can't be used."""
        token = self.token
        if self.token_file is not None:
            where = f"the token file {os.fspath(self.token_file)}"
            try:
                with Path(self.token_file).open(encoding="utf-8", errors="replace") as file:
                    if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & stat.S_IRWXO:
                        raise ArgumentError(f"{where} may be read by others: chmod o= takes that from them")
                    token = file.read(2 * TOKEN_BYTES_MAX).strip()
            except OSError as error:
                raise ArgumentError(f"{where}: {error.strerror}") from None
            token_bytes(token, where)
        return b"" if token is None else b"auth %b\r\n" % token.encode()

    def context(self) -> ssl.SSLContext:
        """Return what TLS is set to. Raises ArgumentError: a file is not as it should be."""
        return context_of(
            self.ca, self.cert, self.cert_key, tuple(map(changed_at, (self.ca, self.cert, self.cert_key)))
        )


VARIABLES = {each.name: f"BEANPOLE_{each.name.upper()}" for each in fields(Login) if each.name != "token"}
"""The variable of each part of a login that may have one."""


def token_bytes(token: object, what: str) -> None:
    """Check a token. Raises ArgumentError, which does not show it."""
    if not (isinstance(token, str) and token.isascii() and token.isprintable() and 0 < len(token) <= TOKEN_BYTES_MAX):
        raise ArgumentError(f"{what} has to be one line of printable ASCII, up to {TOKEN_BYTES_MAX} bytes")
    if " " in token:
        raise ArgumentError(f"{what} has to be the token alone, without a name or a digest")


def changed_at(file: StrPath | None) -> int:
    """Return when a file was changed, in nanoseconds since 1970; 0: there is none to be read. Raises ArgumentError."""
    try:
        return 0 if file is None else Path(file).stat().st_mtime_ns
    except OSError as error:
        raise ArgumentError(f"{os.fspath(file or '')}: {error.strerror}") from None


@functools.lru_cache(maxsize=16)
def context_of(
    ca: StrPath | None, cert: StrPath | None, key: StrPath | None, _changed_at: tuple[int, ...]
) -> ssl.SSLContext:
    """Return a context for some files, as they were at those times. Raises ArgumentError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which verifies certificates and names
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols([ALPN])
    try:
        if ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(ca)
    except OSError as error:
        raise ArgumentError(f"{os.fspath(ca or '')} is no file of certificates: {said(error)}") from None
    try:
        if cert is not None:
            context.load_cert_chain(cert, key, password="")  # an encrypted key would have it ask at a terminal
    except OSError as error:
        if key is None and isinstance(error, ssl.SSLError):
            sentence = "is no certificate with its key: name the file of the key (--cert-key, BEANPOLE_CERT_KEY)"
            raise ArgumentError(f"{os.fspath(cert or '')} {sentence}") from None
        files = " and ".join(os.fspath(each) for each in (cert, key) if each is not None)
        raise ArgumentError(f"{files} are no certificate with its key: {said(error)}") from None
    return context


def said(error: OSError) -> str:
    return tls_reason_of(error).removeprefix("TLS: ") if isinstance(error, ssl.SSLError) else str(error.strerror)


def lost_by(reason: BaseException | str) -> CommandError:
    """Return the error of a connection that has broken, or that is refused because of the client's certificate."""
    if refused := certificate_refusal_of(reason):
        return NotAuthenticatedError(refused)
    return ConnectionLostError(f"the connection broke: {reason}")
