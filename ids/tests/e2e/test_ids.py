"""The ID service as a process: the wire, crashes, stops, reloads, and whatever a stranger may send."""

import json
import os
import random
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import Ids, answers, running, write_rules
from tests.processes import REPLY_TIMEOUT_S, wait_until


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
