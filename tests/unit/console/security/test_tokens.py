"""The file of tokens."""

import re
from pathlib import Path

import pytest

from beanpole.console.security.tokens import TokenFile, parse, read

A, B = "a" * 16, "b" * 256


def test_a_line_is_a_name_and_a_token_or_a_token_alone() -> None:
    found = parse(f"# who\n\n  ann {A}\n{B}\nann {'c' * 20}\n")
    assert [(each.name, each.secret.decode()) for each in found] == [("ann", A), ("token-2", B), ("ann", "c" * 20)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no token in it"),
        ("# ann " + A, "there is no token in it"),
        (A[1:], "the token in line 1 must have 16 to 256 printable ASCII characters"),
        (f"\nann {B}b", "the token in line 2 must have"),
        ("ann " + "ä" * 16, "the token in line 1 must have"),
        (f"ann b {A}", "line 1 is not NAME TOKEN"),
        (f"an=n {A}", "line 1 is not NAME TOKEN"),
        (f"{'n' * 65} {A}", "line 1 is not NAME TOKEN"),
        (f"ann {A}\nbob {A}", "the token in line 2 is there twice"),
        (f"ann {A}\n" * 4000, "more than 65536 bytes"),
    ],
)
def test_what_is_no_file_of_tokens_is_refused_in_a_sentence_without_them(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        parse(text)
    assert A not in str(refused.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file for tokens, of its user alone."""
    file = tmp_path / "tokens"
    file.touch(0o600)
    return file


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o646, 0o666])
def test_a_file_that_is_open_to_others_is_refused_with_the_command_that_closes_it(path: Path, mode: int) -> None:
    path = path.rename(path.with_name("to kens"))
    path.write_text(f"ann {A}")
    file = TokenFile(path)
    for good in (0o600, 0o400, 0o640):
        path.chmod(good)
        assert [each.name for each in file.tokens()] == ["ann"]
    path.chmod(mode)
    sentence = f"others may read or write {path}, so its tokens are no secret: chmod o-rw '{path}'"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read(path)
    assert (file.tokens(), file.fault) == ((), sentence)


def test_a_file_that_can_not_be_read_is_named(path: Path, tmp_path: Path) -> None:
    path.unlink()
    with pytest.raises(ValueError, match=f"cannot read {path}: No such file"):
        read(path)
    with pytest.raises(ValueError, match="Is a directory"):
        read(tmp_path)
    path.touch(0o600)
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="it is not UTF-8"):
        read(path)
    path.write_text("short")
    with pytest.raises(ValueError, match=f"{path} is no file of tokens: the token in line 1"):
        read(path)


def test_no_token_is_shown(path: Path) -> None:
    path.write_text(f"ann {A}")
    assert A not in repr(read(path))


def test_a_file_is_read_again_when_it_has_changed(path: Path, tmp_path: Path) -> None:
    path.write_text(f"ann {A}")
    file = TokenFile(path)

    def names() -> list[str]:
        return [each.name for each in file.tokens()]

    assert names() == ["ann"]
    assert file.tokens() is file.tokens()
    (tmp_path / "new").touch(0o600)
    (tmp_path / "new").write_text(f"bob {A}")
    (tmp_path / "new").replace(path)
    assert (names(), file.fault) == (["bob"], "")
    path.unlink()
    assert names() == []
    assert "cannot read" in file.fault
    path.touch(0o600)
    path.write_text("short")
    assert names() == []
    assert "line 1" in file.fault
    path.write_text(f"eve {A}")
    assert (names(), file.fault) == (["eve"], "")
