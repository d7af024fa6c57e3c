"""Requests that are hostile, repeated or too large, and what an error of ours does: it ends its request alone."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from beanpole_ids import limits
from beanpole_ids.app import FAILURE_LOG_S, App
from beanpole_ids.config import load
from beanpole_ids.logs import open_logger
from beanpole_ids.original import wire
from beanpole_ids.rules.sequence import Counting
from beanpole_ids.service import Service
from tests.unit.test_service import HeldStore, World, in_a_world, settle


@in_a_world
async def test_request_that_is_too_deep_is_answered(world: World) -> None:
    for number, depth in enumerate([*range(90, 110), *range(900, 1_100)]):
        data = b'{"action":"get","rule_name":"day","app_name":"n%d","seq":7,"x":' % number
        world.service.receive(
            data + b"[" * depth + b"]" * depth + b"}", lambda reply: world.replies.append(json.loads(reply))
        )
        await settle()
        assert len(world.replies) == number + 1
        assert world.replies[-1]["code"] == (0 if depth < limits.DEPTH_MAX else -1)
        assert world.replies[-1]["seq"] == 7
    assert world.replies[-1]["message"] == "the request is nested deeper than 100"
    assert not world.failures


@in_a_world
async def test_what_is_a_reply_is_not_answered(world: World) -> None:
    """Else two nodes would answer each other for ever, after one datagram with a forged source."""
    await world.ask(), await world.ask(action="monitor"), await world.ask(action=1), await world.ask(rule_name="no")
    sent = [json.dumps(each).encode() for each in world.replies]
    deep = b"[" * limits.DEPTH_MAX * 2 + b"]" * limits.DEPTH_MAX * 2
    sent += [b'{"code":0,"data":"1"}', b'{"code":-1,"message":"system error","x":' + deep + b"}"]
    for each in sent:
        world.service.receive(each, lambda _: pytest.fail("it is answered"))
    await settle()
    assert world.service.dropped["reply"] == len(sent)
    for fields in ({"code": 7}, {"message": "x", "data": 1}, {"code": "0", "data": 1}, {"code": True, "data": 1}):
        assert (await world.ask(**fields))["code"] == 0, "it has fields of its own that no reply has together"


@in_a_world
async def test_salt_that_is_too_long_is_refused(world: World) -> None:
    """A pattern that trims it took 1.5 s for 10 KB."""
    for salt in ("s" * limits.SALT_BYTES_MAX, "\xe4" * (limits.SALT_BYTES_MAX // 2)):
        assert (await world.ask(salt=salt))["code"] == 0
    for salt in ("s" * (limits.SALT_BYTES_MAX + 1), "\xe4" * (limits.SALT_BYTES_MAX // 2 + 1)):
        reply = await world.ask(salt=salt)
        assert (reply["code"], reply["message"]) == (-1, "salt has more than 255 bytes")


@pytest.mark.parametrize("action", ["get", "monitor"])
@in_a_world
async def test_error_of_ours_ends_nothing_but_its_request(
    world: World, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """Whether it is answered at once or has waited for the store."""
    whole = wire.render

    def render(reply: dict[str, Any]) -> bytes:
        if "bad" in reply:
            raise RecursionError("too deep")
        return whole(reply)

    monkeypatch.setattr(wire, "render", render)
    for app in ("new", "new", "newer"):
        world.send(app_name=app, action=action, bad=1)
        world.send(app_name=app, seq=1)
        await settle()
        assert [each.get("seq") for each in world.replies] == [1], "an answer that can't be written is none"
        assert world.replies.pop()["data"][9:] < "0003"
    assert [str(each) for each in world.failures] == ["too deep"] * 3
    assert world.service.counts.failed == 3

    def counter(*_: object) -> None:
        raise LookupError("no counter")

    monkeypatch.setattr(Counting, "counter", counter)
    assert (await world.ask(app_name="newest"))["message"] == "system error: an error of ours; the log has it"
    monkeypatch.undo()
    assert (await world.ask(app_name="newest"))["code"] == 0


@in_a_world
async def test_same_request_id_with_another_shape_or_salt_is_another_request(world: World) -> None:
    for name, shapes in (
        ("q", ({}, {"count": 1})),
        ("z", ({"count": 1}, {})),
        ("s", ({"salt": "a"}, {"salt": "b"})),
    ):
        replies = [await world.ask(request_id=name, **shape) for shape in shapes * 2]
        assert [type(each["data"]) is list for each in replies] == ["count" in shape for shape in shapes * 2]
        data = [str(each["data"]) for each in replies]
        assert data[:2] == data[2:]
        assert data[0][-4:] != data[1][-6:-2]
    assert len(world.service.window.answers) == 6
    assert world.service.counts.numbers == 6


@in_a_world
async def test_reply_that_is_too_large_says_of_what(world: World) -> None:
    text = "\x01" * 11_000
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({}, "the request is too large: its echo does not fit"),
        ({"action": "monitor"}, "the request is too large: its echo does not fit"),
        ({"count": 1_000}, "count is too large: the numbers don't fit"),
        ({"request_id": "r"}, "the request is too large: its echo does not fit"),
    )
    for fields, reason in cases:
        await world.ask(request_id="r")
        request = {"action": "get", "app_name": "a", "rule_name": "day", "x": "X"} | fields
        data = json.dumps(request).replace("X", text).encode()
        world.service.receive(data, lambda reply: world.replies.append(json.loads(reply)))
        await settle()
        reply = world.replies.pop()
        assert (reply["code"], reply["message"].partition(" fit")[0] + " fit") == (-1, reason), fields
    assert world.service.counts.numbers == 1


def test_failed_requests_are_logged_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.toml").write_text('[[rule]]\nname = "r"\ntemplate = "{counter:04}"\n')
    config = load(tmp_path / "rules.toml")
    app = App(tmp_path / "rules.toml", config, open_logger("json"), lambda _: None)
    app.service = Service(config, HeldStore(), lambda: 0, lambda: 0, app.log_failure)
    now_s = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    for _ in range(1_000):
        app.service.record_failure(RecursionError("of ours"))
    now_s += FAILURE_LOG_S
    app.service.record_failure(LookupError("another"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["event"], each["requests"]) for each in lines] == [("request failed", 1), ("request failed", 1_001)]
    assert "RecursionError: of ours" in lines[0]["exception"]
