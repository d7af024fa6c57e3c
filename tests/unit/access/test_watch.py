"""Files of users and tokens that change: they are read when they have settled, and then all or nothing."""

import os
from pathlib import Path

import pytest

from beanpole.access.access import WARNING_S, Access
from beanpole.access.tokens import add
from beanpole.access.watch import AGAIN_S, SETTLED_S, WARNINGS_S, AccessFiles, Watch
from beanpole.errors import AccessError


class Files:
    """The files, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "access.toml"
        self.tokens = folder / "tokens"
        self.now_s = 1_000_000.0
        add(self.tokens, "a")
        self.write("[user.a]\n")
        self.used = AccessFiles(self.path, self.tokens)
        self.changes = 0

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self.path.chmod(0o644)

    def touch(self) -> None:
        """Have the clock of the file go on, which may have steps of milliseconds."""
        self.changes += 1
        os.utime(self.path, ns=(self.changes, self.changes))

    def look(self, seconds: float = 1) -> set[str] | None:
        """Look each second for a time; return the users that were read meanwhile."""
        found = None
        for _ in range(int(seconds)):
            self.now_s += 1
            if self.used.is_due(self.now_s):
                read = self.used.take(self.used.read(), self.now_s)
                found = found if read is None else set(read.users)
        return found

    def reread(self) -> Access | None:
        """Read at once."""
        assert self.used.is_due(self.now_s, at_once=True)
        return self.used.take(self.used.read(), self.now_s)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_files_are_read_when_they_have_settled(files: Files) -> None:
    assert files.look(100) is None
    files.write("[user.a]\n[user.b]\n")
    assert files.look(SETTLED_S - 1) is None
    files.write("[user.a]\n[user.b]\n[user.c]\n")
    assert files.look(SETTLED_S) is None
    assert files.look() == {"a", "b", "c"}
    assert files.look(100) is None
    add(files.tokens, "b")
    assert files.look(SETTLED_S + 1) == {"a", "b", "c"}
    assert len(files.used.access.tokens) == 2


def test_files_are_read_at_once_where_that_is_asked(files: Files) -> None:
    files.write("[user.a]\n[user.b]\n")
    found = files.reread()
    assert found is not None
    assert found is files.used.access
    assert set(found.users) == {"a", "b"}
    assert files.look(100) is None


def test_the_digest_is_that_of_what_is_in_force(files: Files) -> None:
    first = files.used.access.digest
    read = files.used.read()
    files.write("[user.a]\n[user.b]\n")
    files.used.take(read, files.now_s)
    assert files.used.access.digest == first
    files.reread()
    second = files.used.access.digest
    add(files.tokens, "b")
    files.reread()
    assert len({first, second, files.used.access.digest}) == 3


def test_a_user_of_whom_the_same_is_said_stays_the_same_object(files: Files) -> None:
    before = files.used.access.users["a"]
    files.write("[user.a]\n[user.b]\n")
    files.reread()
    assert files.used.access.users["a"] is before
    files.write("[user.a]\nadmin = true\n")
    files.reread()
    assert files.used.access.users["a"].admin


@pytest.mark.parametrize("text", ["", "[user.a]\n[user.b]", "[user.b]\n"])
def test_a_file_that_has_become_wrong_leaves_what_was(files: Files, text: str) -> None:
    before = files.used.access
    files.write(text)
    with pytest.raises(AccessError):
        files.look(SETTLED_S + 1)
    assert files.used.access is before
    assert files.look(AGAIN_S - 1) is None
    with pytest.raises(AccessError):
        files.look(1)
    with pytest.raises(AccessError):
        files.reread()
    files.write("[user.a]\n[user.c]\n")
    assert files.look(SETTLED_S + 1) == {"a", "c"}
    assert files.look(AGAIN_S + 1) is None


def test_the_same_mistake_is_said_once_a_minute(files: Files) -> None:
    files.write("[user.b]\n")
    with pytest.raises(AccessError):
        files.look(SETTLED_S + 1)
    files.touch()
    assert files.look(SETTLED_S + 1) is None
    files.write("[user.b]\nx = 1\n")
    with pytest.raises(AccessError, match="there is no key"):
        files.look(SETTLED_S + 1)


def test_a_file_that_is_gone_leaves_what_was(files: Files) -> None:
    files.path.unlink()
    with pytest.raises(AccessError, match="No such file"):
        files.look(SETTLED_S + 1)
    assert set(files.used.access.users) == {"a"}


def test_what_changes_while_it_is_read_is_read_again(files: Files) -> None:
    assert files.used.is_due(files.now_s, at_once=True)
    found = files.used.read()
    files.write("[user.a]\n[user.b]\n")
    assert files.used.take(found, files.now_s) is files.used.access
    assert files.look(SETTLED_S) is None
    assert files.look() == {"a", "b"}


def test_a_warning_is_given_once_when_its_time_comes(files: Files) -> None:
    files.write("[user.a]\n[user.b]\n")
    add(files.tokens, "b", files.now_s + WARNING_S + WARNINGS_S)
    files.reread()
    assert files.used.warnings(files.now_s) == []
    assert files.used.warnings(files.now_s + WARNINGS_S - 1) == []
    (warning,) = files.used.warnings(files.now_s + WARNINGS_S)
    assert warning.startswith("b sha256:")
    assert files.used.warnings(files.now_s + 2 * WARNINGS_S) == []


def test_files_that_have_changed_and_then_stayed_so_are_to_be_read_once(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("a")
    watch = Watch([file])
    assert not watch.has_settled(0)
    file.write_text("ab")
    assert [watch.has_settled(now_s) for now_s in (1, 3)] == [False, False]
    file.write_text("abc")
    assert [watch.has_settled(now_s) for now_s in (4, 8, 9, 10, 20)] == [False, False, True, False, False]
