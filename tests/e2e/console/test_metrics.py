"""What a scrape says of real servers, as prometheus-client reads it."""

import gzip
from collections.abc import Iterator

import pytest

from beanpole.client import Client
from tests.e2e.console.process import Console, Samples, console, samples_of, url_of
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server


def load(server: Server) -> None:
    """Puts three jobs into a tube: one is deleted, one is buried, one stays."""
    with Client((HOST, server.port), use="mail", watch="mail") as client:
        for _ in range(3):
            client.put("a body")
        client.delete(client.reserve())
        client.bury(client.reserve())


def check_load(served: Console, name: str) -> None:
    """The metrics say what `load` has done, before the console was started."""
    found = served.scrape()

    def value(metric: str, **labels: str) -> float | None:
        return found.get((metric, frozenset({"server": name, **labels}.items())))

    assert value("beanpole_up") == 1
    assert value("beanpole_commands_total", command="reserve") == 2
    assert value("beanpole_jobs", tube="mail", state="ready") == 1
    assert value("beanpole_jobs", tube="mail", state="buried") == 1
    assert value("beanpole_jobs_put_total", tube="mail") == 3
    assert value("beanpole_job_ends_total", tube="mail", outcome="deleted") == 1
    assert value("beanpole_connections_opened_total")
    assert value("beanpole_jobs", tube="default", state="ready") == 0


@pytest.fixture(scope="module")
def two() -> Iterator[Console]:
    with (
        beanpole_server() as ours,
        beanstalkd_server() as theirs,
    ):
        load(ours)
        load(theirs)
        with console("--url", url_of(ours, "ours"), "--url", url_of(theirs, "theirs"), "--legacy-metrics") as served:
            yield served


def test_two_servers_are_told_apart(two: Console) -> None:
    check_load(two, "ours")
    check_load(two, "theirs")
    found = two.scrape()
    assert found["beanpole_job_ends_total", frozenset({("server", "ours"), ("tube", "mail"), ("outcome", "dead")})] == 0
    theirs = [dict(labels) for _, labels in found if ("server", "theirs") in labels]
    assert any(each.get("program") == "beanstalkd" for each in theirs)
    assert not any(each.get("outcome") == "dead" for each in theirs)


def test_one_of_two_servers_has_no_label(two: Console) -> None:
    found = two.scrape("/metrics?server=theirs")
    assert found["beanpole_up", frozenset()] == 1
    assert not any("server" in dict(labels) for _, labels in found)
    assert two.get("/metrics?server=nobody").status == 404


OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"


def test_both_formats_have_the_same_values(two: Console) -> None:
    two.scrape()  # which both see again
    classic, newer = two.get("/metrics"), two.get("/metrics", Accept=OPENMETRICS)
    assert classic.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert newer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert newer.text.endswith("\n# EOF\n")
    one, other = samples_of(classic.text), samples_of(newer.text, openmetrics=True)
    assert one.keys() == other.keys()
    assert {key: value for key, value in one.items() if key[0] == "beanpole_jobs"}
    assert all(one[key] == other[key] for key in one if key[0].startswith("beanpole_job"))


def test_a_scrape_is_compressed_for_those_who_take_it(two: Console) -> None:
    two.scrape()  # which is seen again
    packed = two.get("/metrics", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert samples_of(gzip.decompress(packed.body).decode()).keys() == two.scrape().keys()
    assert "content-encoding" not in two.get("/metrics", Accept_Encoding="gzip;q=0").headers


def test_the_exporter_that_was_there_before_has_the_same_names(two: Console) -> None:
    found = two.scrape()
    of_server = {name for name, labels in found if dict(labels).keys() == {"instance"}}
    of_tubes = {name for name, labels in found if dict(labels).keys() == {"instance", "tube"}}
    assert {"current_jobs_ready", "cmd_put", "total_connections", "uptime", "binlog_max_size"} <= of_server
    assert {"tube_current_jobs_ready", "tube_total_jobs", "tube_pause_time_left"} <= of_tubes
    ready = [
        value
        for (name, labels), value in found.items()
        if name == "tube_current_jobs_ready" and ("tube", "mail") in labels
    ]
    assert ready == [1, 1]


def test_the_console_says_what_it_costs_itself(two: Console) -> None:
    found = two.scrape()
    assert found["process_resident_memory_bytes", frozenset()] > 10_000_000
    assert found["process_cpu_seconds_total", frozenset()] > 0


def test_times_of_jobs_are_served(two: Console) -> None:
    found = two.scrape()
    assert found["beanpole_job_held_seconds_count", frozenset({("server", "ours"), ("tube", "mail")})] == 2
    labels = {"server": "ours", "tube": "mail", "le": "+Inf"}
    assert found["beanpole_job_ready_seconds_bucket", frozenset(labels.items())] == 2
    assert found["beanpole_reserve_wait_seconds_count", frozenset({("server", "ours")})] == 2
    assert found["beanpole_turn_seconds_count", frozenset({("server", "ours")})] > 0
    assert not any(("tube", "*") in labels for _, labels in found)


# --- Many tubes -------------------------------------------------------------------------------------------------------

PAGE = 500


def fill(server: Server, count: int) -> None:
    """Puts a job into each of so many tubes."""
    with Client((HOST, server.port)) as client:
        for first in range(0, count, PAGE):
            with client.pipeline() as pipeline:
                for number in range(first, min(first + PAGE, count)):
                    pipeline.use(f"tube-{number:05}")
                    pipeline.put("a body")


def by_tube(found: Samples, name: str) -> dict[str, float]:
    return {dict(labels)["tube"]: value for (each, labels), value in found.items() if each == name}


def memory(found: Samples) -> float:
    return found["process_resident_memory_bytes", frozenset()]


def test_a_thousand_tubes_cost_little_and_the_others_are_added_up() -> None:
    with beanpole_server() as server:
        fill(server, 1_200)
        with console("--url", url_of(server, "ours")) as served:
            before = served.scrape()
            served.wait_for(lambda found: by_tube(found, "beanpole_jobs"), "the first sample is there")
            plain, packed = served.get("/metrics").body, served.get("/metrics", Accept_Encoding="gzip").body
            found = served.scrape()
    put = by_tube(found, "beanpole_jobs_put_total")
    assert (len(put), put["tube-00000"], sum(put.values())) == (1_001, 1, 1_200)
    assert put["*"] == 1_201 - 1_000  # the tube `default` has a name, and no job
    assert len(plain) < 2_000_000
    assert len(packed) < 200_000
    assert gzip.decompress(packed)[:100] == plain[:100]
    assert memory(found) - memory(before) < 20_000_000


def test_patterns_choose_the_tubes_that_are_named() -> None:
    with beanpole_server() as server:
        fill(server, 30)
        with console(
            "--url", url_of(server, "ours"), "--metrics-tubes", "*-0000?", "--metrics-tubes", "default"
        ) as served:
            served.wait_for(lambda found: by_tube(found, "beanpole_jobs_put_total"), "the first sample is there")
            put = by_tube(served.scrape(), "beanpole_jobs_put_total")
    assert put == {"default": 0, "*": 20, **{f"tube-0000{number}": 1 for number in range(10)}}
