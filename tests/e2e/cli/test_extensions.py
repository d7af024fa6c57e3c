"""The verbs and options that need more than beanstalkd's commands, with a server that has it and with beanstalkd."""

import json
import os
from pathlib import Path

import pytest

from beanpole import Client, NotFoundError
from tests.e2e.cli.conftest import Cli
from tests.e2e.process import wait_until


def lacks(cli: Cli, client: Client[bytes], *needs: str) -> bool:
    """Whether the server lacks something; what the tests of beanstalkd expect of a verb then is in each."""
    assert (cli.server.name == "beanpole") or not client.features()
    return not client.features().issuperset(needs)


def test_put_with_a_key(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "put-job", "put-job.key"):
        assert "does not support put-job" in cli("put", "-t", tube, "--key", "k", "delete 1\r\n", code=1).err
        with pytest.raises(NotFoundError):
            client.peek_ready()
        return
    [first] = cli("put", "-t", tube, "--key", "k", "--json", "a").objects
    assert first["outcome"] == "inserted"
    assert cli("put", "-t", tube, "--key", "k", "--json", "b").objects == [first | {"outcome": "exists"}]
    assert cli("put", "-t", tube, "--key", "k", "--taken", "replace", "c").lines == [str(first["id"])]
    assert "a key has" in cli("put", "-t", tube, "--key", "a b", "a", code=5).err
    assert client.peek(first["id"]).body == b"c"
    assert client.find_job(tube, "k").id == first["id"]


def test_put_once(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "put-job.once", "put-job.for"):
        assert "does not support put-job" in cli("put", "-t", tube, "--once", "t", "x", code=1).err
        return
    [first] = cli("put", "-t", tube, "--once", "t", "--for", "1h", "--json", "a").objects
    client.delete(first["id"])
    assert cli("put", "-t", tube, "--once", "t", "--json", "b").objects == [first | {"outcome": "exists"}]
    for wrong in (("--for", "5", "a"), ("--once", "t", "a", "b"), ("--once", "t", "--each-line")):
        assert cli("put", "-t", tube, *wrong, code=5).err


def test_headers_go_through_export_and_import(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "put-job.meta"):
        assert "does not support put-job" in cli("put", "-t", tube, "--meta", "a=b", "x", code=1).err
        return
    meta = {"tenant": "acme", "note": "50 %, ü"}
    cli("put", "-t", tube, "--meta", "tenant=acme", "--meta", "note=50 %, ü", "x")
    cli("import", f"{tube}-b", given=cli("export", tube).out)
    assert [each["meta"] for each in cli("list", f"{tube}-b", "--json").objects] == [meta]
    assert [each["meta"] for each in cli("peek", f"{tube}-b", "--json").objects] == [meta]


def test_put_with_an_expiry(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "put-job", "put-job.expire"):
        assert "does not support put-job" in cli("put", "-t", tube, "--expire", 5, "delete 1\r\n", code=1).err
        with pytest.raises(NotFoundError):
            client.peek_ready()
    else:
        assert cli("put", "-t", tube, "--expire", 3600, "a").lines


def test_put_at_a_moment(cli: Cli, client: Client[bytes], tube: str) -> None:
    """On any server, for a delay will do."""
    [late], [past] = (cli("put", "-t", tube, "--at", at, "a").lines for at in ("2099-12-31T18:00+02:00", "1.5"))
    assert [client.stats_job(int(id)).state for id in (late, past)] == ["delayed", "ready"]
    for wrong in (("--at", "2099-12-31T18:00"), ("--at", "5", "--delay", "3"), ("--within", "5")):
        assert cli("put", "-t", tube, *wrong, "a", code=5).err


def test_put_with_a_fraction_of_a_second(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "put-job", "put-job.delay"):
        assert "put-job" in cli("put", "-t", tube, "--delay", 0.5, "a", code=1).err
    else:
        [found] = cli("put", "-t", tube, "--delay", 99.5, "--json", "a").objects
        assert found["outcome"] == "inserted"
        assert client.stats_job(found["id"]).state == "delayed"


def test_list(cli: Cli, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"a", b"b", b"c"], 7)
    later = client.put(b"later", 8, 100)
    assert [line.split("\t")[:3] for line in cli("list", tube).lines[1:]] == [
        *([str(id), "ready", "7"] for id in ids),
        [str(later), "delayed", "8"],
    ]
    found = cli("list", tube, "--state", "ready", "--after", ids[0], "--limit", 1, "--json").objects
    assert [each["id"] for each in found] == [ids[1]]
    bodies = [json.loads(line)["body"] for line in cli("list", tube, "--bodies", "--json").lines]
    assert bodies == ["a", "b", "c", "later"]
    if lacks(cli, client, "list-jobs", "list-jobs.order"):
        assert "list-jobs" in cli("list", tube, "--next", code=1).err
    else:
        assert cli("list", tube, "--next", "--limit", 1).lines[1].startswith(f"{ids[0]}\t")


def test_list_searches_bodies_and_keys(cli: Cli, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"needle", b"x" * 1_000 + b"needle", b"hay", b"last needle"])
    keyed = [] if lacks(cli, client, "put-job.key") else [client.put(b"hay", key="of-needles")]
    assert [line.split("\t")[0] for line in cli("list", tube, "--text", "needle").lines[1:]] == [
        *map(str, [*ids[:2], ids[3], *keyed])
    ]
    found = cli("list", tube, "--text", "needle", "--after", ids[0], "--limit", 2, "--bodies", "--json").objects
    assert [each["id"] for each in found] == [ids[1], ids[3]]
    assert cli("list", tube, "--text", "straw").lines == [cli("list", tube).lines[0]]


def test_change(cli: Cli, client: Client[bytes], tube: str) -> None:
    one, two = client.put_many([b"a", b"b"])
    if lacks(cli, client, "change-job", "change-body"):
        assert "change-job" in cli("change", one, two, "--priority", 5, code=1).err
        assert "change-body" in cli("change", one, "--body", "delete 1\r\n", code=1).err
        assert client.peek(one).body == b"a"
        return
    assert cli("change", one, two, "--priority", 5, "--body", "c").lines == [f"{one} changed", f"{two} changed"]
    assert [(client.peek(id).body, client.stats_job(id).pri) for id in (one, two)] == [(b"c", 5), (b"c", 5)]
    cli("change", one, "--tube", tube + "y", "--delay", 50.5)
    stats = client.stats_job(one)
    assert (stats.tube, stats.state) == (tube + "y", "delayed")
    assert "there is no job" in cli("change", 2**60, two, "--body", "-", given=b"from stdin", code=2).err
    assert client.peek(two).body == b"from stdin"


def test_cancel(cli: Cli, client: Client[bytes], tube: str) -> None:
    id, other = client.put_many([b"x", b"y"], tube=tube)
    client.reserve_job(id)
    if lacks(cli, client, "cancel-job", "cancel-key"):
        assert "cancel-job" in cli("cancel", id, code=1).err
        assert "cancel-key" in cli("cancel", tube, "--key", "k", code=1).err
        return
    keyed = client.put(b"z", tube=tube, key="k")
    client.reserve_job(keyed)
    assert cli("cancel", id, other).lines == [f"{id} cancelled", f"{other} cancelled"]
    assert cli("cancel", tube, "--key", "k", "--json").objects == [{"id": keyed, "result": "cancelled"}]
    assert cli("cancel", id, code=2).err == f"beanpole: there is no job {id}\n"
    assert cli("cancel", tube, "--key", "k", code=2).err == f"beanpole: no job of {tube} has the key k\n"
    for wrong in ([tube], [id, "--key", "k"], [tube, tube, "--key", "k"], [tube, id, "--key", "k"]):
        assert "give IDs, or a TUBE and --key" in cli("cancel", *wrong, code=5).err


def test_snooze_and_fail(cli: Cli, client: Client[bytes]) -> None:
    id = client.put(b"a", 7)
    if lacks(cli, client, "snooze-job", "fail-job"):
        assert "snooze-job" in cli("snooze", id, code=1).err
        assert "fail-job" in cli("fail", id, "--reason", "delete 1", code=1).err
        assert client.stats_job(id).reserves == 0
        return
    assert cli("snooze", id, "--delay", 60).lines == [f"{id} snoozed"]
    stats = client.stats_job(id)
    assert (stats.state, stats.pri, stats.delay) == ("delayed", 7, 60)
    assert cli("fail", id, "--reason", "too late", "--delay", 0).lines == [f"{id} failed"]
    assert client.stats_job(id).state == "ready"
    assert cli("fail", id, "--dead").lines == [f"{id} dead"]
    assert client.stats_job(id).state == "buried"
    other = client.put(b"b")
    assert cli("fail", id, other, "--dead", "--json").objects == [
        {"id": id, "result": "dead"},
        {"id": other, "result": "dead"},
    ]


def test_explain(cli: Cli, client: Client[bytes], tube: str) -> None:
    first, second = client.put_many([b"a", b"b"])
    if lacks(cli, client, "explain", "explain-tube"):
        assert "does not support explain" in cli("explain", first, code=1).err
        return
    client.pause_tube(tube, 1000)
    head, *reasons = cli("explain", second).lines
    assert head == f"job {second} of {tube}: ready, number 2 in the line"
    assert reasons[0].startswith("  - paused: the tube is paused for ")
    [found] = cli("explain", second, "--json").objects
    assert (found["id"], found["tube"], found["state"], found["place"]) == (second, tube, "ready", 2)
    assert {each["word"]: each["facts"] for each in found["reasons"]}["order"] == {"before": 1}
    assert {each["word"] for each in found["reasons"]} >= {"paused", "order"}
    head, *reasons = cli("explain", tube).lines
    assert head == f"tube {tube}: 2 ready, 0 reserved, 0 delayed, 0 buried, 1 watching, 0 waiting"
    assert len(reasons) == 2, reasons
    assert "no job" in cli("explain", 2**60, code=2).err
    done = cli("explain", tube + "x", first, code=2)
    assert f"no tube {tube}x" in done.err
    assert done.lines[0].startswith(f"job {first} of {tube}: ready, number 1")


def test_why_a_job_died(cli: Cli, client: Client[bytes], tube: str) -> None:
    dead, fresh = client.put_many([b"a", b"b"])
    if lacks(cli, client, "fail-job", "explain"):
        assert [line.split("\t")[-1] for line in cli("list", tube).lines] == ["why", "", ""]
        assert "failed" not in cli("peek", dead, "--json").objects[0]
        return
    client.fail_job(client.reserve_job(dead), "ValueError: no\n  in line \x1b 3", dead=True)
    assert [line.split("\t")[-1] for line in cli("list", tube).lines] == ["why", "", "ValueError: no"]
    shown = {each["id"]: each for each in cli("list", tube, "--json").objects}
    assert shown[dead]["failed"] == "ValueError: no\n  in line \x1b 3"
    assert "after 1 attempt" in shown[dead]["death"]
    assert "failed" not in shown[fresh]
    [peeked] = cli("peek", dead, "--json").objects
    assert (peeked["failed"], peeked["body"]) == (shown[dead]["failed"], "a")
    explained = cli("explain", dead).lines
    assert explained[-3:-1] == ["  - failed: ValueError: no", "      in line \\x1b 3"]
    assert explained[-1].startswith("  - ended: ")
    assert explained[-1].endswith("ValueError: no")
    [attempt] = shown[dead]["history"]
    assert (attempt["how"], attempt["error"]) == ("failed", "ValueError: no")
    said = cli.shown("peek", dead, stream="stderr").splitlines()
    assert said[0].startswith(f"beanpole: job {dead} of {tube}: buried")
    assert said[-2:] == ["  - failed: ValueError: no", "      in line \\x1b 3"]


def test_redrive(cli: Cli, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"a", b"b", b"c"], 7)
    if lacks(cli, client, "fail-job", "move-jobs"):
        assert "does not support move-jobs" in cli("redrive", tube, code=1).err
        return
    cli("fail", *ids[:2], "--dead", "--reason", "no such address")
    client.bury(client.reserve_job(ids[2]))
    assert cli("redrive", tube, "--count", 1).lines == [f"1 job of {tube} moved back"]
    assert [client.stats_job(id).state for id in ids] == ["ready", "buried", "buried"]
    assert cli("redrive", tube, "--state", "ready", "--json").objects == [{"from": tube, "moved": 0}]
    assert cli("redrive", tube, "--json").objects == [{"from": tube, "moved": 1}]
    assert [client.stats_job(id).state for id in ids] == ["ready", "ready", "buried"]
    assert "no tube" in cli("redrive", tube + "x", code=2).err


def test_redrive_into_a_full_tube(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "fail-job", "move-jobs", "rule.dead", "rule.jobs-max"):
        return
    dead = tube + "-dead"
    client.set_rules(tube, {"dead": dead, "jobs-max": 3})
    ids = client.put_many([b"a", b"b", b"c"], 7)
    cli("fail", *ids, "--dead")
    client.put(b"never died", 7, tube=dead)
    client.put_many([b"d", b"e"], 7)
    done = cli("redrive", dead, code=1)
    assert f"the server moves no more ready jobs back into {tube}; 1 job of {dead} moved back" in done.err
    assert [client.stats_job(id).tube for id in ids] == [tube, dead, dead]
    client.set_rules(tube, {"dead": dead})
    assert cli("redrive", dead).lines == [f"2 jobs of {dead} moved back"]
    client.drop_rules(tube)


def test_list_of_the_dead(cli: Cli, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"a", b"b", b"c"], 7)
    if lacks(cli, client, "fail-job", "list-jobs", "explain"):
        assert "does not support list-jobs" in cli("list", tube, "--dead", code=1).err
        return
    cli("fail", *ids[:2], "--dead", "--reason", "no such\taddress")
    client.bury(client.reserve_job(ids[2]))
    head, *rows = cli("list", tube, "--dead").lines
    assert head == "id\tstate\tpri\tdeath\tfailed"
    assert [row.split("\t")[:3] for row in rows] == [[str(id), "buried", "7"] for id in ids[:2]]
    assert rows[0].endswith(r"no such\taddress")
    assert f"in {tube}, after 1 attempt" in rows[0]
    [found] = cli("list", tube, "--dead", "--limit", 1, "--bodies", "--json").objects
    assert (found["id"], found["failed"], found["body"]) == (ids[0], "no such\taddress", "a")
    assert isinstance(found["died"], float | int)
    assert len(cli("list", tube).lines) == 4


def test_sessions(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "list-sessions"):
        assert "list-sessions" in cli("sessions", code=1).err
        return
    client.name_session("a\xadb \U0001f41d")
    job = client.put(b"x")
    client.reserve_job(job)
    [mine] = [each for each in cli("sessions", "--json").objects if each["jobs_held"] and each["used"] == tube]
    assert (mine["name"], mine["jobs_held"], mine["last_command"]) == ("a\xadb \U0001f41d", 1, "reserve-job")
    assert 0 <= mine["oldest_held"] <= mine["since"]
    assert mine["waiting"] is None
    [line] = [each for each in cli("sessions").lines if f"\t{tube}\t" in each and each.split("\t")[10] == "1"]
    assert line.split("\t")[2] == "a\\xadb \U0001f41d"

    def named_by_us() -> int:
        return sum(f":{os.getpid()} " in each["name"] for each in cli("sessions", "--json").objects)

    wait_until(lambda: named_by_us() == 1, "the command itself, and none of those before it")
    client.delete(job)


def test_jobs_with_a_reason(cli: Cli, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"x"] * 6)
    if lacks(cli, client, "fail-job", "explain", "change-job.tube"):
        assert "does not support explain" in cli("delete", ids[0], "--reason", "No", code=1).err
        for verb in (["kick", tube], ["delete", tube], ["list", tube], ["move", tube, "to"]):
            assert "does not support list-jobs.fields" in cli(*verb, "--reason", "No", code=1).err
        assert client.stats_tube(tube).current_jobs_ready == len(ids)
        return
    cli("fail", *ids[:4], "--dead", "--reason", "NoAnswer: 5 s")
    cli("fail", ids[4], "--dead", "--reason", "NoNumber")

    def seen(name: str = tube) -> dict[str, list[int]]:
        found = cli("list", name, "--json").objects
        return {state: [job["id"] for job in found if job["state"] == state] for state in ("ready", "buried")}

    found = cli("list", tube, "--reason", "NoAnswer", "--limit", 3, "--json").objects
    assert [(job["id"], job["failed"]) for job in found] == [(id, "NoAnswer: 5 s") for id in ids[:3]]
    assert cli("kick", tube, "--reason", "NoAnswer").lines == [f"1 of {tube} kicked"]
    assert cli("kick", ids[1], ids[4], "--reason", "NoAnswer").lines == [f"{ids[1]} kicked"]
    assert cli("redrive", tube, "--reason", "NoAnswer", "--state", "buried", "--count", 1).lines == [
        f"1 job of {tube} moved back"
    ]
    assert seen() == {"ready": [*ids[:3], ids[5]], "buried": ids[3:5]}
    assert cli("move", tube, f"{tube}-b", "--reason", "NoNumber").lines == [f"1 job moved from {tube} to {tube}-b"]
    assert seen(f"{tube}-b") == {"ready": [], "buried": [ids[4]]}
    assert cli("delete", tube, "--reason", "attempt", "--json").objects == [], "our own sentences are no reasons"
    done = cli("delete", ids[5], tube, 2**60, "--reason", "NoAnswer", "--json", code=2)
    assert {each["id"] for each in done.objects} == set(ids[:4])
    assert f"there is no job {2**60}" in done.err
    assert seen() == {"ready": [ids[5]], "buried": []}


FACTS = ("state", "pri", "key", "failed", "why")
"""What `list --json` says of a job that an export keeps."""


@pytest.mark.parametrize("remove", [False, True])
def test_export_keeps_keys_and_reasons(
    cli: Cli, client: Client[bytes], tube: str, tmp_path: Path, *, remove: bool
) -> None:
    """What the server that imports does not know is left out."""
    knows = not lacks(cli, client, "put-job.key", "fail-job", "list-jobs.fields")
    file, other = tmp_path / "jobs", f"{tube}-b"
    if knows:
        client.put(b"keyed", 3, key="k")
        client.put(b"later", 4, 100, key="l\udcff")
        for key, dead in (("m", True), (None, False)):
            failed = client.reserve_job(client.put(b"failed", key=key))
            if client.fail_job(failed, "no answer\n at all", dead=dead) is False:
                client.bury(client.reserve_job(failed.id), 5)

        def known(name: str) -> list[tuple[object, ...]]:
            return [tuple(each.get(fact) for fact in FACTS) for each in cli("list", name, "--json").objects]

        before = known(tube)
        cli("export", tube, "-o", file, *(["--remove"] if remove else []))
        cli("import", "--tube", other, file)
        assert (
            known(other)
            == before
            == [
                ("ready", 3, "k", None, None),
                ("delayed", 4, "l\udcff", None, None),
                ("buried", 65536, "m", "no answer\n at all", "given-up"),
                ("buried", 5, None, "no answer\n at all", None),
            ]
        )
        again = cli("import", other, file, code=1)
        assert again.lines == [f"2 jobs imported into {other}"]
        assert [line.split(":")[1] for line in again.err.splitlines()] == [" line 1", " line 2"]
        assert "line 1: a key has" in cli("import", other, given=b'{"body": "x", "key": "a b"}', code=1).err
    else:
        record = {"body": "x", "state": "buried", "key": "k", "reason": "no answer", "died": 1.5}
        cli("import", other, given=json.dumps(record).encode())
        assert client.stats_tube(other).current_jobs_buried == 1


def test_groups(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "stats-groups"):
        assert "does not support stats-groups" in cli("groups", tube, code=1).err
        return
    client.set_rules(tube, {"group-concurrency": "1", "group-weight": "b=2"})
    ids = [client.put(b"x", group=group) for group in ("a", "a", "b", None)]
    client.reserve_job(ids[2])
    lines = [line.split("\t") for line in cli("groups", tube).lines]
    assert lines[0] == ["group", "ready", "reserved", "delayed", "buried", "weight", "age", "closed"]
    assert [[*line[:6], line[7]] for line in lines[1:]] == [
        ["a", "2", "0", "0", "0", "1", ""],
        ["", "1", "0", "0", "0", "1", ""],
        ["b", "0", "1", "0", "0", "2", "group-concurrency"],
    ]
    [only] = cli("groups", tube, "--group", "a", "--limit", 1, "--json").objects
    assert (only["group"], only["ready"], only["next"], only["closed"]) == ("a", 2, ids[0], [])
    assert cli("groups", "tube:123", code=2).err == "beanpole: there is no tube 123\n"
    listed = [line.split("\t")[:3] for line in cli("list", tube, "--state", "ready").lines]
    assert listed[0] == ["id", "state", "group"]
    assert [line[2] for line in listed[1:]] == ["a", "a", ""]
    assert cli("pause", tube, "--group", "a", "--for", 60).lines == [f"group a of {tube} is paused for 60 s"]
    assert cli("groups", tube, "--group", "a").lines[1].endswith("\tpause")
    assert cli("resume", tube, "--group", "a").lines == [f"group a of {tube} resumed"]
    assert "has no job, and no pause" in cli("pause", tube, "--group", "z", code=2).err
    client.drop_rules(tube)


def test_one_group_alone(cli: Cli, client: Client[bytes], tube: str) -> None:
    if lacks(cli, client, "list-jobs.group", "clear-tube.group"):
        for verb in (("list", tube), ("clear", tube, "-y")):
            client.put(b"a")
            assert "does not support" in cli(*verb, "--group", "g", code=1).err
        return
    one, two, three = [
        client.put_job(b"x", group=group, delay=delay).id for group, delay in (("g", 0), ("h", 0), ("g", 9e6))
    ]
    assert [each["id"] for each in cli("list", tube, "--group", "g", "--json").objects] == [one, three]
    assert [each["id"] for each in cli("list", tube, "--group", "g", "--next", "--json").objects] == [one]
    assert cli("move", tube, f"{tube}-b", "--group", "g", "--json").objects[0]["moved"] == 2
    assert client.stats_job(three).state == "delayed"
    assert cli("clear", tube, "-y", "--group", "g", "--json").objects == [{"tube": tube, "deleted": 0}]
    assert cli("clear", f"{tube}-b", "-y", "--group", "g", "--state", "ready", "--json").objects[0]["deleted"] == 1
    assert [client.peek(id).body for id in (two, three)] == [b"x"] * 2
    for wrong in (("clear", "-y", "--count", "1"), ("move", "u", "--ready"), ("list", "--next", "--state", "delayed")):
        assert cli(wrong[0], tube, *wrong[1:], "--group", "g", code=5).err
