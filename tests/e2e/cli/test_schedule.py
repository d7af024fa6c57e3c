"""`beanpole schedule`: one schedule at a time, and a file of them, of which one mistake changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole import Client
from tests.e2e.cli.conftest import Cli
from tests.e2e.cli.test_rules import apply_in_part
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has schedules; each test drops them all in the end."""
    with beanpole_server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client[bytes]]:
    """A client that drops all schedules in the end."""
    with Client((HOST, server.port), None) as made:
        yield made
        for each in made.all_schedules():
            made.drop_schedule(each.name)


def there(client: Client[bytes]) -> dict[str, bytes]:
    return {each.name: each.document for each in client.all_schedules(16_384)}


NIGHTLY = ("set", "nightly", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "-t", "reports", '{"kind":"nightly"}')
TEXT = b'cron: 30 2 * * *\nzone: Europe/Berlin\ntube: reports\n\n{"kind":"nightly"}'
SECTION = [
    "[nightly]",
    'cron = "30 2 * * *"',
    'zone = "Europe/Berlin"',
    'tube = "reports"',
    'body = \'{"kind":"nightly"}\'',
]


def test_a_schedule_is_set_shown_paused_fired_and_dropped(cli: Cli, client: Client[bytes]) -> None:
    (said,) = cli("schedule", *NIGHTLY).lines
    assert said.startswith("nightly set; next 20")
    assert there(client) == {"nightly": TEXT}
    shown = cli("schedule", "show", "nightly").lines
    assert shown[0] == "# active: 0 fires, 0 skips, 0 misses"
    assert [line for line in shown if not line.startswith("#")] == [*SECTION, ""]
    assert cli("schedule", "pause", "nightly").lines == ["nightly paused"]
    (listed,) = cli("schedule", "list", "--json").objects
    assert (listed["name"], listed["state"], listed["lines"]["zone"]) == ("nightly", "paused", "Europe/Berlin")
    assert cli("schedule", "list", "--sort", "next", "--json").objects == []
    assert cli("schedule", "resume", "nightly").lines == ["nightly resumed"]
    assert cli("schedule", "list").lines[1].startswith("nightly\tactive\t20")
    assert len(cli("schedule", "next", "nightly", "--count", 3).lines) == 4
    (fired,) = cli("schedule", "fire", "nightly", "--json").objects
    assert client.peek(fired["id"]).body == b'{"kind":"nightly"}'
    assert cli("schedule", "drop", "nightly").lines == ["nightly dropped"]
    assert there(client) == {}


def test_a_backfill_puts_a_job_for_each_time(cli: Cli, client: Client[bytes]) -> None:
    cli("schedule", *NIGHTLY)
    given = ("fire", "nightly", "--from", "2026-03-28T00:00:00", "--to", "2026-03-30T02:30:00")
    times = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    dry = cli("schedule", *given, "--dry-run")
    assert dry.lines == [f"nightly for {each}" for each in times]
    done = cli("schedule", *given, "--json").objects
    assert [each["at"] for each in done] == times
    assert len({each["id"] for each in done}) == 3
    assert cli("schedule", *given[:2], "--from", "2026-03-28T04:00:00", "--to", "2026-03-28T05:00:00").lines == []
    client.set_schedule("keyed", every=3_600, key="k")
    (first,) = cli("schedule", "fire", "keyed", "--json").objects
    assert cli("schedule", "fire", "keyed").lines == [f"keyed: nothing, job {first['id']} has its key"]
    client.set_schedule("often", every=1)
    assert "more than 10000 times" in cli("schedule", "fire", "often", "--from", "2026-03-28T00:00:00", code=5).err


@pytest.mark.usefixtures("client")
def test_a_time_that_has_passed_is_said(cli: Cli) -> None:
    assert cli("schedule", "set", "once", "--at", "2026-03-28T00:00:00Z").lines == [
        "once set; its time has passed: it will not fire"
    ]


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "drop", "fire", "next"])
def test_a_schedule_that_is_not_there_is_named(cli: Cli, verb: str) -> None:
    assert cli("schedule", verb, "other", code=2).err == "beanpole: there is no schedule other\n"


FILE = """
[nightly]
cron = "30 3 * * *"
zone = "Europe/Berlin"
tube = "reports"
json = {kind = "nightly"}

[new]
every = "90s"
"""


def test_a_file_of_schedules(cli: Cli, client: Client[bytes], tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text(FILE)
    cli("schedule", *NIGHTLY)
    for name in ("billing-a", "billing-b", "other"):
        client.set_schedule(name, every=60)
    before = there(client)
    dry = cli("schedule", "apply", file, "--dry-run")
    shown = ["  [nightly]", '- cron = "30 2 * * *"', '+ cron = "30 3 * * *"', *(f"  {each}" for each in SECTION[2:])]
    shown += ["+ [new]", "+ every = 90"]
    assert dry.lines == shown
    assert dry.err == "beanpole: nothing was changed: this was a dry run\n"
    assert there(client) == before
    pruned = ["- [billing-a]", "- every = 60", "- [billing-b]", "- every = 60"]
    assert cli("schedule", "apply", "-", "--prune", "billing-*", given=FILE.encode()).lines == [*shown, *pruned]
    wanted = {"new": b"every: 90\n\n", "nightly": TEXT.replace(b"30 2", b"30 3"), "other": b"every: 60\n\n"}
    assert there(client) == wanted
    assert cli("schedule", "apply", file).err == "beanpole: nothing to change\n"
    file.write_text("[a]\nevery = 5\n[b]\nevery = 5\nzone = 'Mars'\n")
    assert f"{file}:5: " in cli("schedule", "apply", file, "--prune", "*", code=5).err
    assert there(client) == wanted
    file.write_bytes(cli("schedule", "show").out)
    assert cli("schedule", "apply", file, "--prune", "*").lines == []
    assert cli("schedule", "apply", "/dev/null", "--prune", "other", "--json").objects == [
        {"name": "other", "before": "[other]\nevery = 60", "after": None}
    ]
    assert there(client).keys() == {"new", "nightly"}


def test_a_file_that_is_applied_in_part_says_so(cli: Cli, client: Client[bytes], tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text("".join(f"[s{number}]\nevery = 60\n" for number in range(4)))
    made, err = apply_in_part(cli, "schedule", file, lambda: there(client))
    assert f"; {made} of 4 changes made, not that of s{made}; call it again to make the rest" in err


def test_a_server_without_schedules_is_asked_first(tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text("[a]\nevery = 5\n")
    with beanstalkd_server() as server:
        cli = Cli(server)
        for given in (("apply", file), ("set", "a", "--every", "5s"), ("show",), ("list",), ("drop", "a")):
            assert "the server does not support" in cli("schedule", *given, code=1).err
