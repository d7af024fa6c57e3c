"""What every verb shares: targets, cells of tables, exit codes."""

import click
import pytest

from beanpole import errors
from beanpole.cli.common import TARGET, Server, cell
from beanpole.cli.errors import Failure, exit_code_of, sentence_of
from beanpole.cli.tube_verbs import Progress


@pytest.mark.parametrize(("text", "wanted"), [("7", 7), ("tube:7", "7"), ("emails", "emails"), ("7a", "7a")])
def test_target(text: str, wanted: int | str) -> None:
    assert TARGET(text) == wanted


@pytest.mark.parametrize("text", ["0", str(2**64), "tube:", "two words", "tube:tube:x", "a:b"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(click.BadParameter):
        TARGET(text)


@pytest.mark.parametrize(
    ("value", "wanted"), [("a\tb\n", "a\\tb\\n"), ("\x1b[1m", "\\x1b[1m"), (True, "yes"), (0, "0"), ("ü", "ü")]
)
def test_cell_is_one_line_that_moves_no_cursor(value: object, wanted: str) -> None:
    assert cell(value) == wanted


def test_exit_codes() -> None:
    lost = errors.NoReplyError("silent")
    batch = errors.BatchError("1 of 1", [lost])
    batch.__cause__ = lost
    found = [errors.NotFoundError("x"), errors.TimedOutError("x"), lost, batch, errors.ArgumentError("x"), OSError()]
    assert [int(exit_code_of(each)) for each in found] == [2, 3, 4, 4, 5, 1]


@pytest.mark.parametrize(
    "error",
    [
        errors.ConnectionLostError("the connection broke: [Errno 111] Connection refused"),
        ConnectionRefusedError(111, "Connect call failed"),
    ],
)
def test_sentence_of_what_the_system_says(error: Exception) -> None:
    said = sentence_of(error)
    assert said.endswith("Connection refused")
    assert "Errno" not in said


def test_a_refusal_has_no_doubt_and_is_not_tried_again() -> None:
    progress = Progress("{} deleted", "call it again", "of {} more it is not known")
    progress.pending = 3
    refusal = errors.ForbiddenError("FORBIDDEN: no", "manage", "t")
    with pytest.raises(Failure, match=r"^FORBIDDEN: no; 0 jobs deleted$"), progress.shown("Deleting", 3):
        raise refusal


@pytest.mark.parametrize(("said", "before"), [("", ""), ("refused", "refused; ")])
def test_advice_about_the_port_of_tls_has_an_address_to_give(said: str, before: str) -> None:
    advice = Server("beanstalk://[::1]:11400").with_advice(said, errors.ExitCode.NO_SERVER)
    assert advice == f"{before}port 11400 is that of TLS: beanstalks://[::1]:11400"
