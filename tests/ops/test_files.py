"""The files of `ops/` as far as they can be checked without a server: promtool, and what Grafana needs of a board."""

import re
import subprocess
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.ops.files import OPS, ROOT, alerts, board, panels, read_yaml
from tests.servers import peer

pytestmark = pytest.mark.repository

VARIABLES = {"datasource", "server", "tube"}


def promtool(*words: str) -> None:
    """Runs promtool, which must not complain."""
    command = [peer("promtool"), *words]
    done = subprocess.run(command, cwd=OPS / "prometheus", capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_examples() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "config", "compose.yml")
    promtool("check", "rules", "alerts.yml")


def test_alerts_fire_where_they_should_and_only_there() -> None:
    promtool("test", "rules", "alerts_test.yml")
    cases = [
        (re.findall(r'alertname="(\w+)"', case["expr"]), case["exp_samples"], len(test["input_series"]))
        for test in read_yaml(OPS / "prometheus/alerts_test.yml")["tests"]
        for case in test["promql_expr_test"]
    ]
    fired = {name for names, samples, _ in cases for name in names if samples}
    assert fired == set(alerts())
    assert all(series > len(samples) for _, samples, series in cases), "a series that fires no alert is needed, too"


def test_an_alert_says_what_is_wrong_and_what_to_do() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert set(rule["annotations"]) == {"summary", "action"}, name
        assert "$labels." in rule["annotations"]["summary"], f"{name} does not say where"


def test_the_groups_of_alerts_are_of_jobs_that_are_scraped() -> None:
    jobs = [each["job_name"] for each in read_yaml(OPS / "prometheus/prometheus.yml")["scrape_configs"]]
    assert all(re.fullmatch("beanpole.*", name) for name in jobs), "BeanpoleNotScraped would not see it"


def test_the_documentation_lists_the_alerts() -> None:
    page = (ROOT / "docs/monitoring.md").read_text()
    listed = re.findall(r"^\| `(Beanpole\w+)` \| .* \| ([\w ]+) \| (\w+) \|$", page, re.MULTILINE)
    assert listed == [
        (name, rule.get("for", "at once"), rule["labels"]["severity"]) for name, rule in alerts().items()
    ], "repair the table of alerts in docs/monitoring.md"


def targets() -> list[tuple[str, dict[str, Any]]]:
    """What the board asks Prometheus, each with the title of its panel."""
    return [(panel["title"], target) for panel in panels() for target in panel["targets"]]


def test_the_board_can_be_imported() -> None:
    found = board()
    assert found["id"] is None
    assert {each["name"] for each in found["templating"]["list"]} == VARIABLES
    ids = Counter(panel["id"] for panel in found["panels"])
    assert max(ids.values()) == 1
    for title, target in targets():
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, title
    for panel in panels():
        assert panel["description"], f"{panel['title']} does not say what it shows"
        assert Counter(target["refId"] for target in panel["targets"]).most_common(1)[0][1] == 1


def test_the_board_s_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in board()["panels"]]
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_every_query_of_the_board_is_of_the_chosen_servers_and_tubes() -> None:
    per_tube = re.compile(r"beanpole_(jobs(_put_total)?|job_\w+|oldest_ready_seconds|tube_\w+|puts_\w+)\{")
    for title, target in targets():
        for selector in re.findall(r"beanpole_\w+\{[^}]*\}", target["expr"]):
            assert 'server=~"$server"' in selector, title
            assert bool(per_tube.match(selector)) == ('tube=~"$tube"' in selector), f"{title}: {selector}"
        assert len(re.findall(r"\bbeanpole_\w+", target["expr"])) == target["expr"].count('server=~"$server"'), title
        assert set(re.findall(r"\$(\w+)", target["expr"])) <= VARIABLES | {"__rate_interval"}, title


def test_transformations_name_columns_that_are_there() -> None:
    (table,) = [panel for panel in panels() if panel["type"] == "table"]
    (organize,) = [each["options"] for each in table["transformations"] if each["id"] == "organize"]
    assert set(organize["renameByName"]) == {f"Value #{target['refId']}" for target in table["targets"]}
    columns = set(organize["renameByName"].values())
    assert {each["matcher"]["options"] for each in table["fieldConfig"]["overrides"]} == columns


def test_compose_and_examples_load_the_alerts() -> None:
    for name in ("prometheus.yml", "compose.yml"):
        (rules,) = read_yaml(OPS / "prometheus" / name)["rule_files"]
        assert Path(OPS / "prometheus" / rules).is_file()
