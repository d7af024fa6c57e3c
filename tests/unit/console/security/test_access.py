"""Tokens, cookies, and how long wrong tokens wait."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from beanpole.console import limits
from beanpole.console.security.access import (
    REFUSALS_MAX,
    WRONG_TOKEN_FORGOTTEN_S,
    WRONG_TOKEN_PEERS_MAX,
    Access,
    Attempts,
    Session,
)
from beanpole.console.settings import Clock

ANN, BOB = "a" * 16, "b" * 16


@dataclass
class World:
    """A file of tokens, and what time it is."""

    path: Path
    now_s: float = 1_000_000.0
    lines: list[str] = field(default_factory=list)

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        assert (level, exc_info) in {("error", None), ("info", None), ("warning", None)}
        self.lines.append(f"{event} {about}")

    def access(self) -> Access:
        """A console that has just started."""
        return Access(self.path, self, Clock(lambda: int(self.now_s * 1e9), lambda: self.now_s))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two people have tokens."""
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(f"ann {ANN}\nbob.b-b {BOB}\n")
    return World(path)


def logged_in(access: Access, text: str = ANN) -> Session:
    token = access.token(text)
    assert token is not None
    return access.begin(token)


def test_a_token_is_known_only_as_a_whole(world: World) -> None:
    access = world.access()
    found = access.token(BOB)
    assert found is not None
    assert found.name == "bob.b-b"
    for text in ("", ANN[1:], ANN + "a", ANN.upper(), ANN + "\n", "\ud800" * 16, "ann", f"ann {ANN}"):
        assert access.token(text) is None, text


def test_a_cookie_outlives_a_restart_and_says_who_it_is(world: World) -> None:
    session = logged_in(world.access(), BOB)
    again = world.access().session(session.cookie)
    assert again == session
    assert again is not None
    assert again.visitor.may_change
    assert again.visitor.name == "bob.b-b"
    assert len(again.visitor.form_token) == 64
    assert BOB not in session.cookie


def test_no_two_sessions_are_the_same(world: World) -> None:
    access = world.access()
    first, second = logged_in(access), logged_in(access)
    assert first.cookie != second.cookie
    assert first.visitor.form_token != second.visitor.form_token
    assert first.visitor.form_token not in first.cookie


def forged(cookie: str) -> dict[str, str]:
    """Cookies that nobody was given."""
    signature, ends, nonce, name = cookie.split(".", 3)
    return {
        "empty": "",
        "nothing": "...",
        "no signature": f".{ends}.{nonce}.{name}",
        "another signature": f"{signature[::-1]}.{ends}.{nonce}.{name}",
        "a later end": f"{signature}.{int(ends) + 1}.{nonce}.{name}",
        "an end without end": f"{signature}.{'9' * 5000}.{nonce}.{name}",
        "an end in other digits": f"{signature}.²{ends}.{nonce}.{name}",
        "another number": f"{signature}.{ends}.{nonce[::-1]}.{name}",
        "another name": f"{signature}.{ends}.{nonce}.bob.b-b",
        "an unknown name": f"{signature}.{ends}.{nonce}.eve",
        "no name": f"{signature}.{ends}.{nonce}.",
        "too few parts": f"{signature}.{ends}.{nonce}",
        "more behind it": cookie + " ",
        "not ASCII": cookie + "ä",
    }


def test_a_forged_cookie_is_none(world: World) -> None:
    access = world.access()
    session = logged_in(access)
    assert access.session(session.cookie)
    for kind, text in forged(session.cookie).items():
        assert access.session(text) is None, kind


def test_a_cookie_holds_for_twelve_hours(world: World) -> None:
    access = world.access()
    session = logged_in(access)
    world.now_s += limits.SESSION_S - 1
    assert access.session(session.cookie)
    world.now_s += 1
    assert access.session(session.cookie) is None


def test_a_cookie_ends_with_its_token_and_no_other_does(world: World) -> None:
    access = world.access()
    ann, bob = logged_in(access), logged_in(access, BOB)
    world.path.write_text(f"ann {'c' * 17}\nbob.b-b {BOB}\n")
    assert access.session(ann.cookie) is None
    assert access.session(bob.cookie) == bob
    world.path.write_text(f"ann {'c' * 17}\nann {ANN}\nbob.b-b {BOB}\n")
    assert access.session(ann.cookie) == ann


def test_an_ended_session_is_over_for_every_copy_of_its_cookie(world: World) -> None:
    access = world.access()
    session, other = logged_in(access), logged_in(access)
    access.end(session)
    assert access.session(session.cookie) is None
    assert access.session(other.cookie) == other


def test_a_file_that_has_become_bad_lets_nobody_in_and_is_logged_once(world: World) -> None:
    access = world.access()
    session = logged_in(access)
    world.path.write_text("ann\n")
    for _ in range(3):
        assert access.session(session.cookie) is None
        assert access.token(ANN) is None
    assert len(world.lines) == 1
    assert "tokens unreadable" in world.lines[0]
    assert "line 1" in world.lines[0]
    world.path.write_text(f"ann {ANN}\n")
    assert access.session(session.cookie) == session
    assert [line.split(" {")[0] for line in world.lines] == ["tokens unreadable", "tokens readable"]


def test_refused_logins_are_logged_without_flooding_the_log(world: World) -> None:
    refusals = world.access().refusals
    for _ in range(3):
        refusals.note("", "10.0.0.7", "nobody has this token")
    refusals.note("ann", "10.0.0.7", "may not see this")
    world.now_s += 1
    for number in range(2 * REFUSALS_MAX):
        refusals.note("", f"10.0.1.{number}", "nobody has this token")
    world.now_s += 1
    refusals.note("", "10.0.0.7", "nobody has this token")
    assert world.lines[0] == "login refused {'who': '-', 'peer': '10.0.0.7', 'reason': 'nobody has this token'}"
    assert world.lines[1].endswith("'reason': 'may not see this', 'left_out': 2}")
    assert len(world.lines) == 2 + REFUSALS_MAX + 1
    assert f"'left_out': {REFUSALS_MAX}" in world.lines[-1]


@pytest.fixture
def now() -> tuple[list[int], Callable[[], int]]:
    at = [0]
    return at, lambda: at[0]


def test_each_wrong_token_waits_longer_up_to_five_seconds(now: tuple[list[int], Callable[[], int]]) -> None:
    at, clock = now
    attempts = Attempts(clock)
    waits = [attempts.wrong("1.2.3.4") for _ in range(100)]
    assert waits[:7] == [0.25, 0.5, 1, 2, 4, 5, 5]
    assert set(waits[5:]) == {5}
    assert attempts.wrong("5.6.7.8") == 0.25
    at[0] += WRONG_TOKEN_FORGOTTEN_S * 10**9
    assert attempts.wrong("1.2.3.4") == 5
    at[0] += WRONG_TOKEN_FORGOTTEN_S * 10**9 + 1
    assert attempts.wrong("1.2.3.4") == 0.25


def test_only_so_many_peers_are_remembered(now: tuple[list[int], Callable[[], int]]) -> None:
    attempts = Attempts(now[1])
    for number in range(WRONG_TOKEN_PEERS_MAX + 1):
        assert attempts.wrong(str(number)) == 0.25
    assert attempts.wrong("1") == 0.5
    assert attempts.wrong("0") == 0.25
