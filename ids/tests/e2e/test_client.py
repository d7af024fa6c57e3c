"""The Python client against real nodes: lost datagrams, a node that dies, processes that fork."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beanpole_ids.client import AsyncIdClient, IdClient
from beanpole_ids.errors import IdServiceError, NoNodeError
from tests.e2e.process import Ids, running, write_rules
from tests.processes import REPLY_TIMEOUT_S


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Ids]:
    """A service."""
    with running(tmp_path, write_rules(tmp_path)) as started:
        yield started


PATIENCE: dict[str, Any] = {"timeout": REPLY_TIMEOUT_S, "rounds": 1}
"""For clients that need not show what they do about silence: by themselves they give up after a second and a half."""


def url(*services: Ids) -> str:
    """The URL of nodes."""
    return "ids://" + ",".join("{}:{}".format(*each.socket.getpeername()[:2]) for each in services)


def test_blocking(service: Ids) -> None:
    with IdClient.from_url(url(service), **PATIENCE) as client:
        assert client.get("order", "a")[7:] == "000000"
        assert [each[7:] for each in client.get_many("order", "a", 2)] == ["000001", "000002"]
        assert len(set(client.get_many("order", "a", 2500))) == 2500
        assert client.monitor("order", "a")["counter"] == 2502
        numbers = client.range("order", "a", 100)
        given = [next(numbers)[7:] for _ in range(1000)]
        assert given == [f"{each:06}" for each in range(2503, 3503)]
        with pytest.raises(IdServiceError, match="unknown rule") as caught:
            client.get("none", "a")
        assert caught.value.code == -1
        client.get_many("small", "a", 21)
        with pytest.raises(IdServiceError, match="starts again: never") as caught:
            client.get("small", "a")
        assert (caught.value.code, caught.value.resets_at) == (-2, None)


def test_asyncio(service: Ids) -> None:
    async def main() -> None:
        async with AsyncIdClient.from_url(url(service), **PATIENCE) as client:
            given = await asyncio.gather(*(client.get("order", "a") for _ in range(300)))
            given += await client.get_many("order", "a", 1500)
            numbers = client.range("order", "a", 100)
            given += [await numbers.next_id() for _ in range(500)]
            assert len(set(given)) == 2300
            assert (await client.monitor("order", "a"))["counter"] >= 2299
            with pytest.raises(IdServiceError):
                await client.get("none", "a")

    asyncio.run(main())


def test_ipv6(tmp_path: Path) -> None:
    config = write_rules(tmp_path)
    config.write_text(config.read_text().replace("127.0.0.1:0", "[::1]:0"))
    with running(tmp_path, config):
        port = (tmp_path / "ready").read_text().split()[0].rpartition(":")[2]
        with IdClient.from_url(f"ids://[::1]:{port}", **PATIENCE) as client:
            assert client.get("order", "a")[7:] == "000000"

        async def main() -> str:
            async with AsyncIdClient(("::1", int(port)), **PATIENCE) as client:
                return await client.get("order", "a")

        assert asyncio.run(main())[7:] == "000001"


@contextmanager
def two_nodes(folder: Path) -> Iterator[list[Ids]]:
    """Two nodes that share a database."""
    folders = [folder / "0", folder / "1"]
    for offset, each in enumerate(folders):
        each.mkdir()
        config = write_rules(each, more=f"step = 2\noffset = {offset}")
        config.write_text(config.read_text().replace(f"{each}/ids.db", f"{folder}/ids.db"))
    with running(folders[0], folders[0] / "rules.toml") as one, running(folders[1], folders[1] / "rules.toml") as two:
        yield [one, two]


def test_one_node_dies_and_clients_go_on(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as nodes:
        clients = [IdClient.from_url(url(*nodes), **PATIENCE, chance=chance) for chance in (lambda: 0.0, lambda: 0.9)]
        ranges = [each.range("order", "a", 20) for each in clients]
        given = [client.get("order", "a") for client in clients]
        assert {int(each[7:]) % 2 for each in given} == {0, 1}, "they begin with different nodes"
        for turn in range(60):
            if turn == 20:
                nodes[0].popen.kill()
                nodes[0].popen.wait()
            given += [client.get("order", "a") for client in clients]
            given += [numbers.next_id() for numbers in ranges]
        assert len(set(given)) == len(given) == 242
        assert {int(each[7:]) % 2 for each in given[-4:-2]} == {1}
        nodes[1].popen.kill()
        nodes[1].popen.wait()
        with pytest.raises(NoNodeError):
            clients[0].get("order", "a")
        for each in clients:
            each.close()


FORKING = """
import os, sys
from pathlib import Path
from beanpole_ids.client import IdClient

client = IdClient.from_url(sys.argv[1], timeout=60)
numbers = client.range("order", "a", 100)
print(numbers.next_id(), client.get("order", "a"), flush=True)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        given = [numbers.next_id() for _ in range(40)] + [client.get("order", "a") for _ in range(40)]
        Path(sys.argv[2], str(os.getpid())).write_text(" ".join(given))
        os._exit(0)
    children.append(child)
print(*[numbers.next_id() for _ in range(40)], flush=True)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
client.close()
"""


def test_forked_processes_share_no_number(service: Ids, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING, url(service), str(folder)],
        capture_output=True,
        text=True,
        timeout=2 * REPLY_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    given = done.stdout.split() + [number for each in folder.iterdir() for number in each.read_text().split()]
    assert len(set(given)) == len(given) == 2 + 4 * 80 + 40


def test_client_needs_none_of_the_services_packages() -> None:
    code = (
        "import sys, beanpole_ids.client\n"
        "others = {'sqlalchemy', 'lupa', 'httptools', 'prometheus_client', 'uvloop', 'beanpole_ids.service'}\n"
        "assert not others & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
