"""beaneater, for Ruby, and pheanstalk, for PHP, do what their users do with them; Debian has packages of both."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import serving
from tests.servers import HOST, REPLY_TIMEOUT_S, WAYS, Server, missing_peer, peer, users_file

CLIENTS = {"beaneater": ("ruby", "beaneater.rb"), "pheanstalk": ("php", "pheanstalk.php")}
WITHOUT_CLIENT = 3
"""The exit code of a script whose client is not installed."""

each_client = pytest.mark.parametrize("client", CLIENTS)


def run(client: str, *arguments: object) -> list[str]:
    """The flows that a client has done, all of those that it was to do."""
    program, script = CLIENTS[client]
    command = [peer(program), str(Path(__file__).with_name(script)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=REPLY_TIMEOUT_S, check=False)
    if done.returncode == WITHOUT_CLIENT:
        missing_peer(client)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()[1::2]


@pytest.fixture(scope="module", params=["default", "stunnel", "HAProxy", "router over TLS"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One server for both, as it is, and encrypted in each way that a client can take that knows nothing of that."""
    with WAYS[request.param]() as running:
        yield running


@each_client
def test_usual_flows(server: Server, client: str) -> None:
    assert run(client, server.port)[:2] == ["life", "bodies"]


def test_usual_flows_over_a_unix_socket_of_a_user(tmp_path: Path) -> None:
    path = f"unix:{tmp_path / 'socket'}"
    with serving("-l", f"{path},user=shop", "--access", str(users_file(tmp_path)), listen=False):
        assert run("pheanstalk", path.replace(":", "://"))


@each_client
@pytest.mark.parametrize(("case", "more"), [("refused", ""), ("nobody", "connections = 1")])
def test_what_is_refused_is_an_error_of_the_client(tmp_path: Path, client: str, case: str, more: str) -> None:
    """A word that it does not know is success to beaneater, and where it is only closed, it connects again for ever."""
    access = tmp_path / "access.toml"
    access.write_text(f'[user.shop]\nput = ["orders"]\n{more}\n')
    access.chmod(0o644)
    with (
        serving("-l", f"{HOST}:0,user=shop", "--access", str(access), listen=False) as process,
        process.connect(),
    ):
        assert run(client, process.port, case) == [case]
