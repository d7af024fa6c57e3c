"""Debian's Prometheus reads a loaded server: every expression of the board and of the alerts gives what the load did.

One Prometheus sees it all: a server with a log, plain beanstalkd, a router whose server is away, and two nodes of a
cluster, whose page is written here by what writes them everywhere. The alerts are those of `ops/`, but none waits
before it fires.
"""

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beanpole import Stats
from beanpole.console.metrics import exposition
from beanpole.console.metrics.metered import Metered
from tests.e2e.console.process import console, url_of
from tests.e2e.process import serving, wait_until
from tests.e2e.test_route import ROUTE
from tests.ops.checks import ALERTS, BOARD, CLUSTER, EPOCH, INBOX_AGE_S, LAGS, PLAIN, Run, threshold
from tests.ops.files import OPS, ROOT, alerts, panels
from tests.ops.load import ENDS, IDLE, LATE, MAIL, ORPHANS, PUT, SERVER, TUBES, Load
from tests.ops.prometheus import Peer, Prometheus, listening_peer, prometheus
from tests.servers import HOST, Server, beanstalkd_server, free_port

pytestmark = pytest.mark.xdist_group("prometheus")

WAIT_S = 60.0
"""How long Prometheus may take to see something."""


def cluster_page() -> str:
    """What the consoles of a cluster's nodes show."""
    roles = zip(CLUSTER, ("leader", "follower"), strict=True)
    nodes = [
        exposition.Scraped(name, f"{name}:11300", Metered(Stats.parse(facts(name, role)), leads=role == "leader"))
        for name, role in roles
    ]
    return "".join(exposition.lines_of(nodes, openmetrics=False))


def facts(name: str, role: str) -> bytes:
    lines = {"version": '"1.13"', "cluster-role": role, "cluster-epoch": EPOCH, "cluster-lag": LAGS[name]}
    lines["inbox-age"] = INBOX_AGE_S
    return b"---\n" + "".join(f"{key}: {value}\n" for key, value in lines.items()).encode()


def configuration(folder: Path, console_port: int, peer_port: int, router_port: int) -> dict[str, object]:
    """Prometheus's: the alerts of `ops/`, and its jobs."""
    rules = re.sub(r"^( +for:) .*$", r"\1 0s", (OPS / "prometheus/alerts.yml").read_text(), flags=re.MULTILINE)
    (folder / "alerts.yml").write_text(rules)
    often = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    ports = {"beanpole": console_port, "beanpole-cluster": peer_port, "beanpole-routers": router_port}
    return {
        "global": often,
        "rule_files": ["alerts.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"{HOST}:{peer_port}"]}]}]},
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": [f"{HOST}:{port}"]}]} for name, port in ports.items()
        ],
    }


@dataclass
class World:
    """Everything that runs, and what was measured when the load was over."""

    prometheus: Prometheus
    peer: Peer
    beanstalkd: ExitStack
    """Ends beanstalkd when it is closed."""
    run: Run


def put_in_total(found: Prometheus, at_s: float | None = None) -> dict[str, float]:
    """How many jobs were put into each tube, as Prometheus has seen it."""
    values = found.values(f'beanpole_jobs_put_total{{server="{SERVER}"}}', at_s)
    return {labels["tube"]: value for labels, value in values}


def ended(found: Prometheus, at_s: float) -> dict[tuple[str, str], float]:
    values = found.values(f'beanpole_job_ends_total{{server="{SERVER}"}} > 0', at_s)
    return {(labels["tube"], labels["outcome"]): value for labels, value in values}


LAST = f'beanpole_tube_waiting{{server="{SERVER}",tube="{IDLE}"}} == 1'
"""What the load does last, some milliseconds behind the last end of a job."""

OFTEN = f'count_over_time(beanpole_job_ends_total{{server="{SERVER}",tube="{MAIL}",outcome="deleted"}}[5m]) > 12'
"""More samples than what is extrapolated needs."""

WARM = {(MAIL, "deleted"): 1, (LATE, "deleted"): 1}
"""The ends of jobs before the load."""


def moment_after_the_load(found: Prometheus) -> float:
    """A moment at which Prometheus has seen everything, and nothing was away.

    So often that what it extrapolates is within `NEARLY`: by 1.1 times the time between two samples at each end.
    """
    expected = {key: count + WARM.get(key, 0) for key, count in ENDS.items()}
    moments: list[float] = []

    def is_whole() -> object:
        moments.append(time.time())
        away = found.values("up == 0 or beanpole_up == 0", moments[-1])
        up = found.values("beanpole_up", moments[-1])
        ends = ended(found, moments[-1]) == expected and found.values(LAST, moments[-1])
        return not away and len(up) == 4 and ends and found.values(OFTEN, moments[-1])

    wait_until(is_whole, "the load is seen", WAIT_S)
    return moments[-1]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """The servers, the load, and Prometheus beside it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        process = stack.enter_context(serving("-b", str(folder / "data")))
        beanstalkd = stack.enter_context(ExitStack())
        plain = beanstalkd.enter_context(beanstalkd_server())
        server = Server("beanpole", process.pid, process.port)
        looking = stack.enter_context(console("--url", url_of(server, SERVER), "--url", url_of(plain, PLAIN)))
        peer = stack.enter_context(listening_peer({"/metrics": cluster_page()}))
        router_port = free_port()
        router = ("--to", f"{HOST}:{free_port()}", "--metrics", f"{HOST}:{router_port}")
        stack.enter_context(serving(*router, command=ROUTE))
        load = Load(process)
        stack.callback(load.close)
        load.begin()
        begun = time.monotonic()
        found = stack.enter_context(prometheus(configuration(folder, looking.port, peer.port, router_port), folder))
        wait_until(lambda: put_in_total(found).keys() >= set(TUBES), "the tubes are seen", WAIT_S)
        wait_until(lambda: found.values("beanpole_job_late_seconds_count > 0"), "histograms are seen", WAIT_S)
        load.run()
        run = Run(
            at_s=moment_after_the_load(found),
            window_s=int(time.monotonic() - begun) + 2,
            orphans_s=time.monotonic() - load.orphans_since,
            spans=load.spans,
            stats=load.producer.stats(),
        )
        yield World(found, peer, beanstalkd, run)


def test_prometheus_reads_every_line(world: World) -> None:
    def errors() -> set[tuple[str, str]]:
        return {(target["health"], target["lastError"]) for target in world.prometheus.targets()}

    wait_until(lambda: errors() == {("up", "")}, "no line is refused", WAIT_S)
    put = put_in_total(world.prometheus, world.run.at_s)
    assert {tube: put[tube] for tube in PUT} == {**PUT, MAIL: PUT[MAIL] + 1, LATE: PUT[LATE] + 1}


def test_plain_beanstalkd_is_seen_as_far_as_it_says(world: World) -> None:
    def values(selector: str) -> list[float]:
        return [value for _, value in world.prometheus.values(selector, world.run.at_s)]

    assert values(f'beanpole_up{{server="{PLAIN}"}}') == [1]
    assert values(f'beanpole_jobs{{server="{PLAIN}", tube="default", state="ready"}}') == [0]
    assert values(f'beanpole_job_ready_seconds_count{{server="{PLAIN}"}}') == []


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_panels_show_what_the_load_did(world: World, panel: dict[str, Any]) -> None:
    checks, targets = BOARD[panel["title"]], panel["targets"]
    for check, target in zip(checks, targets, strict=True):
        expression = target["expr"].replace("$server", "main|node-.*").replace("$tube", ".*")
        expression = expression.replace("$__rate_interval", f"{world.run.window_s}s")
        assert "$" not in expression
        check(world.run, world.prometheus.values(expression, world.run.at_s))


@pytest.mark.parametrize("name", alerts())
def test_alerts_look_at_what_the_load_did(world: World, name: str) -> None:
    new, check = ALERTS[name]
    expression = alerts()[name]["expr"]
    if new:
        expression = threshold(expression, new)
    check(world.run, world.prometheus.values(expression, world.run.at_s))


def test_answers_of_the_documentation_are_answers(world: World) -> None:
    page = (ROOT / "docs/monitoring.md").read_text()
    lines = [
        line
        for block in re.findall(r"^```promql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    found = {line: world.prometheus.values(line, world.run.at_s) for line in lines}
    silent = [line for line, values in found.items() if not values and "deriv" not in line]
    assert silent == [], "only what shrinks has an end"


def test_alerts_fire_from_end_to_end(world: World) -> None:
    """An Alertmanager hears of the orphans and of beanstalkd, which goes, and of nothing that is well."""
    rules = {rule["name"]: rule for rule in world.prometheus.rules()}
    assert {name: (rule["health"], rule.get("lastError")) for name, rule in rules.items()} == dict.fromkeys(
        alerts(), ("ok", None)
    )
    wait_until(lambda: world.peer.fired("BeanpoleNoWorkers"), "the orphans are complained of", WAIT_S)
    alert = world.peer.fired("BeanpoleNoWorkers")[0]
    assert alert["labels"]["tube"] == ORPHANS
    assert alert["annotations"]["summary"] == (
        f"{PUT[ORPHANS]} jobs are ready in tube {ORPHANS} of {SERVER}, and no connection watches it"
    )
    assert not world.peer.fired("BeanpoleDown")
    world.beanstalkd.close()
    wait_until(lambda: world.peer.fired("BeanpoleDown"), "beanstalkd is missed", WAIT_S)
    assert {each["labels"]["server"] for each in world.peer.fired("BeanpoleDown")} == {PLAIN}
    for quiet in ("BeanpoleLogFull", "BeanpoleClusterWithoutLeader", "BeanpoleJobTooOld"):
        assert not world.peer.fired(quiet)


def test_the_tables_of_expectations_are_whole() -> None:
    assert {panel["title"] for panel in panels()} == set(BOARD)
    assert set(alerts()) == set(ALERTS)
