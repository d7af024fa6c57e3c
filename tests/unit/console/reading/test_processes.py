"""Which sessions are of one program."""

from typing import Any

from beanpole.client import SessionInfo
from beanpole.console.reading.sessions import processes_of


def session(number: int, name: str, peer: str, **more: Any) -> SessionInfo:  # noqa: ANN401 - any field
    said: dict[str, Any] = {"since": 1.0, "last_command": "", "last_command_age": 0.0, "used": "default"}
    said |= {"watched": ["default"], "watched_count": 1, "waiting": None, "jobs_held": 0, "oldest_held": None}
    return SessionInfo(**said | {"number": number, "name": name, "peer": peer} | more)


def test_a_program_is_a_name_at_a_host() -> None:
    said = [
        session(1, "web", "10.0.0.1:4001"),
        session(2, "", "[::1]:4002"),
        session(3, "web", "10.0.0.1:4003"),
        session(4, "web", "10.0.0.2:4004"),
        session(5, "", "[::1]:4005"),
        session(6, "", "console"),
    ]
    assert [(each.name, each.host, [one.number for one in each.sessions]) for each in processes_of(said)] == [
        ("web", "10.0.0.1", [1, 3]),
        ("", "[::1]", [2, 5]),
        ("web", "10.0.0.2", [4]),
        ("", "console", [6]),
    ]


def test_a_program_adds_its_sessions_up() -> None:
    idle = session(1, "w", "h:1", since=9.0)
    waits = session(2, "w", "h:2", waiting=4.0, last_command="reserve", last_command_age=4.0, watched=["a", "b"])
    holds = session(3, "w", "h:3", jobs_held=2, oldest_held=7.0, last_command="touch", last_command_age=3.0, used="c")
    more = session(4, "w", "h:4", jobs_held=1, oldest_held=1.0, watched=["b", "c"])
    (found,) = processes_of([waits, idle, holds, more])
    assert found.number == 1, "what a page knows it by, so that it stays open"
    assert (found.jobs_held, found.oldest_held, found.waiting, found.since) == (3, 7.0, [4.0], 9.0)
    assert found.latest is holds
    assert (found.used, found.watched) == (["default", "c"], ["a", "b", "default", "c"])
