"""The ID service as a process on each database; and with a database that is killed, hangs, or comes back."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tests.databases import Database
from tests.e2e import patient
from tests.e2e.patient import BLIND, IMPATIENT, PATIENT
from tests.e2e.process import Ids, hammer, running, write_rules
from tests.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, environment, wait_until
from tests.unit.storage.test_store import ORIGINAL_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

LUA = """
function min_counter() return 0 end
function max_counter() return 999999 end
function reset_seconds() return 86400 end
function create_id(counter, now, salt)
    return ("O%02d%02d%02d%06d"):format(now:year() % 100, now:month(), now:day(), counter:generate_counter())
end
"""


def configure(folder: Path, database: Database, batch: int = 100, more: str = "") -> Path:
    """The rules of `process.RULES` on a database, in a folder of their own."""
    folder.mkdir(exist_ok=True)
    path = write_rules(folder, batch, more)
    path.write_text(path.read_text().replace(f"sqlite:///{folder}/ids.db", database.url))
    return path


def start(config: Path) -> "subprocess.CompletedProcess[str]":
    """A start that is expected to fail."""
    limits = PATIENT | {"STORE_LOCK_WAIT_S": 1}  # a lock that is another's stays so
    command = [*patient.COMMAND, json.dumps(limits), "beanpole_ids", "serve", str(config)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=False, timeout=START_TIMEOUT_S
    )


def until_refused(service: Ids) -> tuple[list[str], dict[str, object]]:
    """What is given until nothing more is, and the refusal."""
    given: list[str] = []
    while True:
        reply = service.ask()
        if reply["code"] != 0:
            return given, reply
        given.append(reply["data"])
        assert len(given) <= 200, "more than can be reserved"


def test_graceful_stop_leaves_no_gap(database: Database, tmp_path: Path) -> None:
    """Hole 18."""
    config = configure(tmp_path, database)
    for expected, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)):
        with running(tmp_path, config) as service:
            assert service.ask()["data"][7:] == f"{expected:06}"
            assert service.end(number) == 0


def kill_after(service: Ids, count: int, numbers: list[str]) -> bool:
    """Kills the service when so many numbers have come; returns whether it lives."""
    if len(numbers) < count:
        return True
    service.popen.kill()
    service.popen.wait()
    return False


def test_kill_repeats_nothing(database: Database, tmp_path: Path) -> None:
    """Holes 2 to 6 and 9; and the next one starts at once."""
    config = configure(tmp_path, database, batch=50)
    numbers: list[str] = []
    for run in range(3):
        with running(tmp_path, config) as service:
            # Killed in the midst of requests, whatever it does then; how far it has come by now depends on the machine.
            numbers += hammer(service, partial(kill_after, service, 60 + 47 * run))
    assert len(numbers) > 100
    assert len(set(numbers)) == len(numbers)


def test_second_process_is_refused(database: Database, tmp_path: Path) -> None:
    """Hole 12, and what a step beside it would do."""
    config = configure(tmp_path, database)
    with running(tmp_path, config) as service:
        done = start(config)
        assert done.returncode == 10
        assert "node 0 is in use" in done.stderr
        done = start(configure(tmp_path / "other", database, more="step = 2\noffset = 1"))
        assert done.returncode == 10
        assert "node 0 runs with step 1" in done.stderr
        assert service.ask()["code"] == 0


def test_leased_nodes_repeat_nothing(database: Database, tmp_path: Path) -> None:
    """Two processes of one configuration make numbers that contain their node, and one takes the node of a dead one."""
    more = 'step = 2\noffset = "lease"'
    config = configure(tmp_path, database, 10, more)
    with config.open("a") as file:
        file.write('[[rule]]\nname = "row"\nkind = "snowflake"\n')
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for each in folders:
        each.mkdir()
    given: list[str] = []
    nodes = []
    with running(folders[0], config) as first, running(folders[1], config) as second:
        for service in (first, second):
            given += service.ask(count=30)["data"] + service.ask(rule_name="row", count=100)["data"]
            nodes.append(service.ask(action="monitor")["data"]["node_offset"])
        done = start(config)
        assert done.returncode == 10
        assert "all 2 numbers of nodes are in use" in done.stderr
        first.popen.kill()
        first.popen.wait()
        with running(folders[2], config) as third:
            nodes.append(third.ask(action="monitor")["data"]["node_offset"])
            given += third.ask(count=30)["data"] + third.ask(rule_name="row", count=100)["data"]
            os.kill(third.popen.pid, signal.SIGHUP)
            wait_until(lambda: '"reloaded"' in third.messages(), "the rules are read again")
            given += third.ask(count=30)["data"] + third.ask(rule_name="row", count=100)["data"]
    assert nodes == [0, 1, 0]
    assert len(set(given)) == len(given) == 520


def configure_original(folder: Path, mariadb: Database) -> Path:
    """A configuration of the original, for the first of two nodes."""
    assert mariadb.server
    (folder / "order.lua").write_text(LUA)
    config = {
        "log_prefix": "x", "log_level": 3, "service_host": "127.0.0.1", "service_port": 0, "id_step": 2, "id_offset": 0,
        "database": {
            "host": f"{mariadb.server.folder}/socket", "port": 0, "user": "root", "password": "", "charset": "utf8",
            "dbname": mariadb.url.partition("localhost/")[2].partition("?")[0],
        },
        "rules": [{"name": "order", "lua_file": "order.lua", "batch_save": 100}],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"


def test_original_is_taken_over(mariadb: Database, tmp_path: Path) -> None:
    """The original's configuration and its table, as it left them."""
    mariadb.run(
        ORIGINAL_TABLE,
        "INSERT INTO counter VALUES (0, 818, UNIX_TIMESTAMP(), 'order', 'a'), (1, 901, UNIX_TIMESTAMP(), 'order', 'a')",
    )
    config = configure_original(tmp_path, mariadb)
    with running(tmp_path, config) as service:
        assert service.ask()["data"][7:] == "001102"
        assert service.ask(app_name="A")["data"][7:] == "001102", "its database did not tell A from a"
        assert service.ask(app_name="b")["data"][7:] == "000000"
        assert service.end() == 0
    with running(tmp_path, config) as service:
        assert service.ask()["data"][7:] == "001104"
        assert service.end() == 0
    lines = [json.loads(each) for path in sorted(tmp_path.glob("x.*.log")) for each in path.read_text().splitlines()]
    found = [(each["epoch"], each["event"], each["from"], each["to"]) for each in lines if each["app"] == "a"]
    assert found == [
        (1, "reserved", 1102, 1300),
        (1, "given back", 1104, 1300),
        (2, "reserved", 1104, 1302),
        (2, "given back", 1106, 1302),
    ], "as the original logs what it updates"


def test_way_back_to_the_original(mariadb: Database, tmp_path: Path) -> None:
    """It goes on above ours, and we go on above it when it is given up again: no number twice."""
    mariadb.run(ORIGINAL_TABLE)
    config = configure_original(tmp_path, mariadb)
    export = [sys.executable, "-m", "beanpole_ids", "export-counters", str(config)]
    run = partial(
        subprocess.run, capture_output=True, text=True, env=environment(), check=False, timeout=START_TIMEOUT_S
    )
    with running(tmp_path, config) as service:
        given = service.ask(count=33)["data"]
        assert service.ask(app_name="it's a")["code"] == -1, "as in the original, a name has no space"
        assert service.ask(app_name="(é)")["data"][7:] == "000000"
        done = run(export)
        assert done.returncode == 10
        assert "node 0 runs" in done.stderr
        assert service.end() == 0
    done = run(export)
    assert done.returncode == 0, done.stderr
    mariadb.run(*(each for each in done.stdout.partition("\n")[2].split(";\n") if each))
    with mariadb.connected() as connection:
        rows = connection.exec_driver_sql("SELECT node_offset, counter, app_name FROM counter").all()
        assert sorted((row[0], row[2]) for row in rows) == [(0, "(é)"), (0, "a"), (1, "(é)"), (1, "a")]
        # What the original does: it adds its step for each number, and has saved a batch ahead.
        counters = [row.counter for row in rows if row.app_name == "a"]
        given += [f"{given[0][:7]}{counter + each:06}" for counter in counters for each in range(2, 22, 2)]
        connection.exec_driver_sql(
            "UPDATE counter SET counter = counter + 200, update_time = update_time + 1 WHERE app_name = 'a'"
        )
        connection.commit()
    with running(tmp_path, config) as service:
        given += service.ask(count=100)["data"]
        assert service.ask(app_name="(é)")["data"][7:] == "000002", "it was not used there"
    assert len(set(given)) == len(given) == 153


def test_killed_database(served: Database, tmp_path: Path) -> None:
    """Holes 3 and 4: what is reserved is given, then requests are refused, then all goes on; a kill repeats nothing."""
    assert served.server
    config = configure(tmp_path, served)
    with running(tmp_path, config) as service:
        given = [service.ask()["data"]]
        for _ in range(2):
            served.server.kill()
            some, refusal = until_refused(service)
            given += some
            assert refusal["code"] == -3
            assert str(refusal["message"]).startswith("storage: ")
            served.server.start()
            wait_until(lambda: service.ask()["code"] == 0, "numbers go on")
            given += service.ask(count=30)["data"]
        assert service.end(signal.SIGKILL) == -signal.SIGKILL
    with running(tmp_path, config) as service:
        given += service.ask(count=250)["data"]
        given.append(service.ask()["data"])
        served.server.kill()
        assert service.end() == 0, "a stop does not wait for a database"
        assert "ranges not given back" in service.messages()
        served.server.start()
    with running(tmp_path, config) as service:
        given += service.ask(count=300)["data"]
    assert len(set(given)) == len(given)


def test_hanging_database(served: Database, tmp_path: Path) -> None:
    """Who needs nothing of it does not wait for it; who does is refused after a while."""
    assert served.server
    with running(tmp_path, configure(tmp_path, served), limits=IMPATIENT) as service:
        given = service.ask(count=10)["data"]
        service.ask(app_name="b")
        with served.server.frozen():
            some, refusal = until_refused(service)
            given += some
            assert refusal["code"] == -3
            assert service.ask(app_name="b")["code"] == 0, "it is not held up by those that wait"
        wait_until(lambda: service.ask(app_name="c")["code"] == 0, "numbers go on")
        given += service.ask(count=300)["data"]
        assert len(set(given)) == len(given)
        assert service.end() == 0


def test_owner_of_a_lost_node_ends(database: Database, tmp_path: Path) -> None:
    with running(tmp_path, configure(tmp_path, database), limits=BLIND) as service:
        service.ask()
        database.run("UPDATE beanpole_ids_node SET epoch = epoch + 1")
        assert len({service.ask()["data"] for _ in range(40)}) == 40
        service.socket.send(b'{"action":"get","app_name":"new","rule_name":"order"}')
        assert service.popen.wait(STOP_TIMEOUT_S) == 10
        assert "taken over" in service.messages()


@contextmanager
def starting(folder: Path, config: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A process whose start may take long; what it logs is in `messages`. It is killed if the test has not ended it."""
    command = ["beanpole_ids", "serve", str(config), "--ready-file", str(folder / "ready")]
    with (folder / "messages").open("wb") as output:
        popen = patient.start(PATIENT, *command, stdout=output, stderr=output, env=environment())
    try:
        yield popen
    finally:
        if popen.poll() is None:
            popen.kill()
            popen.wait()


def test_start_waits_for_a_database_that_is_away(served: Database, tmp_path: Path) -> None:
    """When all machines start at once, the service had given up before the database was there."""
    assert served.server
    config, messages = configure(tmp_path, served), tmp_path / "messages"

    def waits() -> bool:
        return "waiting for the database" in messages.read_text()

    served.server.kill()
    with starting(tmp_path, config) as popen:
        wait_until(waits, "it waits", START_TIMEOUT_S)
        served.server.start()
        wait_until((tmp_path / "ready").exists, "it serves", START_TIMEOUT_S)
        popen.terminate()
        assert popen.wait(STOP_TIMEOUT_S) == 0
    served.server.kill()
    with starting(tmp_path, config) as popen:
        wait_until(waits, "it waits again", START_TIMEOUT_S)
        popen.terminate()
        assert popen.wait(STOP_TIMEOUT_S) == 0, "a signal ends the waiting"
    served.server.start()
    wrong = tmp_path / "wrong.toml"
    absent = sa.make_url(served.url).set(database="absent").render_as_string(hide_password=False)
    wrong.write_text(config.read_text().replace(served.url, absent))
    done = start(wrong)
    assert done.returncode == 1, "what is wrong is not waited for"
    assert "cannot use the database" in done.stderr
    assert "waiting" not in done.stderr
