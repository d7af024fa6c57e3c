"""What every verb shares: targets, cells of tables, exit codes."""

import click
import pytest

from beanpole import errors
from beanpole.cli.common import TARGET, cell
from beanpole.cli.errors import exit_code_of, sentence_of


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


def refused(text: str, code: int | None) -> errors.CannotConnectError:
    """What a client says of an attempt that failed."""
    made = errors.CannotConnectError(f"can't connect to x: {text}")
    made.__cause__ = OSError(text) if code is None else OSError(code, text)
    made.args = (f"can't connect to x: {made.__cause__}",)
    return made


@pytest.mark.parametrize(
    "error",
    [
        refused("Connect call failed ('127.0.0.1', 21499)", 111),
        refused("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] Connect call failed", None),
        errors.ConnectionLostError("the connection broke: [Errno 111] Connection refused"),
        ConnectionRefusedError(111, "Connect call failed"),
    ],
)
def test_sentence_of_what_the_system_says(error: Exception) -> None:
    said = sentence_of(error)
    assert "Connection refused" in said
    assert not any(raw in said for raw in ("Errno", "Connect call", "Multiple"))
