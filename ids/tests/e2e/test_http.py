"""The HTTP API of a process: numbers, problems, health, metrics, its description, and its end."""

import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.http import Found, Web, tails, web
from tests.e2e.process import running, write_rules
from tests.processes import REPLY_TIMEOUT_S, STOP_TIMEOUT_S, wait_until

# --- Numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
def test_numbers(tmp_path: Path, listen: str) -> None:
    with web(tmp_path, listen) as api:
        first = api.get("/v1/ids/order/a")
        assert first.status == 200
        assert first.fields["cache-control"] == "no-store"
        assert (first.json()["rule"], first.json()["app"], tails(first.json())) == ("order", "a", [0])
        assert tails(api.get("/v1/ids/order/a?count=3").json()) == [1, 2, 3]
        assert tails(api.get("/v1/ids/order/a", "POST", b"{}", content_type="application/json").json()) == [4]
        assert api.service.ask()["data"][7:] == "000005"
        assert tails(api.get("/v1/ids/order/b").json()) == [0]
        assert tails(api.get("/v1/ids/order/gr%C3%B6%C3%9Fe%2F1").json()) == [0]
        assert api.service.ask(app_name="größe/1")["data"][7:] == "000001"
        assert len(set(api.get("/v1/ids/order/a?count=1000").json()["ids"])) == 1000


@pytest.mark.parametrize(
    ("path", "status", "problem", "detail"),
    [
        ("/v1/ids/none/a", 404, "unknown-rule", "there is no rule 'none'"),
        ("/v1/ids/order/a%20b", 400, "bad-request", "app_name has a bad character"),
        ("/v1/ids/order/a%00b", 400, "bad-request", "NUL"),
        ("/v1/ids/order/%FF", 400, "bad-request", "utf-8"),
        ("/v1/ids/order/" + "a" * 256, 400, "bad-request", "too long"),
        ("/v1/ids/order/a?count=0", 400, "bad-request", "count must be 1 to 1000"),
        ("/v1/ids/order/a?count=1001", 400, "bad-request", "count must be 1 to 1000"),
        ("/v1/ids/order/a?count=-1", 400, "bad-request", "count"),
        ("/v1/ids/order/a?count=1e2", 400, "bad-request", "count"),
        ("/v1/ids/order/a?count=%D9%A3", 400, "bad-request", "count"),
        ("/v1/ids/order/a?count=", 400, "bad-request", "count"),
        ("/v1/ids/order/a?count=" + "9" * 5000, 400, "bad-request", "count"),
        ("/v1/ids/order/a?count=1&count=2", 400, "bad-request", "twice"),
        ("/v1/ids/order/a?cuont=2", 400, "bad-request", "unknown parameter 'cuont'"),
        ("/v1/ids/order/a?salt=%00", 400, "bad-request", "NUL"),
        ("/v1/ids/order/a?salt=" + "%01" * 5000, 400, "bad-request", "20459 bytes"),
        ("/v1/ids/order/a?x", 400, "bad-request", "query"),
        ("/v1/ids/order", 404, "unknown-path", "/docs"),
        ("/v1/ids/order/a/b", 404, "unknown-path", "/docs"),
        ("/etc/passwd", 404, "unknown-path", "/docs"),
        ("/../../etc/passwd", 404, "unknown-path", "/docs"),
    ],
)
def test_problem(shared: Web, path: str, status: int, problem: str, detail: str) -> None:
    found = shared.get(path)
    assert found.status == status
    assert found.fields["content-type"] == "application/problem+json"
    said = found.json()
    assert (said["type"], said["status"]) == (f"/docs#{problem}", status)
    assert detail in said["detail"]
    assert f"id={problem}>".encode() in shared.get("/docs").body, "the type leads to an explanation"


def test_wrong_method(api: Web) -> None:
    for path, allowed in (("/health", "GET, HEAD"), ("/v1/ids/order/a", "GET, POST")):
        found = api.get(path, "DELETE")
        assert (found.status, found.fields["allow"]) == (405, allowed)
    assert api.get("/v1/ids/order/a", "HEAD").status == 405
    assert tails(api.get("/v1/ids/order/a").json()) == [0], "who asks for a head takes no number"


def test_exhausted_is_a_conflict(api: Web) -> None:
    api.get("/v1/ids/small/a?count=21")
    found = api.get("/v1/ids/small/a")
    assert found.status == 409
    assert found.json()["code"] == -2
    assert "retry-after" not in found.fields
    assert "resets_at" not in found.json(), "it never does"
    too_many = api.get("/v1/ids/order/a?count=1000")
    assert too_many.status == 200


def test_cycle_that_ends_says_when(tmp_path: Path) -> None:
    config = write_rules(tmp_path, more='[http]\nlisten = "127.0.0.1:0"')
    config.write_text(config.read_text().replace("batch = 100", "maximum = 2"))
    with web(tmp_path, config=config) as api:
        assert tails(api.get("/v1/ids/order/a?count=3").json()) == [0, 1, 2]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT00:00:00(\+00|-12):00", api.get("/v1/ids/order/a").json()["resets_at"])


# --- Health and metrics -----------------------------------------------------------------------------------------------


def healthy(api: Web, host: str = "127.0.0.1") -> Found:
    """What is answered when all is well: a disk that is busy for a second is said not to answer."""
    found: list[Found] = []

    def is_well() -> bool:
        found.append(api.get("/health", Host=host))
        return found[-1].status == 200

    wait_until(is_well, "all is well")
    return found[-1]


def metrics(api: Web) -> dict[tuple[str, ...], float]:
    """All samples, by name and the values of their labels."""
    found = api.get("/metrics")
    assert found.fields["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(found.body.decode()))
    assert all(each.documentation for each in families)
    return {
        (
            sample.name.removeprefix("beanpole_ids_"),
            *(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for each in families
        for sample in each.samples
    }


def test_metrics(api: Web) -> None:
    api.get("/v1/ids/order/a?count=5")
    api.get("/v1/ids/order/b")
    for _ in range(2):
        api.get("/v1/ids/small/a?count=21")
    api.service.ask(rule_name="strange")
    api.service.ask(request_id="x")
    api.service.ask(request_id="x")
    api.service.socket.send(b"x")
    wait_until(lambda: metrics(api)["dropped_datagrams_total", "malformed"] == 1, "the datagram is counted")
    found = metrics(api)
    assert found["requests_total", "success", "order"] == 3
    assert found["requests_total", "exhausted", "small"] == 1
    assert found["requests_total", "invalid", ""] == 1
    assert found["numbers_total", "order"] == 7
    assert found["repeated_requests_total",] == 1
    assert found["counters", "order"] == 2
    assert found["held_numbers", "order"] == 2 * 100 - 7
    assert found["counters_exhausted", "small"] == 1
    assert found["remaining_numbers", "small"] == 0
    assert found["remaining_numbers", "order"] == 1_000_000 - 6
    assert found["cycle_numbers", "order"] == 1_000_000
    assert found["cycle_end_timestamp_seconds", "order"] % 43_200 == 0, "midnight in either of `ZONE`"
    assert ("cycle_end_timestamp_seconds", "small") not in found
    assert found["reservation_seconds_count",] == found["reservation_seconds_bucket", "+Inf"] >= 3
    assert found["reserved_ranges_total",] >= 3
    assert found["lease_epoch",] == 1
    assert found["storage_failing",] == found["storage_failures_total",] == 0
    assert found["http_requests_total", "/v1/ids/{rule}/{app}", "200"] == 3
    assert found["http_requests_total", "/v1/ids/{rule}/{app}", "409"] == 1
    assert found["http_connections",] >= 1
    assert found["process_open_fds",] > 3


def test_clients_add_no_series(api: Web) -> None:
    def names() -> set[tuple[str, ...]]:
        return set(metrics(api))

    for path in ("/v1/ids/order/a", "/v1/ids/x/a", "/x"):
        api.get(path)
    names()
    before = names()
    for each in range(50):
        for path in (f"/v1/ids/order/{each}", f"/v1/ids/{each}/a", f"/{each}"):
            api.get(path)
        api.service.ask(rule_name=f"r{each}")
    added = names() - before
    assert added <= {("requests_total", "invalid", "")}


# --- The description --------------------------------------------------------------------------------------------------


def matches(value: Any, schema: dict[str, Any], whole: dict[str, Any]) -> bool:  # noqa: ANN401 - any value of JSON
    """Whether a value is what a schema says, as far as ours say it."""
    if "$ref" in schema:
        return matches(value, whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]], whole)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}
    wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if type(value) not in [kinds[each] for each in wanted]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, list):
        return all(matches(each, schema["items"], whole) for each in value)
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return set(schema["required"]) <= set(value) <= set(known) and all(
            matches(each, known[name], whole) for name, each in value.items()
        )
    return True


def test_description_is_what_is_answered(api: Web) -> None:
    described = api.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    seen = set()
    requests = [
        *(("/v1/ids/{rule}/{app}", path) for path in ("order/a", "order/a?count=3", "none/a", "order/a?count=0")),
        *(("/v1/ids/{rule}/{app}", path) for path in ("small/a?count=21", "small/a")),
        *(("/v1/counters/{rule}", path) for path in ("order", "none", "order?limit=0")),
        *(("/v1/rules/{rule}", path) for path in ("order", "none", "order?x=1")),
        *((path, "") for path in ("/v1/rules", "/v1/reload")),
        *(("/v1/counters/{rule}/{app}", path) for path in ("order/a", "small/a", "none/a", "order/x", "order/a?x=1")),
        *((path, "") for path in ("/health", "/metrics", "/openapi.json", "/docs")),
    ]
    for pattern, more in requests:
        method = "post" if pattern == "/v1/reload" else "get"
        found = api.get(pattern.partition("{")[0] + more, method.upper())
        said = described["paths"][pattern][method]["responses"][str(found.status)]["content"]
        kind = found.fields["content-type"].partition(";")[0]
        if kind.endswith("json"):
            assert matches(found.json(), said[kind]["schema"], described), (more, found.body)
        else:
            assert kind in said
        seen.add(pattern)
    assert seen == set(described["paths"]), "every path was asked for"
    ids = described["paths"]["/v1/ids/{rule}/{app}"]
    assert [each["name"] for each in ids["post"]["parameters"]] == ["rule", "app", "count", "request_id", "salt"]
    assert ids["get"]["parameters"][:-1] == ids["post"]["parameters"]
    mark = ids["get"]["parameters"][-1]
    assert (mark["in"], mark["name"], mark["required"]) == ("header", "X-Beanpole", True)
    assert set(described["components"]["schemas"]["Wanted"]["properties"]) == {"count", "request_id", "salt"}


def test_references_of_the_description_lead_somewhere(shared: Web) -> None:
    text = shared.get("/openapi.json").body.decode()
    schemas = json.loads(text)["components"]["schemas"]
    assert set(re.findall(r"#/components/schemas/(\w+)", text)) == set(schemas)


def test_page_needs_no_network(shared: Web) -> None:
    found = shared.get("/docs")
    text = found.body.decode()
    assert "default-src 'none'" in found.fields["content-security-policy"]
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)
    for path in ("/v1/ids/{rule}/{app}", "/health", "request_id"):
        assert path in text
    assert shared.get("/").fields["location"] == "/docs"


# --- The process ------------------------------------------------------------------------------------------------------


def test_no_http_unless_configured(tmp_path: Path) -> None:
    with running(tmp_path, write_rules(tmp_path)):
        assert len((tmp_path / "ready").read_text().split()) == 1


def test_configuration_of_the_original_may_have_http(tmp_path: Path) -> None:
    from beanpole_ids.config import load  # noqa: PLC0415 - see above
    from beanpole_ids.errors import RuleError  # noqa: PLC0415 - this test alone reads a configuration

    path = write_rules(tmp_path, more="[http]")
    http = load(path).http
    assert http is not None
    assert (http.host, http.port, http.names, http.connections_per_source) == ("127.0.0.1", 11311, frozenset(), 100)
    wrongs = (
        'listen = "x"',
        "port = 1",
        "names = 1",
        "names = [1]",
        'reload_from = ["x"]',
        "connections_per_source = 0",
    )
    for wrong in (*(f"[http]\n{each}" for each in wrongs), "http = 1"):
        with pytest.raises(RuleError):
            load(write_rules(tmp_path, more=wrong))


def test_port_that_is_taken(api: Web, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    config = write_rules(folder, more=f'[http]\nlisten = "127.0.0.1:{api.address[1]}"')
    with pytest.raises(AssertionError, match="cannot listen"), running(folder, config):
        pass


def test_changed_http_needs_a_restart(api: Web) -> None:
    path = api.service.folder / "rules.toml"
    path.write_text(path.read_text().replace('listen = "127.0.0.1:0"\n\n', 'listen = "127.0.0.1:1"\n\n'))
    api.service.popen.send_signal(signal.SIGHUP)
    wait_until(lambda: "http has changed" in api.service.messages(), "the reload is refused")


# --- The end ----------------------------------------------------------------------------------------------------------


def test_request_that_waits_for_the_database_is_answered_before_the_end(tmp_path: Path) -> None:
    with web(tmp_path) as api:
        api.get("/v1/ids/order/a")
        engine = sa.create_engine(f"sqlite:///{tmp_path}/ids.db")
        with ThreadPoolExecutor(1) as pool:
            with engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # the database is somebody else's for now
                asked = pool.submit(api.get, "/v1/ids/order/b")
                wait_until(lambda: waiting(api) == 1, "the request waits")
                api.service.popen.send_signal(signal.SIGTERM)
                wait_until(lambda: not accepts(api), "no connection is accepted")
                connection.rollback()
            found = asked.result(REPLY_TIMEOUT_S)
        engine.dispose()
        # Which of the two happens depends on what was under way when the signal came.
        given = found.json().get("ids", [])
        assert [each[7:] for each in given] == ["000000"] or found.json()["detail"] == "storage: stopping"
        assert found.fields["connection"] == "close"
        assert api.service.popen.wait(STOP_TIMEOUT_S) == 0
    with web(tmp_path, config=tmp_path / "rules.toml") as api:
        assert int(api.get("/v1/ids/order/b").json()["ids"][0][7:]) == len(given), "there is no gap"


def waiting(api: Web) -> int:
    """How many requests wait for the database."""
    text = api.get("/metrics").body.decode()
    return int(float(text.partition("\nbeanpole_ids_waiting_requests ")[2].partition("\n")[0]))


def accepts(api: Web) -> bool:
    """Whether connections are accepted."""
    try:
        socket.create_connection(api.address, 5).close()
    except OSError:
        return False
    return True
