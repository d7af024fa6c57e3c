"""A map of which one shard is a cluster: what `shards status` says of it, also when another node leads."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from beanpole.client import Client
from tests.e2e.cli.conftest import run
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import serving, wait_until
from tests.e2e.test_route_map import ROUTE
from tests.servers import HOST

SHARDS = """[shard]
a = {{ number = 3, nodes = "{host}:{first},{host}:{second}" }}
b = {{ number = 4, nodes = "{host}:{alone}" }}
"""


def test_the_shards_of_a_map_are_a_cluster_and_a_server(cluster: Cluster, tmp_path: Path) -> None:
    cluster.init(1000, "--shard", "3")
    file = tmp_path / "2.toml"
    with ExitStack() as stack:
        first, second = (stack.enter_context(cluster.node(name)) for name in "ab")
        cluster.wait_alive("a", "b")
        alone = stack.enter_context(serving("--shard", "4"))
        shards = SHARDS.format(host=HOST, first=first.port, second=second.port, alone=alone.port)
        (tmp_path / "1.toml").write_text(f"epoch = 1\n{shards}[tubes]\n'*' = 'a'\n")
        file.write_text(f"epoch = 2\nbefore = ['1.toml']\n{shards}[tubes]\n'*' = 'b'\n")
        with Client((HOST, first.port), None) as client:
            client.put(b"x", tube="report")
        router = stack.enter_context(serving("--map", str(file), command=ROUTE))
        client = stack.enter_context(Client((HOST, router.port), None, watch="report"))

        def status() -> dict[str, Any]:
            found: dict[str, Any] = run("shards", "status", file, "--json").objects[0]
            return found

        def rows() -> list[tuple[object, ...]]:
            return [
                tuple(each[key] for key in ("number", "server", "jobs", "map", "state")) for each in status()["shards"]
            ]

        host = status()["shards"][1]["server"]
        leads = f"{host}, leads in epoch {{}}".format
        wait_until(lambda: rows() == [(3, leads(1), 1, 2, "ok"), (4, host, 0, 2, "ok")], "both have a link")
        assert (status()["warnings"], status()["advice"]) == ([], [f"{tmp_path}/1.toml stays in before: report on a"])
        client.put(b"y", tube="report")
        cluster("step-down", "--to", "b")
        wait_until(lambda: rows() == [(3, leads(2), 1, 2, "ok"), (4, host, 1, 2, "ok")], "the router follows")
        for _ in range(2):
            client.delete(client.reserve(timeout=10))
        assert status()["advice"] == [f"{tmp_path}/1.toml may leave before: nothing lies by it alone"]
        with Client((HOST, second.port), None) as past:
            past.put(b"z", tube="stray")
        file.write_text(file.read_text().replace("before = ['1.toml']\n", ""))
        assert status()["warnings"] == ["nobody looks for the jobs of stray on a"]
