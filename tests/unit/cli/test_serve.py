"""`beanpole serve` and its mistakes: each is one clear line, whether a flag, the environment or the file has it."""

from pathlib import Path

import pytest

import beanpole
from beanpole.cli import main

USAGE, CANNOT_LISTEN = 5, 111


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment sets up the server."""
    for name in ("BEANPOLE_LISTEN", "BEANPOLE_PORT", "BEANPOLE_CONFIG", "BEANPOLE_HTTP", "BEANPOLE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def refuse(capsys: pytest.CaptureFixture[str], code: int, words: list[str], *flags: str) -> None:
    """Start a server that must be refused, in a line that names the program and holds all `words`."""
    assert main.main(["serve", *flags]) == code
    out, line = capsys.readouterr()
    assert not out
    assert line.count("\n") == 1, line
    assert line.startswith("beanpole")
    assert all(word in line for word in words), line


MISTAKES = [
    (["-p", "abc"], USAGE, ["--port", "'abc'"]),
    (["-p", "65536"], USAGE, ["--port", "65536"]),
    (["-z", "1e3"], USAGE, ["--body-bytes-max", "'1e3'"]),
    (["--bogus"], USAGE, ["--bogus"]),
    (["-x"], USAGE, ["-x"]),
    (["extra"], USAGE, ["extra"]),
    (["-l", ""], USAGE, ["--listen"]),
    (["-l", "[::1"], USAGE, ["--listen", "[::1"]),
    (["-l", "127.0.0.1:65536"], USAGE, ["127.0.0.1:65536"]),
    (["-l", "127.0.0.1:"], USAGE, ["127.0.0.1:"]),
    (["-l", "unix:"], USAGE, ["unix:"]),
    (["--log-format", "xml"], USAGE, ["--log-format", "xml"]),
    (["--config", "missing.toml"], USAGE, ["missing.toml", "No such file"]),
    (["-l", "192.0.2.1"], CANNOT_LISTEN, ["192.0.2.1", "Cannot assign"]),
    (["-l", "no.such.host.invalid"], CANNOT_LISTEN, ["no.such.host.invalid"]),
    (["--shard", "1024"], USAGE, ["--shard", "'1024' is no number of a shard: these are 0 to 1023"]),
    (["--shard", "17,3"], USAGE, ["--shard", "'17,3' does not rise"]),
    (["--shard", "3", "--cluster", "postgresql://a/b", "--node", "a"], USAGE, ["`beanpole cluster init` sets it"]),
    (["--http", "unix:/socket"], USAGE, ["--http", "no TCP address"]),
    (["--http", "[::1"], USAGE, ["--http", "[::1"]),
    (["--http", "127.0.0.1:99999"], USAGE, ["--http", "99999"]),
    (["--http", "127.0.0.1:0", "--http-host", "http://queue"], USAGE, ["--http-host", "'http://queue' is no name"]),
    (["--http", "127.0.0.1:0", "--http-host", "*.queue"], USAGE, ["--http-host", "'*.queue' is no name"]),
    (["--http", "192.0.2.1"], CANNOT_LISTEN, ["192.0.2.1:11380", "Cannot assign"]),
]


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    MISTAKES,
    ids=lambda value: "_".join(map(str, value))[:40] if isinstance(value, list) else value,
)
def test_mistake_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], flags: list[str], code: int, words: list[str]
) -> None:
    refuse(capsys, code, words, "-l", "127.0.0.1", "-p", "0", *flags)


CONFIG_MISTAKES = [
    ("bogus = 1", ["bogus", "port"]),
    ("config = 'other.toml'", ["config"]),
    ("port == 1", ["not TOML"]),
    ("port = 'abc'", ["port", "abc", "server.toml"]),
    ("user = '\udcff'", ["server.toml"]),
    ("port = 70000", ["port", "70000"]),
    ("listen = 5", ["listen"]),
    ("listen = ['[::1']", ["listen", "[::1"]),
    ("log-format = 'xml'", ["log-format", "xml"]),
    ("one-reply-per-send = 'maybe'", ["one-reply-per-send", "maybe"]),
    ("user = 5", ["user"]),
    ("ready-file = 5", ["ready-file"]),
    ("body-bytes-max = 'big'", ["body-bytes-max", "big"]),
    ("shard = 1024", ["shard", "0 to 1023"]),
    ("shard = true", ["shard must be a whole number or a string, not true"]),
    ("verbose = true", ["verbose must be a whole number, not true (see beanpole serve --help)"]),
]


@pytest.mark.parametrize(("text", "words"), CONFIG_MISTAKES)
def test_mistake_in_the_file_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, words: list[str]
) -> None:
    path = tmp_path / "server.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    refuse(capsys, USAGE, words, "--config", str(path))


def test_mistake_in_the_environment_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEANPOLE_BODY_BYTES_MAX", "big")
    refuse(capsys, USAGE, ["body-bytes-max", "big"])


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_version(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert main.main(["serve", flag]) == 0
    assert capsys.readouterr() == (f"beanpole {beanpole.__version__}\n", "")
