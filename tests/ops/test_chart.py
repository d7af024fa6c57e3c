"""The Helm chart, linted and rendered by Helm's own library, and what it renders held against Kubernetes and our flags.

Both libraries are large and only for this: `make release-check` installs them, and so does `.ci/run`.
"""

import functools
import importlib
import json
import re
from typing import Any

import click
import pytest
import yaml

from beanpole.cli.serve import serve
from tests.ops.files import ROOT, only, stages
from tests.servers import missing_peer

pytestmark = pytest.mark.repository

CHART = ROOT / "charts/beanpole"
KUBERNETES = ("1.29", "1.37")
UID = 11300

# Names of digits are names, and no numbers.
ALONE: dict[str, Any] = {}
NODES = {"cluster": {"url": "postgresql://beanpole@pg1,pg2/beanpole?sslmode=verify-full", "secret": "12"}}
EVERYTHING = {
    "image": {"tag": "1.2.3"},
    "storage": {"className": "34"},
    "console": {"tokensSecret": "56"},
    "settings": {"BEANPOLE_BODY_BYTES_MAX": "1000000", "BEANPOLE_HTTP_HOST": "queue.example.org"},
    "resources": {"limits": {"memory": "2Gi"}},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {"enabled": True, "console": [{"namespaceSelector": {}}]},
}


def library(name: str) -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module(name)
    except ImportError:
        missing_peer(f"{name} (make .venv/.done-release)")


def rendered(values: dict[str, Any]) -> dict[str, Any]:
    """The objects that Helm makes of the chart, by their kind, with the values over the chart's own."""
    return _rendered(json.dumps(values))


@functools.cache
def _rendered(values: str) -> dict[str, Any]:
    with library("helm_python").Chart.load(CHART) as chart:
        files = chart.render(json.loads(values), name="queue", namespace="jobs")
    objects = [yaml.safe_load(text) for name, text in files.items() if name.endswith(".yaml")]
    return {each["kind"]: each for each in objects if each}


def pod(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = rendered(values)["StatefulSet"]["spec"]["template"]["spec"]
    return found


def container(values: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod(values)["containers"]
    return dict(found)


def variables(values: dict[str, Any]) -> dict[str, str]:
    """What the container has in its environment; of what comes from elsewhere, nothing."""
    return {each["name"]: each["value"] for each in container(values)["env"] if "value" in each}


def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    report = library("helm_python").lint(CHART, strict=True)
    assert report["errors"] == []
    assert [each["error"] for each in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(
    "values", [ALONE, NODES, EVERYTHING, NODES | EVERYTHING], ids=["alone", "nodes", "all", "both"]
)
def test_kubernetes_understands_what_is_rendered(values: dict[str, Any], version: str) -> None:
    validate = library("kubernetes_validate").validate
    for kind, each in rendered(values).items():
        if kind != "ServiceMonitor":  # of which nobody packs a schema
            validate(each, version, strict=True)


def test_what_is_rendered_is_what_was_asked_for() -> None:
    assert set(rendered(ALONE)) == {"StatefulSet", "Service"}
    assert set(rendered(NODES)) == {"StatefulSet", "Service", "PodDisruptionBudget"}
    assert set(rendered(EVERYTHING)) == {"StatefulSet", "Service", "ServiceMonitor", "NetworkPolicy"}
    alone, nodes = (rendered(values)["StatefulSet"]["spec"] for values in (EVERYTHING, NODES))
    assert (alone["replicas"], nodes["replicas"]) == (1, 3)
    (claim,) = alone["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "34"
    assert "volumeClaimTemplates" not in nodes
    assert container(EVERYTHING)["image"] == "beanpole:1.2.3"
    labels = rendered(EVERYTHING)["ServiceMonitor"]["metadata"]["labels"]
    assert labels["release"] == "prometheus"


@pytest.mark.parametrize("values", [ALONE, NODES | EVERYTHING], ids=["alone", "both"])
def test_the_server_takes_each_variable_as_it_is_written(values: dict[str, Any]) -> None:
    options = {option.envvar: option for option in serve.params}
    context = click.Context(serve)
    command = container(values)
    assert command["args"] == only(stages()[-1], "CMD").words[:1]
    addresses = {"$(POD_IP)": "10.0.0.1", "$(POD_NAME)": "queue-0"}
    given = [each["name"] for each in command["env"]]
    for name, value in variables(values).items():
        for reference, stands_for in addresses.items():
            if reference in value:
                assert given.index(reference[2:-1]) < given.index(name), "Kubernetes knows only what stands before"
                value = value.replace(reference, stands_for)  # noqa: PLW2901 - as Kubernetes does it
        if name.startswith("BEANPOLE_") and "TOKEN" not in name:
            option = options[name]
            for each in value.split() if option.multiple else [value]:
                option.type.convert(each, option, context)


def test_settings_win_over_what_the_chart_sets() -> None:
    assert variables(EVERYTHING)["BEANPOLE_HTTP_HOST"] == "queue.example.org"
    assert variables(EVERYTHING)["BEANPOLE_BODY_BYTES_MAX"] == "1000000"
    assert variables({"settings": {"BEANPOLE_HTTP": ""}})["BEANPOLE_HTTP"] == "", "there is no console"
    assert "queue.jobs.svc" in variables(ALONE)["BEANPOLE_HTTP_HOST"]


def test_no_variable_of_kubernetes_is_taken_for_one_of_ours() -> None:
    assert pod(ALONE)["enableServiceLinks"] is False, "a service called beanpole would set BEANPOLE_PORT"


@pytest.mark.parametrize("values", [ALONE, NODES | EVERYTHING], ids=["alone", "both"])
def test_a_pod_may_do_nothing_but_what_the_image_does(values: dict[str, Any]) -> None:
    of_pod, of_container = pod(values)["securityContext"], container(values)["securityContext"]
    assert only(stages()[-1], "USER").text == f"{UID}:{UID}"
    assert {of_pod[name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {UID}
    assert of_pod["runAsNonRoot"]
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(values)["automountServiceAccountToken"] is False


@pytest.mark.parametrize("values", [ALONE, NODES | EVERYTHING], ids=["alone", "both"])
def test_what_is_mounted_is_there_and_what_is_named_is_mounted(values: dict[str, Any]) -> None:
    claims = rendered(values)["StatefulSet"]["spec"].get("volumeClaimTemplates", [])
    volumes = {each["name"] for each in pod(values).get("volumes") or []} | {
        each["metadata"]["name"] for each in claims
    }
    mounts = {each["mountPath"]: each["name"] for each in container(values)["volumeMounts"]}
    assert set(mounts.values()) == volumes
    for name in ("BEANPOLE_DATA_DIR", "BEANPOLE_HTTP_TOKEN_FILE"):
        if name in variables(values):
            assert [path for path in mounts if variables(values)[name].startswith(path)], name


def test_probes_ask_at_ports_that_there_are_and_a_server_alone_is_always_reached() -> None:
    ports = {each["name"]: each["containerPort"] for each in container(NODES)["ports"]}
    assert ports == {"queue": UID, "http": int(variables(NODES)["BEANPOLE_HTTP"].rpartition(":")[2])}
    for probe in ("startupProbe", "livenessProbe"):
        assert container(NODES)[probe]["tcpSocket"]["port"] == "queue"
    assert container(NODES)["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "http"}
    assert "readinessProbe" not in container(ALONE), "a full disk would keep workers away"


def test_a_policy_lets_in_clients_nodes_and_who_is_named_for_the_console() -> None:
    queue, console = rendered(EVERYTHING)["NetworkPolicy"]["spec"]["ingress"]
    labels = rendered(EVERYTHING)["StatefulSet"]["spec"]["selector"]
    assert queue == {"ports": [{"port": "queue"}], "from": [{"podSelector": labels}, {"podSelector": {}}]}
    assert console == {"ports": [{"port": "http"}], "from": [{"namespaceSelector": {}}]}
    (only_queue,) = rendered({"networkPolicy": {"enabled": True, "clients": []}})["NetworkPolicy"]["spec"]["ingress"]
    assert only_queue["from"] == [{"podSelector": labels}]


def test_the_alerts_find_a_cluster_by_its_job() -> None:
    (endpoint,) = rendered(NODES | EVERYTHING)["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["port"] in {each["name"] for each in rendered(NODES)["Service"]["spec"]["ports"]}
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "beanpole-jobs-queue"}]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"clutser": {}}, "'clutser' not allowed"),
        ({"cluster": {"replicas": 1}}, "minimum"),
        ({"settings": {"BEANPOLE_PORT": 11300}}, "want string"),
        ({"settings": {"PORT": "11300"}}, "'PORT' not allowed"),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said):
        rendered(values)


def keys(values: dict[str, Any], before: str = "") -> list[str]:
    found: list[str] = []
    for name, each in values.items():
        inside = isinstance(each, dict) and each and name != "resources"
        found += keys(each, f"{before}{name}.") if inside else [before + name]
    return found


def test_its_readme_has_each_value() -> None:
    said = re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.MULTILINE)
    assert said == keys(yaml.safe_load((CHART / "values.yaml").read_text()))
