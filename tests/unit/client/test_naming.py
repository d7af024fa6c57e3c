"""What a client calls itself, and which servers get to know it."""

import os
import socket
from typing import Any

import pytest

import beanpole
from beanpole import ArgumentError, ConnectionLostError, SessionInfo, UnexpectedReplyError, UnsupportedError
from beanpole.client.base import own_name
from tests.unit.client.peer import ASK, CLOSE, NONE, Maker, Steps, has, listing, ok

NAME = b"name-session w\r\n"
CLEAR = (b"clear-tube t\r\n", b"CLEARED 1\r\n")
FEATURES = ("clear-tube", "name-session")

LIST = (
    b'---\n- number: 4\n  name: "a \\"b\\" \\u2028"\n  peer: "1.2.3.4:5"\n  since: 12.5\n  last-command: none\n'
    b"  last-command-age: 12.5\n  used: 17\n  watched: []\n  watched-count: 0\n  jobs-held: 0\n"
    b'- number: 5\n  name: ""\n  peer: "console"\n  since: 3\n  last-command: reserve\n  last-command-age: 1\n'
    b"  used: default\n  watched: [default, 8]\n  watched-count: 30\n  waiting: 1\n  jobs-held: 2\n"
    b"  oldest-held: 2.25\n  lost: 3\n  until: 7.5\n"
    b"  later: news\n"
)


def test_the_name_goes_with_the_first_command_that_the_server_is_asked_for(make: Maker) -> None:
    first: Steps = [
        (b"stats-job 1\r\n", b"NOT_FOUND\r\n"),
        has(*FEATURES),
        (NAME + b"clear-tube t\r\n", b"NAMED\r\nCLEARED 1\r\n"),
        CLEAR,
        (b"delete 1\r\n", CLOSE),
    ]
    second: Steps = [
        (ASK, listing(*FEATURES)),
        (NAME + b"use u\r\nput 65536 0 60 1\r\nx\r\n", b"NAMED\r\nUSING u\r\nINSERTED 1\r\n"),
        CLEAR,
    ]
    with make.to_peer(first, second, name="w") as client:
        with pytest.raises(beanpole.NotFoundError):
            client.stats_job(1)
        assert [client.clear_tube("t"), client.clear_tube("t")] == [1, 1]
        with pytest.raises(ConnectionLostError):
            client.delete(1)
        assert client.put("x", tube="u") == 1
        assert client.clear_tube("t") == 1


@pytest.mark.parametrize("step", [NONE, has("clear-tube")])
def test_a_server_that_has_no_names_is_not_sent_one(make: Maker, step: tuple[bytes, bytes]) -> None:
    with make.to_peer([step, (b"delete 2\r\n", b"DELETED\r\n")], name="w") as client:
        client.features()
        client.delete(2)
        with pytest.raises(UnsupportedError, match="name-session"):
            client.name_session("x")
        with pytest.raises(UnsupportedError, match="list-sessions"):
            client.list_sessions()


def test_an_empty_name_is_not_sent(make: Maker) -> None:
    with make.to_peer([has(*FEATURES), CLEAR], name="") as client:
        assert client.clear_tube("t") == 1


def test_without_a_name_it_says_where_it_runs(make: Maker) -> None:
    begin = f"name-session {socket.gethostname()}:{os.getpid()} ".encode()
    name = own_name(f"{beanpole.client.base.program()} {beanpole.__version__}").encode()
    assert b"name-session " + name == begin + name.split(b" ", 1)[1]
    with make.to_peer(
        [has(*FEATURES), (b"name-session " + name + b"\r\nclear-tube t\r\n", b"NAMED\r\nCLEARED 1\r\n")]
    ) as client:
        assert client.clear_tube("t") == 1


def test_own_name_is_one_whatever_the_program_is_called() -> None:
    assert own_name("a\nb\x85\udcff").endswith(" a?b??")
    long = own_name("ü" * 300)
    assert 198 < len(long.encode()) <= 200


def test_a_reserve_of_many_has_the_name_in_front(make: Maker) -> None:
    job = b"JOBS 1\r\nJOB 7 1 tube=default state=reserved\r\nx\r\n"
    script: Steps = [has("reserve-many", *FEATURES), (NAME + b"reserve-many 1 0\r\n", b"NAMED\r\n" + job)]
    with make.to_peer(script, name="w") as client:
        assert [job.id for job in client.reserve_many(1, 0)] == [7]


def test_pipeline_has_the_name_once(make: Maker) -> None:
    lines = NAME + b"use a\r\nput 65536 0 60 1\r\nx\r\nclear-tube t\r\n"
    with make.to_peer(
        [has(*FEATURES), (lines, b"NAMED\r\nUSING a\r\nINSERTED 1\r\nCLEARED 1\r\n")], name="w"
    ) as client:
        with client.pipeline() as pipeline:
            put, cleared = pipeline.put("x", tube="a"), pipeline.clear_tube("t")
        assert (put.result(), cleared.result()) == (1, 1)


def test_a_name_that_is_refused_ends_the_connection(make: Maker) -> None:
    with (
        make.to_peer(
            [has(*FEATURES), (NAME + b"clear-tube t\r\n", b"BAD_FORMAT\r\nCLEARED 1\r\n")], name="w"
        ) as client,
        pytest.raises(UnexpectedReplyError, match="name-session"),
    ):
        client.clear_tube("t")


def test_another_name_holds_for_later_connections(make: Maker) -> None:
    first: Steps = [has(*FEATURES), (NAME + b"name-session v\r\n", b"NAMED\r\nNAMED\r\n"), (b"delete 1\r\n", CLOSE)]
    with make.to_peer(
        first, [(ASK, listing(*FEATURES)), (b"name-session v\r\ndelete 1\r\n", b"NAMED\r\nDELETED\r\n")], name="w"
    ) as client:
        client.name_session("v")
        with pytest.raises(ConnectionLostError):
            client.delete(1)
        client.delete(1)


def test_sessions_are_typed(make: Maker) -> None:
    features = ("list-sessions", "list-sessions.after", "list-sessions.limit")
    script = [
        has(*features),
        (b"list-sessions\r\n", ok(LIST)),
        (b"list-sessions after=5 limit=9\r\n", b"OK 4\r\n---\n\r\n"),
    ]
    with make.to_peer(script) as client:
        assert client.list_sessions() == [
            SessionInfo(4, 'a "b" \u2028', "1.2.3.4:5", 12.5, "", 12.5, "17", [], 0, None, 0, None),
            SessionInfo(5, "", "console", 3, "reserve", 1, "default", ["default", "8"], 30, 1, 2, 2.25, 3, 7.5),
        ]
        assert client.list_sessions(5, 9) == []


def test_whose_a_session_is_and_by_what_it_has_come() -> None:
    text = LIST.replace(b"  since: 12.5", b'  user: shop\n  via: "edge \\"1\\""\n  since: 12.5', 1)
    assert [(each.user, each.via) for each in SessionInfo.parse_many(text)] == [("shop", 'edge "1"'), ("", "")]


@pytest.mark.parametrize("text", [b"---\n  number: 1\n", b"---\n- number: x\n", b"---\n- number\n", LIST[:-30], b"x"])
def test_what_is_no_list_of_sessions_is_unexpected(text: bytes) -> None:
    with pytest.raises(UnexpectedReplyError):
        SessionInfo.parse_many(text.replace(b"since", b"sins"))


@pytest.mark.parametrize("name", [" a", "a\nb", "a\x7f", "\x85", "x" * 201, "ü" * 101, "\udcff", 7])
def test_names_that_cannot_be(make: Maker, name: Any) -> None:
    with pytest.raises(ArgumentError, match="a name"):
        make(("127.0.0.1", 1), name=name)
