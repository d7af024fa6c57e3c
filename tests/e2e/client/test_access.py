"""Both clients and a server with users: who is let in over TLS, who is not, and what a user may not do."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beanpole import Backoff, ForbiddenError, Login, NotAuthenticatedError, UnknownCommandError
from beanpole.access import tokens
from tests import certificates
from tests.e2e.process import Process, serving
from tests.servers import HOST
from tests.unit.client.peer import Maker
from tests.unit.client.test_login import SAN, TOKEN, trusting

USERS = """
[user.shop]
certificates = ["CN=shop"]
put = ["orders"]

[user.admin]
admin = true
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def token(files: Path) -> str:
    (files / "access.toml").write_text(USERS)
    return tokens.add(files / "tokens", "admin").decode()


@pytest.fixture(scope="module")
def process(files: Path, token: str) -> Iterator[Process]:  # noqa: ARG001 - a line of the file
    pair, ca = certificates.made("named", SAN, signer="ca"), certificates.made("ca").cert
    listening = ("-l", f"tls:{HOST}:0,client-ca={ca},client-cert=optional", "-l", f"unix:{files / 'socket'}")
    secret = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    access = ("--access", str(files / "access.toml"), "--tokens", str(files / "tokens"))
    with serving(*listening, *secret, *access, "-z", "2000000", listen=False) as running:
        yield running


@pytest.fixture
def client(make: Maker, process: Process) -> Callable[..., Any]:
    """Makes clients of the server."""

    def made(login: Login, address: str = "", **options: Any) -> Any:
        where = address or f"beanstalks://localhost:{process.port}"
        return make(where, login=login, backoff=Backoff(attempts=1), patience=0, **options)

    return made


def shown(name: str, signer: str = "ca") -> Login:
    """Return the login of who shows a certificate."""
    pair = certificates.made(name, signer=signer)
    return trusting(cert=pair.cert, cert_key=pair.key)


def test_bodies_of_a_megabyte_and_hundreds_at_once(make: Maker, client: Callable[..., Any], token: str) -> None:
    admin = client(trusting(token=token), use=make.kind, watch=make.kind)
    body = "0123456789abcdef" * 65_536
    admin.put(body)
    job = admin.reserve(0)
    assert job.body == body
    admin.delete(job)
    assert len(admin.put_many(["x" * 10_000] * 300)) == 300
    assert sum(len(admin.reserve_many(26, 0)) for _ in range(12)) == 300


def test_a_token_goes_to_the_unix_socket_of_a_server_with_users(
    client: Callable[..., Any], token: str, files: Path
) -> None:
    assert "default" in client(Login(token=token), f"unix:{files / 'socket'}").tubes()
    with pytest.raises(UnknownCommandError, match="or does not know who this is"):  # as every old client hears it
        client(Login(), f"unix:{files / 'socket'}").tubes()
    with pytest.raises(NotAuthenticatedError):
        client(Login(), f"unix:{files / 'socket'}").features()


@pytest.mark.parametrize(
    "login",
    [
        trusting,
        lambda: trusting(token=TOKEN),
        lambda: shown("stranger", signer=""),
        lambda: shown("nobody"),
    ],
)
def test_who_is_not_let_in_hears_so_whatever_it_wants(client: Callable[..., Any], login: Callable[[], Login]) -> None:
    with pytest.raises(NotAuthenticatedError):
        client(login()).put("x")
    with pytest.raises(NotAuthenticatedError):
        client(login(), use="t", watch="t").put_many(["x"])


def test_what_a_user_may_not_do(client: Callable[..., Any]) -> None:
    shop = client(shown("shop"))
    shop.put("x", tube="orders")
    with pytest.raises(ForbiddenError, match="FORBIDDEN: this user lacks the right put on mail") as caught:
        shop.put("x", tube="mail")
    assert (caught.value.right, caught.value.tube) == ("put", "mail")
    shop.put("x", tube="orders")
