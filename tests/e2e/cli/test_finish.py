"""`beanpole delete|release|bury|kick|hold`: by id, with an answer that explains itself."""

import json
import signal
import subprocess

import pytest

from beanpole import Client
from tests.e2e.cli.conftest import Cli
from tests.e2e.process import wait_until
from tests.servers import HOST, beanpole_server


def state_of(client: Client[bytes], id: int) -> str:
    return client.stats_job(id).state


def test_delete(cli: Cli, client: Client[bytes]) -> None:
    ids = [client.put(b"ready"), client.put(b"delayed", delay=100), client.put(b"buried")]
    client.bury(client.reserve_job(ids[2]))
    assert cli("delete", *ids).lines == [f"{id} deleted" for id in ids]
    assert cli("delete", ids[0], code=2).err == f"beanpole: there is no job {ids[0]}\n"


def test_delete_goes_on_after_an_error(cli: Cli, client: Client[bytes]) -> None:
    ids = [client.put(b"a"), 987654321, client.put(b"b")]
    done = cli("delete", "--json", *ids, code=2)
    assert done.objects == [{"id": ids[0], "result": "deleted"}, {"id": ids[2], "result": "deleted"}]
    assert json.loads(done.err) == {"note": "there is no job 987654321"}


@pytest.mark.parametrize("verb", ["delete", "release", "bury", "hold"])
def test_job_in_other_hands(cli: Cli, client: Client[bytes], verb: str) -> None:
    id = client.put(b"x")
    client.reserve_job(id)
    done = cli(verb, id, code=2)
    assert done.err == f"beanpole: job {id} is reserved by another client, and only that one can {verb} it\n"
    assert done.out == b""
    client.delete(id)


def test_kick_of_a_reserved_job(cli: Cli, client: Client[bytes]) -> None:
    id = client.put(b"x")
    client.reserve_job(id)
    assert cli("kick", id, code=2).err == f"beanpole: job {id} is reserved, and nobody can kick a reserved job\n"
    client.delete(id)


def test_release_changes_a_job_in_any_state(cli: Cli, client: Client[bytes]) -> None:
    ready, delayed, buried = client.put(b"x", priority=5), client.put(b"x", delay=100), client.put(b"x", priority=6)
    client.bury(client.reserve_job(buried), priority=6)
    cli("release", delayed, buried)
    assert [state_of(client, id) for id in (delayed, buried)] == ["ready", "ready"]
    assert client.stats_job(buried).pri == 6
    assert cli("release", "--priority", 1, "--delay", 50, "--json", ready).objects == [
        {"id": ready, "result": "released"}
    ]
    stats = client.stats_job(ready)
    assert (stats.state, stats.pri, stats.delay) == ("delayed", 1, 50)


def test_bury_and_kick(cli: Cli, client: Client[bytes], tube: str) -> None:
    ids = [client.put(b"x", priority=3) for _ in range(3)]
    cli("bury", *ids)
    assert [state_of(client, id) for id in ids] == ["buried"] * 3
    assert client.stats_job(ids[0]).pri == 3
    assert cli("kick", ids[1]).lines == [f"{ids[1]} kicked"]
    assert cli("kick", tube).lines == [f"1 of {tube} kicked"]
    assert cli("kick", tube, "--count", 9, "--json").objects == [{"tube": tube, "kicked": 1}]
    assert cli("kick", ids[0], code=2).err == f"beanpole: job {ids[0]} is ready: there is nothing to kick\n"
    cli("bury", ids[0], "--priority", 9)
    assert client.stats_job(ids[0]).pri == 9


def test_kick_all() -> None:
    """On a server of its own: it is about every tube."""
    with beanpole_server() as server, Client((HOST, server.port), None) as client:
        cli = Cli(server)
        assert cli("kick", "--all").err == "beanpole: no tube has a buried job\n"
        for name, buried in (("a", 2), ("b", 1), ("c", 0)):
            ids = client.put_many([b"x"] * 3, tube=name)
            client.put(b"x", delay=100, tube=name)
            for id in ids[:buried]:
                client.bury(client.reserve_job(id))
        assert cli("kick", "--all").lines == ["2 of a kicked", "1 of b kicked"]
        assert [client.stats_tube(name).current_jobs_delayed for name in "abc"] == [1, 1, 1]
        client.put_many([b"x"] * 2, tube="c")
        assert cli("kick", "c", "--all", "--json").objects == [{"tube": "c", "kicked": 1}]  # none is buried


def test_kick_of_a_tube_whose_name_is_a_number(cli: Cli, client: Client[bytes]) -> None:
    id = client.put(b"x", tube="123456789", delay=100)
    assert cli("kick", "tube:123456789").lines == ["1 of 123456789 kicked"]
    assert state_of(client, id) == "ready"
    client.delete(id)


@pytest.mark.parametrize("state", ["ready", "delayed", "buried"])
def test_hold_keeps_a_job_and_gives_it_back(cli: Cli, client: Client[bytes], state: str) -> None:
    id = client.put(b"x", priority=4, ttr=2, delay=100 if state == "delayed" else 0)
    if state == "buried":
        client.bury(client.reserve_job(id), priority=4)
    cli("hold", id, "--for", 3)
    stats = client.stats_job(id)
    assert (stats.state, stats.pri, stats.timeouts) == (state, 4, 0)


def test_hold_until_interrupted(cli: Cli, client: Client[bytes]) -> None:
    id = client.put(b"x")
    with cli.start("hold", id, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: state_of(client, id) == "reserved", "held")
        assert process.stderr is not None
        assert process.stderr.readline() == f"beanpole: job {id} is held; Ctrl-C gives it back\n".encode()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, f"{id} ready again\n".encode(), b"")
    assert state_of(client, id) == "ready"
