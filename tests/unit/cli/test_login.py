"""What the options and the variables of a login are for, and what is refused before anything is connected."""

from pathlib import Path

import pytest

from beanpole.cli import main
from beanpole.testing import FakeServer
from tests.unit.client.test_login import TOKEN

MAP = """
epoch = 1
[shard]
a = { number = 0, nodes = "h" }
"""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("put x --url localhost --token-file f", "a token is sent to beanstalks://HOST or a Unix socket only"),
        ("stats --url localhost --ca f", "certificates are for beanstalks://HOST, not for beanstalk://localhost:11300"),
        ("stats --url beanstalks://h --cert-key f", "a key belongs to a certificate"),
        (f"stats --url beanstalks://{TOKEN}@h", "no user, password or token stands in an address"),
        (f"stats --url beanstalks://h --token-file {TOKEN}", "a token file is the name of a file, not the token"),
        ("top --map {map} --ca f", "certificates are for beanstalks://HOST"),
        ("console --url a:1 --token-file f", "a token is sent to beanstalks://HOST or a Unix socket only"),
        ("worker tasks:worker --url a:1 --ca f", "certificates are for beanstalks://HOST"),
        ("relay run sqlite:///f --to a:1 --token-file f", "a token is sent to beanstalks://HOST or a Unix socket only"),
        ("route --to h --token-file f", "a token is sent to beanstalks://HOST or a Unix socket only"),
        ("route --map {map} --ca f", "certificates are for beanstalks://HOST"),
    ],
)
def test_what_can_not_be_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: str, sentence: str
) -> None:
    (tmp_path / "map").write_text(MAP)
    assert main.main(arguments.format(map=tmp_path / "map").split()) == 5
    said = " ".join(capsys.readouterr().err.split())
    assert sentence in said
    assert TOKEN not in said


def test_a_variable_is_not_for_a_server_without_tls_that_the_command_line_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEANPOLE_CA", "f")
    monkeypatch.setenv("BEANPOLE_TOKEN_FILE", "f")
    with FakeServer() as server:
        for arguments, code in (["--url", server.url], 0), ([], 5):
            monkeypatch.setenv("BEANPOLE_URL", server.url)
            assert main.main(["put", "x", *arguments]) == code
    assert "certificates are for beanstalks://HOST" in capsys.readouterr().err
