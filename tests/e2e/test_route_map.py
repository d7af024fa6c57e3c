"""`beanpole route --map`: clients of one router whose tubes are on three servers."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from beanpole.limits import SHARD_ID_BITS
from beanpole.shards.file import load
from beanpole.shards.map import Places
from tests.e2e.cli.conftest import run
from tests.e2e.process import COMMAND, Client, Process, serving, start_in_vain, wait_until
from tests.e2e.test_route import metrics
from tests.servers import HOST, free_port

ROUTE = [*COMMAND[:-1], "route"]
TUBES = {"mail": "a", "push": "b", "text": "c"}
FIRST = {name: (number << SHARD_ID_BITS) + 1 for number, name in enumerate("abc")}


def map_of(ports: dict[str, int], *, epoch: int = 1, homes: dict[str, str] = TUBES, before: str = "") -> str:
    """The text of a map."""
    shards = "".join(
        f'{name} = {{ number = {number}, nodes = "{HOST}:{ports[name]}" }}\n'
        for number, name in enumerate(sorted(ports))
    )
    tubes = "".join(f'{tube} = "{name}"\n' for tube, name in homes.items())
    spread = ", ".join(f'"{name}"' for name in sorted(ports))
    return f"epoch = {epoch}\nbefore = [{before}]\n[shard]\n{shards}[tubes]\n{tubes}spread = [{spread}]\n"


class Installation:
    """Servers of a map, and a router before them."""

    def __init__(self, stack: ExitStack, folder: Path, names: str) -> None:
        self.stack = stack
        self.file = folder / "shards.toml"
        self.shards: dict[str, Process] = {}
        for name in names:
            self.add(name)
        self.file.write_text(map_of(self.ports, homes={tube: name for tube, name in TUBES.items() if name in names}))
        self.router = stack.enter_context(serving("--map", str(self.file), command=ROUTE))

    @property
    def ports(self) -> dict[str, int]:
        return {name: each.port for name, each in self.shards.items()}

    def add(self, name: str) -> None:
        self.shards[name] = self.stack.enter_context(serving("--shard", str("abc".index(name))))

    def home(self, tube: str) -> str:
        return Places(load(self.file)).place(tube.encode()).homes[0].name

    @contextmanager
    def client(self) -> Iterator[Client]:
        with self.router.connect() as client:
            yield client


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Installation]:
    with ExitStack() as stack:
        yield Installation(stack, tmp_path, "abc")


def test_metrics_say_what_each_shard_is_asked_and_how_long_it_was_missing(three: Installation) -> None:
    port = free_port()
    three.shards["b"].signal(signal.SIGKILL)
    three.shards["b"].wait_exit()
    with serving("--map", str(three.file), "--metrics", f"{HOST}:{port}", command=ROUTE) as router:
        with router.connect() as client:
            client.ask(b"watch mail\r\nwatch text\r\nignore default\r\n", b"WATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\n")
            put(client, "text", FIRST["c"])
            client.ask(b"reserve\r\n", b"RESERVED %d 1\r\nx\r\n" % FIRST["c"])
        before, found = (
            {name.removeprefix("beanpole_router_"): float(value) for name, value in metrics(port).items()} for _ in "12"
        )
    assert found['shard_commands_total{shard="c"}'] >= 3
    assert found['shard_commands_total{shard="b"}'] == 0
    missing = 'shard_missing_seconds_total{shard="%s"}'
    assert found[missing % "a"] == before[missing % "a"]
    assert found[missing % "b"] > before[missing % "b"]
    assert (found["reserve_questions_total"], found["reserve_found_total"]) == (2, 1)


def put(client: Client, tube: str, id: int, body: bytes = b"x") -> None:
    client.ask(
        b"use %b\r\nput 0 0 600 %d\r\n%b\r\n" % (tube.encode(), len(body), body),
        b"USING %b\r\nINSERTED %d\r\n" % (tube.encode(), id),
    )


def test_jobs_go_to_the_homes_of_their_tubes_and_come_from_there(three: Installation) -> None:
    with three.client() as client, three.client() as worker:
        for tube, name in TUBES.items():
            put(client, tube, FIRST[name], tube.encode())
        for tube, name in TUBES.items():
            with three.shards[name].connect() as direct:
                direct.send(b"stats-tube %b\r\n" % tube.encode())
                assert "current-jobs-ready: 1\n" in direct.body().decode()
        worker.ask(b"watch push\r\nwatch text\r\n", b"WATCHING 2\r\nWATCHING 3\r\n")
        for tube in ("push", "text"):
            worker.ask(b"reserve\r\n", b"RESERVED %d 4\r\n%b\r\n" % (FIRST[TUBES[tube]], tube.encode()))


def test_statistics_are_sums_and_facts_those_of_the_router(three: Installation) -> None:
    with three.client() as client:
        for tube, name in TUBES.items():
            put(client, tube, FIRST[name])
        client.send(b"stats\r\n")
        found = dict(line.split(": ", 1) for line in client.body().decode().splitlines()[1:])
    assert (found["current-jobs-ready"], found["shards"], found["shards-missing"]) == ("3", "3", "0")
    assert (found["pid"], found["map-epoch"]) == (str(three.router.pid), "1")


def test_a_shard_that_is_new_gets_the_rules_through_the_router(three: Installation, tmp_path: Path) -> None:
    with three.shards["a"].connect() as first:
        first.ask(b"set-rules mail 11\r\nattempts: 5\r\n", b"RULES_SET\r\n")
    file = tmp_path / "all.rules"
    url = ("--url", f"{HOST}:{three.router.port}")
    file.write_bytes(run("rules", "list", *url).out)
    assert run("rules", "apply", file, *url).code == 0
    for each in three.shards.values():
        with each.connect() as direct:
            direct.send(b"get-rules mail\r\n")
            assert "attempts: 5\n" in direct.body().decode()


def test_a_router_that_is_stopped_lets_those_finish_that_hold_jobs(three: Installation) -> None:
    with three.client() as client, three.client() as worker:
        put(client, "default", FIRST[three.home("default")])
        worker.ask(b"reserve\r\n", b"RESERVED %d 1\r\nx\r\n" % FIRST[three.home("default")])
        three.router.signal(signal.SIGTERM)
        assert client.rest() == b""
        worker.ask(b"delete %d\r\nquit\r\n" % FIRST[three.home("default")], b"DELETED\r\n")
        assert worker.rest() == b""
    assert three.router.wait_exit() == 0


def test_a_body_of_any_size_passes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        found = Installation(stack, tmp_path, "a")
        body = bytes(range(256)) * 250
        with found.client() as client:
            put(client, "mail", 1, body)
            client.ask(b"peek 1\r\n" * 30, (b"FOUND 1 %d\r\n%b\r\n" % (len(body), body)) * 30)


def test_a_worker_that_waits_gets_the_job_of_any_shard(three: Installation) -> None:
    with three.client() as client, three.client() as worker:
        worker.ask(b"watch push\r\nwatch text\r\n", b"WATCHING 2\r\nWATCHING 3\r\n")
        worker.send(b"reserve\r\n")
        put(client, "text", FIRST["c"])
        worker.expect(b"RESERVED %d 1\r\nx\r\n" % FIRST["c"])


def test_a_client_goes_on_when_a_shard_is_away_for_a_while(three: Installation) -> None:
    port = three.shards["b"].port
    with three.client() as client:
        put(client, "mail", FIRST["a"])
        three.shards["b"].signal(signal.SIGKILL)
        wait_until(lambda: three.router.events("link closed"), "the router knows")
        put(client, "text", FIRST["c"])
        client.send(b"use push\r\nput 0 0 600 1\r\nx\r\n")
        with serving("--shard", "1", "-p", str(port), "-l", HOST, listen=False):
            client.expect(b"USING push\r\nINSERTED %d\r\n" % FIRST["b"])


def test_another_map_is_used_by_clients_that_are_there(tmp_path: Path) -> None:
    with ExitStack() as stack:
        found = Installation(stack, tmp_path, "a")
        with found.client() as client, found.client() as worker:
            put(client, "mail", FIRST["a"])
            worker.ask(b"watch text\r\nignore default\r\n", b"WATCHING 2\r\nWATCHING 1\r\n")
            worker.send(b"reserve\r\n")
            for name in "bc":
                found.add(name)
            older = found.file.rename(tmp_path / "older.toml")
            found.file.write_text(map_of(found.ports, epoch=2, before=f'"{older.name}"'))
            found.router.signal(signal.SIGHUP)
            wait_until(lambda: found.router.events("map read"), "another map")
            put(client, "text", FIRST["c"])
            worker.expect(b"RESERVED %d 1\r\nx\r\n" % FIRST["c"])
            wait_until(lambda: client.statistic("link-map-epoch") == 2, "the shards know by which map all go")


def test_a_map_that_is_wrong_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "shards.toml"
    file.write_text("epoch = 0\n")
    outcome = start_in_vain("--map", str(file), command=ROUTE)
    assert (outcome.code, outcome.error.count("\n")) == (5, 1)
    assert str(file) in outcome.error
