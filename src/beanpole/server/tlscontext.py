"""How a server speaks TLS: which versions and suites, with which certificate, and by whom clients' must be signed.

OpenSSL is the system's, by :mod:`ssl`. What it does not say of a certificate, when it ends and which key it has, is
read from its DER (RFC 5280, 4.1).
"""

import calendar
import contextlib
import hashlib
import re
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beanpole.files import SECRET, fault_of_mode
from beanpole.protocol.limits import ALPN

SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Those of TLS 1.2; those of 1.3 are all of this kind."""

TIME = re.compile(rb"(\d\d)?(\d\d)(\d{10})Z")
SEQUENCE, UTC_TIME, GENERALIZED_TIME = 0x30, 0x17, 0x18
VERSION = 0xA0  # the tag of a field that a certificate of version 1 lacks


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a verified certificate says of its owner."""

    names: frozenset[str]
    """``CN=…``, ``DNS:…``, ``URI:…``, and ``sha256:…`` of its public key (of its SubjectPublicKeyInfo, in DER)."""

    ends_at: int
    """Its last second, since 1970."""


class ServerContext:
    """TLS at one listener."""

    def __init__(self, cert: str, key: str, client_ca: str | None = None, required: bool = True) -> None:
        """Read the files. Raises ValueError: one is wrong, in a sentence that names it."""
        self.cert = cert
        self.key = key
        self.client_ca = client_ca
        self.required = required
        self.reread()

    @property
    def files(self) -> list[Path]:
        """What it is read from."""
        return [Path(each) for each in (self.cert, self.key, self.client_ca) if each is not None]

    def reread(self) -> None:
        """Read the files again, for connections from here on. Raises ValueError: one is wrong, and nothing changes."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(SUITES)
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.num_tickets = 0
        context.set_alpn_protocols([ALPN])
        check_secret(self.key)
        try:
            context.load_cert_chain(self.cert, self.key, password=refuse_password)
        except OSError as error:
            raise ValueError(f"cannot use {self.cert} with the key {self.key}: {reason_of(error)}") from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except OSError as error:
                raise ValueError(f"cannot use {self.client_ca} for client-ca=: {reason_of(error)}") from None
            context.verify_mode = ssl.CERT_REQUIRED if self.required else ssl.CERT_OPTIONAL
        ends_at = Der(ssl.PEM_cert_to_DER_cert(first_certificate(self.cert))).ends_at
        if ends_at < time.time():
            raise ValueError(f"the certificate {self.cert} ended on {time.strftime('%Y-%m-%d', time.gmtime(ends_at))}")
        self.context = context
        self.ends_at = ends_at


class Der:
    """What is read of a certificate in DER."""

    def __init__(self, der: bytes) -> None:
        (_, signed), *_ = fields(next(fields(der))[1])
        parts = list(fields(signed))
        serial_at = 1 if parts[0][0] == VERSION else 0
        _, _, _, validity, _, (_, spki) = parts[serial_at : serial_at + 6]
        self.spki_digest = hashlib.sha256(header_of(len(spki)) + spki).hexdigest()
        _, (_, end) = fields(validity[1])
        self.ends_at = seconds_of(end)


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the tags and contents of what stands in DER one behind the other (X.690, 8.1)."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        yield tag, data[at : at + size]
        at += size


def header_of(size: int) -> bytes:
    """Return what stands in front of a sequence of so many bytes."""
    if size < 0x80:
        return bytes([SEQUENCE, size])
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([SEQUENCE, 0x80 | len(length)]) + length


def seconds_of(text: bytes) -> int:
    """Return a time of a certificate in seconds since 1970; one with two digits of a year is of 1950 to 2049."""
    found = TIME.fullmatch(text)
    assert found is not None, "OpenSSL has read the certificate"
    year = int((found[1] or (b"19" if found[2] >= b"50" else b"20")) + found[2])
    return calendar.timegm(time.strptime(f"{year:04}{found[3].decode()}", "%Y%m%d%H%M%S"))


def certificate_of(tls: ssl.SSLObject) -> Certificate | None:
    """Return the verified certificate of the other end; None: it showed none."""
    der = tls.getpeercert(binary_form=True)
    if not der:
        return None
    found = Der(der)
    said: dict[str, Any] = {}
    with contextlib.suppress(UnicodeDecodeError):  # where a name is no text, none counts
        said = tls.getpeercert() or {}
    names = {f"sha256:{found.spki_digest}"}
    names |= {f"CN={value}" for part in said.get("subject", ()) for name, value in part if name == "commonName"}
    names |= {f"{kind}:{value}" for kind, value in said.get("subjectAltName", ()) if kind in {"DNS", "URI"}}
    return Certificate(frozenset(names), found.ends_at)


def first_certificate(path: str) -> str:
    """Return the first certificate of a file, which has one: that of its owner."""
    text = Path(path).read_text(encoding="ascii", errors="replace")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    at = text.index(begin)
    return text[at : text.index(end, at) + len(end)]


def check_secret(path: str) -> None:
    """Raise ValueError: others may read a private key, or nobody can."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise ValueError(f"cannot read the key {path}: {error.strerror}") from None
    fault = fault_of_mode(path, mode, SECRET)
    if fault:
        raise ValueError(f"{path}: {fault}")


def refuse_password() -> str:
    """Say that a key that needs a password can't be used: nobody is there to type it."""
    raise OSError("it is encrypted; take the password off with: openssl pkey -in OLD -out NEW")


def reason_of(error: OSError) -> str:
    """Return what is wrong with a file, in words."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key is not that of the certificate"
        return f"it is not PEM of a certificate and its key, or not what OpenSSL accepts ({error.reason or error})"
    return error.strerror or str(error)
