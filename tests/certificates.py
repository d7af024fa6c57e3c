"""Certificates for tests, made by the `openssl` program when they are first asked for."""

import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests import servers

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files of PEM."""

    cert: Path
    key: Path


def openssl(*arguments: str) -> str:
    """Run it, and return what it prints."""
    command = [servers.peer("openssl"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


@functools.cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where they are, until this process ends."""
    return tempfile.TemporaryDirectory(prefix="beanpole-certificates-")


@functools.cache
def made(
    name: str,
    *extensions: str,
    signer: str = "",
    subject: str = "",
    days: int = 30,
    kind: tuple[str, ...] = CURVE,
) -> Pair:
    """Return a certificate, signed by another or by itself; `extensions` are lines as in openssl.cnf."""
    place = tempfile.mkdtemp(dir=folder().name)  # two of one name are different certificates
    pair = Pair(Path(place, f"{name}.pem"), Path(place, f"{name}.key"))
    by = made(signer) if signer else None
    openssl(
        *("req", "-x509", "-nodes", *kind, "-days", str(days), "-subj", subject or f"/CN={name}"),
        *("-keyout", str(pair.key), "-out", str(pair.cert)),
        *(("-CA", str(by.cert), "-CAkey", str(by.key)) if by else ()),
        *(argument for each in extensions for argument in ("-addext", each)),
    )
    return pair
