"""Tokens: each line is read or refused, and files are changed as a whole."""

import os
import resource
from pathlib import Path
from threading import Thread

import pytest

from beanpole.access import tokens
from beanpole.access.access import WARNING_S
from beanpole.access.file import load
from beanpole.access.tokens import HEADING, Token, add, date_of, digest_of, read, remove
from beanpole.errors import AccessError

DIGEST = "0123456789abcdef" * 4
END = date_of("2027-03-01")
assert END is not None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("rest", "until", "words"),
    [
        ("", None, ""),
        (" until=2027-03-01", END, ""),
        ("\tuntil=2027-03-01T01:00+01:00 ", END, ""),
        (" # of its cron # job", None, "of its cron # job"),
        (" until=2027-03-01T00:00:00Z #", END, ""),
    ],
)
def test_a_line_is_read(path: Path, rest: str, until: float | None, words: str) -> None:
    found = read(written(path, f"# tokens\r\n\n shop sha256:{DIGEST}{rest}\r\n"))
    assert found.lines == {3: Token("shop", bytes.fromhex(DIGEST), until, words)}
    assert found.unfinished is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("shop", "this is not NAME sha256:HEX "),
        (f"shop bp_{'a' * 43}", "this is not NAME sha256:HEX "),
        (f"shop sha256:{DIGEST[1:]}", "this is not NAME sha256:HEX "),
        (f"shop sha256:{DIGEST.upper()}", "this is not NAME sha256:HEX "),
        (f".shop sha256:{DIGEST}", "this is not NAME sha256:HEX "),
        (f"shop sha256:{DIGEST} for=ever", "this is not NAME sha256:HEX "),
        (f"shop sha256:{DIGEST} until=", "this is not NAME sha256:HEX "),
        (f"shop sha256:{DIGEST} until=2027-02-30", "until: a date as in 2026-12-31"),
        (f"shop sha256:{DIGEST} until=tomorrow", "until: a date as in 2026-12-31"),
        (f"b sha256:{'f' * 64}", "this is the token of line 1"),
    ],
)
def test_a_line_that_is_none_is_said_by_its_number_alone(path: Path, line: str, why: str) -> None:
    written(path, f"a sha256:{'f' * 64}\n{line}\n")
    with pytest.raises(AccessError, match=f":2: {why}") as caught:
        read(path)
    assert DIGEST[1:] not in str(caught.value)


@pytest.mark.parametrize("mode", [0o604, 0o602])
def test_a_file_that_others_may_read_or_write_is_refused(path: Path, mode: int) -> None:
    written(path, HEADING).chmod(mode)
    with pytest.raises(AccessError, match=f"others may read or write it: chmod o-rw {path}"):
        read(path)


def test_an_empty_file_is_refused_and_one_without_tokens_is_not(path: Path) -> None:
    with pytest.raises(AccessError, match="tokens: it is empty"):
        read(written(path, "\n"))
    assert read(written(path, HEADING)).lines == {}


def test_a_last_line_without_its_end_is_not_read(path: Path) -> None:
    found = read(written(path, f"a sha256:{'f' * 64}\nshop sha256:{DIGEST}"))
    assert list(found.lines) == [1]
    assert str(found.unfinished) == f"{path}:2: this line has no end, so it is not read"
    with pytest.raises(AccessError, match=":2: this line has no end"):
        add(path, "shop")
    assert len(path.read_text().split("\n")) == 2


def test_a_token_that_was_added_is_its_users(path: Path) -> None:
    before = os.umask(0)
    try:
        secret = add(path, "shop", END, "of its cron job")
    finally:
        os.umask(before)
    other = add(path, "shop")
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret != other
    assert secret not in path.read_bytes()
    assert list(read(path).lines.values()) == [
        Token("shop", digest_of(secret) or b"", END, "of its cron job"),
        Token("shop", digest_of(other) or b""),
    ]


@pytest.mark.parametrize(
    "text", [b"", b"bp_" + b"a" * 42, b"bp_" + b"a" * 44, b"bp_" + b"a" * 42 + b"+", b"bq_" + b"a" * 43]
)
def test_what_is_no_token_has_no_digest(text: bytes) -> None:
    assert digest_of(text) is None


def test_a_token_is_removed_and_all_else_stays(path: Path) -> None:
    add(path, "a")
    path.write_text(f"{path.read_text()}\n# more\n")
    path.chmod(0o640)
    link = path.with_name("link")
    link.symlink_to(path)
    add(link, "b")
    before = path.read_text().splitlines()
    for line, token in read(path).lines.items():
        remove(link, token)
        before.remove(f"{token.user} sha256:{token.digest.hex()}")
        assert line
    assert path.read_text().splitlines() == before == [HEADING.strip(), "", "# more"]
    assert (link.is_symlink(), path.stat().st_mode & 0o777) == (True, 0o640)
    assert sorted(each.name for each in path.parent.iterdir()) == ["link", "tokens"]
    with pytest.raises(AccessError, match=f"the line of a sha256:{'0' * 12} is gone"):
        remove(path, Token("a", bytes(32)))


def test_a_file_whose_last_token_goes_is_not_empty(path: Path) -> None:
    written(path, f"shop sha256:{DIGEST}\n")
    remove(path, Token("shop", bytes.fromhex(DIGEST)))
    assert path.read_text() == HEADING


def test_who_waited_for_a_file_that_was_replaced_changes_the_new_one(path: Path) -> None:
    add(path, "a")
    with tokens.locked(path):
        waiting = Thread(target=add, args=(path, "b"))
        waiting.start()
        tokens.replace(path, HEADING, path.stat())
    waiting.join()
    assert [each.user for each in read(path).lines.values()] == ["b"]


def test_a_disk_that_gets_full_leaves_no_half_line(path: Path) -> None:
    add(path, "a")
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 9, hard))  # then a write is a short one
    try:
        with pytest.raises(OSError, match="No space left"):
            add(path, "b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before


# --- With users -------------------------------------------------------------------------------------------------------

USERS = "[user.shop]\n[user.root]\n"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(USERS)
    path.chmod(0o644)
    return path


def test_who_has_a_token_is_its_user_until_it_ends(path: Path, users: Path) -> None:
    secret = add(path, "shop", 1_000)
    access = load(users, path)
    found = access.by_token(secret, 999.5)
    assert found is not None
    assert (found.user, found.until) == ("shop", 1_000)
    assert access.again(found, 999.5) == found
    assert access.again(found, 1_000) is None
    assert (access.by_token(secret, 1_000), access.by_token(b"bp_" + b"a" * 43, 0)) == (None, None)
    assert access.fault_of(found.evidence, 999) == ""
    assert access.fault_of(found.evidence, 1_000) == f"{access.tokens[digest_of(secret) or b'']} is over"
    assert access.fault_of(bytes(32), 0) == "nobody has this token"


def test_a_token_that_goes_is_asked_again(path: Path, users: Path) -> None:
    secret = add(path, "shop")
    before = load(users, path)
    found = before.by_token(secret, 0)
    assert found is not None
    add(path, "root")
    assert load(users, path).keeps(before)
    remove(path, before.tokens[digest_of(secret) or b""])
    now = load(users, path)
    assert (now.keeps(before), now.again(found, 0)) == (False, None)


def test_a_token_of_nobody_is_refused(path: Path, users: Path) -> None:
    add(path, "shop")
    add(path, "shpo")
    with pytest.raises(AccessError, match="tokens:3: there is no user shpo"):
        load(users, path)


def test_there_is_a_warning_before_a_token_ends(path: Path, users: Path) -> None:
    written(path, f"shop sha256:{DIGEST} until=2027-03-01\nroot sha256:{'f' * 64}\nroot sha256:{'e' * 64}")
    access = load(users, path)
    assert END is not None
    unfinished = f"{path}:3: this line has no end, so it is not read"
    shown = "shop sha256:0123456789ab"
    assert list(access.warnings(END - WARNING_S - 1)) == [unfinished]
    assert list(access.warnings(END - WARNING_S)) == [unfinished, f"{shown} will be over at 2027-03-01T00:00:00Z"]
    assert list(access.warnings(END)) == [
        unfinished,
        f"{shown} was over at 2027-03-01T00:00:00Z",
        (
            "nobody can be shop: it has no certificate, no token and no user of the system, "
            "unless a listener has user=shop"
        ),
    ]
