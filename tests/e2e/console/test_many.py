"""Many tubes: what a scrape has, and what it costs."""

import gzip

from beanpole.client import Client
from tests.e2e.console.process import Samples, console, url_of
from tests.servers import HOST, Server, beanpole_server

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


def test_a_thousand_tubes_cost_little_and_the_others_are_added_up() -> None:
    with beanpole_server() as server:
        fill(server, 1_200)
        with console("--url", url_of(server, "ours")) as served:
            served.wait_for(lambda found: by_tube(found, "beanpole_jobs"), "the first sample is there")
            plain, packed = served.get("/metrics").body, served.get("/metrics", Accept_Encoding="gzip").body
            found = served.scrape()
    put = by_tube(found, "beanpole_jobs_put_total")
    assert (len(put), put["tube-00000"], sum(put.values())) == (1_001, 1, 1_200)
    assert put["*"] == 1_201 - 1_000  # the tube `default` has a name, and no job
    assert len(plain) < 2_000_000
    assert len(packed) < 200_000
    assert gzip.decompress(packed)[:100] == plain[:100]
    assert found["process_resident_memory_bytes", frozenset()] < 80_000_000


def test_patterns_choose_the_tubes_that_are_named() -> None:
    with beanpole_server() as server:
        fill(server, 30)
        with console(
            "--url", url_of(server, "ours"), "--metrics-tubes", "*-0000?", "--metrics-tubes", "default"
        ) as served:
            served.wait_for(lambda found: by_tube(found, "beanpole_jobs_put_total"), "the first sample is there")
            put = by_tube(served.scrape(), "beanpole_jobs_put_total")
    assert put == {"default": 0, "*": 20, **{f"tube-0000{number}": 1 for number in range(10)}}
