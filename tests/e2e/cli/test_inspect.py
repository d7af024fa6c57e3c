"""`beanpole peek|stats|tubes|list|pause|resume`: what there is, for people and for programs."""

import json
import re

import pytest

from beanpole import Client
from tests.e2e.cli.conftest import Cli


def test_peek_by_id_and_by_tube(cli: Cli, client: Client[bytes], tube: str) -> None:
    ready, delayed, buried = client.put(b"ready"), client.put(b"delayed", delay=100), client.put(b"bu\xffried")
    client.bury(client.reserve_job(buried))
    assert cli("peek", delayed, tube).lines == ["delayed", "ready"]
    assert cli("peek", tube, "--state", "buried", "--raw").out == b"bu\xffried"
    found = cli("peek", "--json", ready, buried).objects
    assert [(each["id"], each["state"], each["tube"]) for each in found] == [
        (ready, "ready", tube),
        (buried, "buried", tube),
    ]
    assert (found[0]["body"], found[1]["body_base64"]) == ("ready", "YnX/cmllZA==")


def test_line_end_of_a_body_is_not_doubled(cli: Cli, client: Client[bytes]) -> None:
    assert cli("peek", client.put(b"line\n")).out == b"line\n"
    assert cli("peek", client.put(b"line"), "--raw").out == b"line"


def test_peek_of_nothing(cli: Cli, client: Client[bytes], tube: str) -> None:
    id = client.put(b"x")
    done = cli("peek", 987654321, id, code=2)
    assert (done.out, done.err) == (b"x\n", "beanpole: there is no job 987654321\n")
    assert cli("peek", tube, "--state", "buried", code=2).err == f"beanpole: no job of {tube} is buried\n"


def test_stats(cli: Cli, client: Client[bytes], tube: str) -> None:
    id = client.put(b"x", ttr=77)
    [server] = cli("stats", "--json").objects
    assert server["total-jobs"] == client.stats().total_jobs > 0
    assert server["draining"] is False
    assert isinstance(server["rusage-utime"], float)
    assert cli("stats", tube, "--json").objects[0]["total-jobs"] == 1
    lines = cli("stats", id).lines
    assert lines[0] == "key\tvalue"
    assert f"tube\t{tube}" in lines
    assert "ttr\t77" in lines
    assert cli("stats", "tube:123", code=2).err == "beanpole: there is no tube 123\n"
    assert cli("list", "tube:123", code=2).out == b"", "no heading of what is not there"
    assert cli("stats", 987654321, code=2).err == "beanpole: there is no job 987654321\n"


def test_rights_of_a_server_without_users(cli: Cli) -> None:
    assert "the server has no users" in cli("rights", code=1).err


def test_tubes(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * 3)
    client.put(b"x", delay=100)
    lines = [line.split("\t") for line in cli("tubes").lines]
    assert lines[0] == [
        "tube",
        "ready",
        "reserved",
        "delayed",
        "buried",
        "waiting",
        "using",
        "watching",
        "paused",
        "total",
    ]
    assert [tube, "3", "0", "1", "0", "0", "1", "1", "0", "4"] in lines
    names = [line[0] for line in lines[1:]]
    assert names == sorted(names)
    found = {each["name"]: each for each in cli("tubes", "--json").objects}
    assert found[tube]["current-jobs-ready"] == 3
    totals = [int(line.split("\t")[-1]) for line in cli("tubes", "--sort", "total").lines[1:]]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize("wide", ["", "日本"])
def test_table_on_a_terminal(cli: Cli, client: Client[bytes], tube: str, wide: str) -> None:
    client.put(b"\x1b[31mred\nline" + wide.encode())
    shown = cli.shown("list", tube, "--bodies")
    assert "─" in shown
    assert "\\x1b[31mred" in shown
    assert " ready " in shown
    assert "[31m" not in shown.replace("\\x1b[31m", "")
    assert wide in shown
    head, line, *_ = [re.sub(r"\x1b\[\d+m", "", each) for each in shown.splitlines()]
    assert head.split()[:2] == ["id", "state"]
    assert set(line) == {"─"}


def test_body_on_a_terminal_does_nothing_to_it(cli: Cli, client: Client[bytes], tube: str) -> None:
    body = "\x1b]0;title\x07\x1b[2J\u009b2J \u202egnp.exe\tü\r\nrm -rf\rls\n".encode() + b"\x9b2J"
    id = client.put(body)
    escaped = "\\x1b]0;title\\x07\\x1b[2J\\x9b2J \\u202egnp.exe\tü\nrm -rf\\rls\n\\x9b2J\n"
    for verb in ("peek", "reserve"):
        assert cli.shown(verb, tube) == escaped
        assert cli(verb, tube).out == body + b"\n"
    raw = cli.shown("peek", id, "--raw").encode(errors="surrogateescape")
    assert raw.replace(b"\r", b"") == body.replace(b"\r", b"")


# --- list -------------------------------------------------------------------------------------------------------------


def test_jobs_in_every_state(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * 3000, tube=f"{tube}-noise")
    ids = [client.put(b"ready"), client.put(b"x", delay=100), client.put(b"x"), client.put(b"held")]
    client.put_many([b"x"] * 3000, tube=f"{tube}-noise")
    ids.append(client.put(b"later", priority=9))
    client.bury(client.reserve_job(ids[2]))
    client.reserve_job(ids[3])
    found = cli("list", tube, "--json").objects
    wanted = zip(
        [ids[0], ids[4], ids[3], ids[1], ids[2]], ["ready"] * 2 + ["reserved", "delayed", "buried"], strict=True
    )
    assert [(each["id"], each["state"]) for each in found] == list(wanted)
    done = cli("list", tube, "--state", "ready", "--bodies")
    assert [line.split("\t")[-1] for line in done.lines] == ["body", "ready", "later"]
    assert done.err == ""
    assert cli("list", tube, "--state", "buried", "--state", "delayed").lines[1].split("\t")[:2] == [
        str(ids[2]),
        "buried",
    ]
    client.delete(ids[3])


def test_jobs_says_what_it_has_not_found(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * 1_024, tube=f"{tube}-noise")  # so that the ids in front of the first are 1024, too
    first = client.put(b"x", priority=1)
    client.put_many([b"x"] * 10_000, tube=f"{tube}-noise")
    middle = client.put(b"x", priority=2)
    client.put_many([b"x"] * 10_000, tube=f"{tube}-noise")
    last = client.put(b"x", priority=3)
    if "list-jobs" not in client.features():
        done = cli("list", tube, "--scan", 1024, "--json", code=1)
        assert [each["id"] for each in done.objects] == [first]
        assert f"2 jobs of {tube} not found among 1024 ids;" in done.err
    assert [each["id"] for each in cli("list", tube, "--json").objects] == [first, middle, last]
    done = cli("list", tube, "--from", middle, "--to", last, "--json")
    assert [each["id"] for each in done.objects] == [middle, last]
    assert done.err == ""


# --- pause, resume ----------------------------------------------------------------------------------------------------


def test_pause_and_resume(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put(b"x")
    assert cli("pause", tube, "--for", "1m40s").lines == [f"{tube} is paused for 100 s"]
    assert client.stats_tube(tube).pause == 100
    cli("reserve", tube, "--timeout", 0, code=3)
    assert json.loads(cli("resume", tube, "--json").out) == {"tube": tube, "pause": 0}
    cli("reserve", tube, "--timeout", 0)
    assert cli("resume", tube).lines == [f"{tube} resumed"]


def test_scale_says_how_many_workers_a_tube_needs(cli: Cli, client: Client[bytes], tube: str) -> None:
    for _ in range(600):
        client.put(b"x")
    client.delete(client.reserve())
    [found] = cli("scale", tube, "--interval", "0.1s", "--drain", "1s", "--slots", "600", "--json").objects
    assert (found["tube"], found["workers"], found["backlog"], found["limit"]) == (tube, 1, 599, "")
    assert cli("scale", tube, "--interval", "0.1s").out.startswith(b"1 worker: ")
    done = cli("scale", "no-such-tube", "--interval", "0.1s", code=2)
    assert done.err == "beanpole: there is no tube no-such-tube\n"
