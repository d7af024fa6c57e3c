"""The ID service as a process: the wire, crashes, stops, reloads, and whatever a stranger may send."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.e2e.process import Ids, answers, running, write_rules
from tests.processes import REPLY_TIMEOUT_S, START_TIMEOUT_S, environment, wait_until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Ids]:
    """A service with the rules of `process.RULES`."""
    with running(tmp_path, write_rules(tmp_path)) as started:
        yield started


def test_get_echoes_and_counts(service: Ids) -> None:
    first = service.ask(seq=7, other={"x": [1]})
    assert first["code"] == 0
    assert first["message"] == "success"
    assert (first["seq"], first["other"], first["app_name"]) == (7, {"x": [1]}, "a")
    assert first["data"][7:] == "000000"
    assert service.ask(action="create")["data"][7:] == "000001"
    assert service.ask(app_name="b")["data"][7:] == "000000"
    assert service.ask(app_name="A")["data"][7:] == "000000"


def test_keys_come_in_order_of_bytes(service: Ids) -> None:
    reply = service.raw(b'{"zz":1,"rule_name":"order","app_name":"k","action":"get","seq":"1/2"} more')
    keys = list(json.loads(reply))
    assert keys == sorted(keys)
    assert b'"seq":"1/2"' in reply


def test_count_gives_many(service: Ids) -> None:
    data = service.ask(count=1000)["data"]
    assert len(set(data)) == 1000
    assert service.ask(count=1)["data"] == [data[-1][:7] + "001000"]
    for count in (0, -1, 1001, "1", True, 1.5, None):
        assert service.ask(count=count)["code"] == -1


def test_request_id_gets_the_same_number_again(service: Ids) -> None:
    """Hole 19: a lost reply and a second try took two numbers."""
    first = service.ask(request_id="x")
    assert service.ask(request_id="x", seq=2)["data"] == first["data"]
    assert service.ask(request_id="y")["data"] != first["data"]
    assert service.ask(request_id="x", app_name="other")["data"][7:] == "000000"
    batch = service.ask(request_id="x", count=3)["data"]
    assert service.ask(request_id="x", count=3)["data"] == batch


def test_monitor(service: Ids) -> None:
    assert service.ask(action="monitor", app_name="new")["message"] == "not exist"
    service.ask()
    reply = service.ask(action="")
    assert (reply["code"], reply["message"]) == (0, "ok")
    assert reply["data"]["counter"] == 0
    assert reply["data"]["node_offset"] == 0
    assert reply["data"]["remaining"] == 999_999


@pytest.mark.parametrize(
    ("request_bytes", "message"),
    [
        (b"{}", "need action"),
        (b'{"action":1}', "need action"),
        (b'{"action":"get","rule_name":"order"}', "need app_name"),
        (b'{"action":"get","app_name":"a","rule_name":null}', "need rule_name"),
        (b'{"action":"get","app_name":"a","rule_name":"none"}', "system error"),
        (b'{"action":"get","app_name":"a b","rule_name":"order"}', "system error"),
        (b'{"action":"get","app_name":"' + b"a" * 256 + b'","rule_name":"order"}', "system error"),
        (b'{"action":"get","app_name":"a","rule_name":"order","request_id":[]}', "request_id"),
    ],
)
def test_bad_request_is_answered_with_the_reason(service: Ids, request_bytes: bytes, message: str) -> None:
    reply = json.loads(service.raw(request_bytes))
    assert reply["code"] == -1
    assert reply["message"].startswith(message)


def test_exhausted_says_so(service: Ids) -> None:
    """Hole 1, on the wire."""
    assert [service.ask(rule_name="small")["data"] for _ in range(21)] == [f"{each:02}" for each in range(21)]
    for _ in range(3):
        reply = service.ask(rule_name="small")
        assert reply["code"] == -2
        assert reply["message"] == "exhausted: no number is left up to 20; counting starts again: never"


def test_store_down_serves_what_is_reserved_then_refuses(service: Ids) -> None:
    """Holes 3 and 4, on a process."""
    given = [service.ask()["data"] for _ in range(3)]
    engine = sa.create_engine(f"sqlite:///{service.folder}/ids.db")
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE beanpole_ids_counter RENAME TO gone"))
    replies = [service.ask() for _ in range(300)]
    given += [each["data"] for each in replies if each["code"] == 0]
    assert 50 <= len(given) <= 200
    assert replies[-1]["code"] == -3
    assert replies[-1]["message"].startswith("storage: ")
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE gone RENAME TO beanpole_ids_counter"))
    engine.dispose()
    wait_until(lambda: service.ask()["code"] == 0, "numbers go on")
    given += service.ask(count=200)["data"]
    assert len(set(given)) == len(given)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_reload_is_all_or_nothing(service: Ids, number: int) -> None:
    """Hole 16, and reloads that took over half."""
    service.ask(rule_name="small")
    path = service.folder / "rules.toml"
    good = path.read_text()
    path.write_text(good.replace('"{counter:02}"', '"N{counter:02}"').replace("O{year:02}", "O"))
    os.kill(service.popen.pid, number)
    wait_until(lambda: "reload refused" in service.messages(), "the reload is refused")
    assert "does not show the year" in service.messages()
    assert service.ask(rule_name="small")["data"] == "01"
    path.write_text(good.replace('"{counter:02}"', '"N{counter:02}"').replace("maximum = 20", "maximum = 2"))
    os.kill(service.popen.pid, number)
    wait_until(lambda: '"reloaded"' in service.messages(), "the reload is done")
    assert service.ask(rule_name="small")["data"] == "N02"
    assert service.ask(rule_name="small")["code"] == -2
    path.write_text("step = 2\n" + good)
    os.kill(service.popen.pid, number)
    wait_until(lambda: "step has changed" in service.messages(), "the step stays")


def test_never_deaf(service: Ids) -> None:
    """Hole 21: one empty datagram closed the socket for ever; and whatever else may come."""
    chance = random.Random(5)
    valid = b'{"action":"get","app_name":"a","rule_name":"order","seq":1}'
    hostile = [b"", b" ", b"\0", b"{", b"[" * 20_000, b'{"a":' * 10_000, b"{" + b'"' * 20_000, b"x" * 65_000]
    hostile += [b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", b'{"action":"get","a":' + b"9" * 20_000 + b"}"]
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    address = service.socket.getpeername()
    for each in hostile:
        sender.sendto(each, address)
    for _ in range(2_000):
        data = bytearray(valid)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        sender.sendto(bytes(data[: chance.randrange(len(data) + 1)]), address)
    sender.close()
    wait_until(lambda: answers(service, "after"), "it still answers")
    assert service.end() == 0
    assert '"dropped"' in service.messages()


def test_datagram_of_the_largest_size(service: Ids) -> None:
    head, tail = b'{"action":"get","app_name":"a","rule_name":"order","x":"', b'"}'
    largest = head + b"x" * (20_459 - len(head) - len(tail)) + tail
    assert json.loads(service.raw(largest))["code"] == 0
    service.socket.send(largest.replace(b'"x":"', b'"x":"x'))
    assert service.ask(seq="next")["seq"] == "next"


def test_reply_that_does_not_fit_takes_no_number(service: Ids) -> None:
    head, tail = b'{"action":"get","app_name":"f","count":1000,"rule_name":"order","x":["', b'"]}'
    big = head + b"\x01" * (20_000 - len(head)) + tail
    assert json.loads(service.raw(big))["message"].startswith("count is too large")
    assert service.ask(app_name="f")["data"][7:] == "000000"


def check(path: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "beanpole_ids", "check", str(path), *flags]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), check=False, timeout=START_TIMEOUT_S
    )


def test_check(tmp_path: Path) -> None:
    path = write_rules(tmp_path, zone="UTC")
    done = check(path, "--rate", "100", "--at", "1795500000")
    assert done.returncode == 0, done.stderr
    assert "order: first O261124000000  next O261124000001  last O261124999999" in done.stdout
    assert "1000000 numbers each day of UTC, enough for 11.6/s" in done.stdout
    assert "at 100/s: runs out after 10000 s, 2026-11-24 02:46:40+00:00; the cycle ends 2026-11-25" in done.stdout
    path.write_text(path.read_text().replace("{day:02}", ""))
    done = check(path)
    assert done.returncode == 5, "as of `serve`"
    assert "does not show the day" in done.stderr


def test_systemd_hears_when_clients_are_answered(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(REPLY_TIMEOUT_S)
        with running(tmp_path, write_rules(tmp_path), env={"NOTIFY_SOCKET": str(tmp_path / "notify")}):
            assert systemd.recv(100) == b"READY=1"


def test_rule_that_never_ends_holds_up_nobody(tmp_path: Path) -> None:
    """It was stopped in no function of C: the process answered nobody, and SIGTERM was not seen."""
    (tmp_path / "evil.lua").write_text(
        "function min_counter() return 0 end function max_counter() return 9 end function reset_seconds() return 0 end "
        "function create_id(counter, now, salt) if salt == 'evil' then "
        "return (('-'):rep(2000):match('(.-)-(.-)-(.-)x'))"
        " end return counter:generate_counter() end"
    )
    with running(tmp_path, write_rules(tmp_path, more='[[rule]]\nname = "evil"\nlua = "evil.lua"')) as service:
        reply = service.ask(rule_name="evil", salt="evil")
        assert reply["message"].startswith("system error: rule 'evil' was stopped: too m")
        assert service.ask()["code"] == 0
        assert service.ask(rule_name="evil")["data"] == "0"
        for _ in range(20):
            service.socket.send(b'{"action":"get","app_name":"a","rule_name":"evil","salt":"evil"}')
        assert service.end() == 0
