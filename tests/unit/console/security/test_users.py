"""The users of a server as visitors: by which token, until when, and what of the console is theirs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from beanpole.access import tokens
from beanpole.access.watch import SETTLED_S, AccessFiles
from beanpole.console.security.access import Access, Session, visitor_with
from beanpole.console.security.users import Users
from beanpole.console.settings import Clock

KEY = b"k" * 32


@dataclass
class World:
    """The files of a server, and what time it is."""

    folder: Path
    now_s: float = 1_000_000_000.0
    lines: list[str] = field(default_factory=list)

    @property
    def access(self) -> Path:
        return self.folder / "access.toml"

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        assert (level, exc_info) == ("error", None)
        self.lines.append(f"{event} {about}")

    def write(self, users: str) -> None:
        self.access.write_text(users)
        self.access.chmod(0o644)

    def token(self, user: str, lasts_s: float | None = None) -> str:
        until = None if lasts_s is None else self.now_s + lasts_s
        return tokens.add(self.folder / "tokens", user, until).decode()

    def start(self, key: bytes = KEY) -> tuple[Users, Access]:
        """A console that has just started."""
        clock = Clock(lambda: int(self.now_s * 1e9), lambda: self.now_s)
        users = Users(AccessFiles(self.access, self.folder / "tokens"), key, self, clock)
        return users, Access(None, self, clock, users)


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    found.write("[user.ann]\nadmin = true\n[user.bob]\nstats = true\nlook = ['*']\n")
    return found


def logged_in(access: Access, text: str) -> Session:
    token = access.token(text)
    assert token is not None
    return access.begin(token)


ALL = "look = ['*']\nstats = true\n"


@pytest.mark.parametrize(
    ("user", "may_meter", "may_see", "may_change", "rights"),
    [
        ("", False, False, False, ""),
        ("admin = true", True, True, True, "put reserve look manage rules"),
        ("stats = true", True, False, False, ""),
        ("look = ['*']", False, False, False, "look"),
        ("manage = ['*']", False, False, False, "look manage"),
        (ALL, True, True, False, "look"),
        (ALL + "manage = ['a*', 'b']", True, True, False, "look"),
        ("manage = ['*']\nstats = true", True, True, True, "look manage"),
        (ALL + "manage = ['*']\nput = ['*']", True, True, True, "put look manage"),
    ],
)
def test_only_rights_to_all_tubes_count(
    world: World, user: str, *, may_meter: bool, may_see: bool, may_change: bool, rights: str
) -> None:
    world.write(f"[user.ann]\n{user}\n")
    text = world.token("ann")
    token = world.start()[1].token(text)
    assert token is not None
    found = visitor_with(token)
    assert (found.may_meter, found.may_see, found.may_change) == (may_meter, may_see, may_change)
    assert found.rights == set(rights.split())


def test_a_cookie_holds_while_the_key_is_the_same(world: World) -> None:
    text = world.token("ann")
    session = logged_in(world.start()[1], text)
    assert world.start()[1].session(session.cookie) == session
    assert world.start(b"another key")[1].session(session.cookie) is None
    assert text not in session.cookie


def test_a_cookie_ends_with_its_token(world: World) -> None:
    text, other = world.token("ann", lasts_s=60), world.token("ann")
    access = world.start()[1]
    session, lasting = logged_in(access, text), logged_in(access, other)
    world.now_s += 59
    assert access.session(session.cookie) == session
    world.now_s += 1
    assert access.session(session.cookie) is None
    assert access.token(text) is None
    assert access.session(lasting.cookie) == lasting


def changed(world: World, users: Users, change: Callable[[], None]) -> None:
    """Changes a file, and lets the console notice."""

    async def look_twice() -> None:
        await users.look()
        world.now_s += SETTLED_S
        await users.look()

    change()
    asyncio.run(look_twice())


def test_who_is_changed_or_removed_is_so_in_an_open_session_too(world: World) -> None:
    ann, bob = world.token("ann"), world.token("bob")
    users, access = world.start()
    ann_session, bob_session = logged_in(access, ann), logged_in(access, bob)
    file = world.folder / "tokens"
    (line,) = [each for each in tokens.read(file).lines.values() if each.user == "ann"]
    changed(world, users, lambda: tokens.remove(file, line))
    assert access.session(ann_session.cookie) is None
    assert access.token(ann) is None
    changed(world, users, lambda: world.write("[user.ann]\nadmin = true\n[user.bob]\nlook = ['*']\n"))
    found = access.session(bob_session.cookie)
    assert found is not None
    assert not found.visitor.may_see


def test_a_file_that_is_wrong_changes_nothing(world: World) -> None:
    text = world.token("ann")
    users, access = world.start()
    session = logged_in(access, text)
    changed(world, users, lambda: world.write("[user.ann]\nadmin = 1\n"))
    assert access.session(session.cookie) == session
    (line,) = world.lines
    assert "admin" in line
    assert str(world.access) in line
