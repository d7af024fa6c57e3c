"""The configurations of HAProxy that the guide gives, with HAProxy itself: clients go on when the leader is killed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beanpole import Client
from beanpole.errors import BeanpoleError
from tests.e2e.cluster.conftest import Cluster, daemon
from tests.e2e.process import Process, wait_until
from tests.servers import STOP_TIMEOUT_S

pytestmark = pytest.mark.long

PATIENCE_S = 180.0
INTERVAL, PATIENT = "check inter 3s ", "check inter 30s "
"""A check may take the interval; each starts a Python, which needs more on a busy machine."""

EXAMPLES = Path(__file__).parents[3] / "examples" / "cluster"


@contextmanager
def proxy(name: str, cluster: Cluster, nodes: dict[str, Process], folder: Path) -> Iterator[str]:
    """HAProxy with one of the example's configurations; gives the address that clients connect to."""
    program = daemon("haproxy")
    front = folder / "front"
    check = folder / "beanpole-leads"
    script = (EXAMPLES / "beanpole-leads").read_text()
    lines = [
        f"url='{cluster.url}'"
        if line.startswith("url=")
        else line.replace("beanpole", f"{sys.executable} -m beanpole", 1)
        for line in script.splitlines()
        if not line.startswith("export ")
    ]
    check.write_text("\n".join(lines) + "\n")
    check.chmod(0o755)
    servers = [f"    server {node} 127.0.0.1:{process.port}" for node, process in nodes.items()]
    text = (EXAMPLES / name).read_text()
    kept = [line for line in text.splitlines() if not line.strip().startswith("server ")]
    settings = "\n".join([*kept, *servers, ""]).replace("bind :11300", f"bind unix@{front}")
    if "external-check" in settings:
        assert INTERVAL in settings
        settings = settings.replace(INTERVAL, PATIENT)
    (folder / "haproxy.cfg").write_text(settings.replace("/usr/local/bin/beanpole-leads", str(check)))
    with (folder / "messages").open("wb") as output:
        process = subprocess.Popen([program, "-db", "-f", folder / "haproxy.cfg"], stdout=output, stderr=output)
    try:
        wait_until(front.exists, "the proxy listens")
        yield f"unix:{front}"
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def put(address: str, body: str) -> bool:
    """Put a job by a connection of its own; whether it was answered."""
    try:
        with Client(address) as client:
            client.put(body)
    except (BeanpoleError, OSError):
        return False
    return True


def reserved(address: str) -> str:
    """The next job, by a connection of its own; nothing if that is lost: a check may be older than a fail-over."""
    try:
        with Client(address) as client:
            return str(client.reserve(0).body)
    except (BeanpoleError, OSError):
        return ""


@pytest.mark.parametrize("name", ["haproxy.cfg", "haproxy-leader.cfg"])
def test_clients_go_on_behind_the_proxy(name: str, cluster: Cluster, tmp_path: Path) -> None:
    cluster.init()
    with cluster.node("a") as a, cluster.node("b") as b:
        cluster.wait_alive("a", "b")
        with proxy(name, cluster, {"a": a, "b": b}, tmp_path) as address:
            wait_until(lambda: put(address, "before"), "a put is answered", PATIENCE_S)
            (a if cluster.leader() == "a" else b).signal(signal.SIGKILL)
            wait_until(lambda: put(address, "after"), "a put is answered by the other node", PATIENCE_S)
            wait_until(lambda: reserved(address) == "before", "the job put before is reserved at it", PATIENCE_S)
