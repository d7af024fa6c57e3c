"""What terminals send, as keys."""

import pytest

from beanpole.observe.top import keys


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"q", ["q"]),
        (b"\x1b[A", ["up"]),
        (b"\x1bOB", ["down"]),
        (b"\x1b[5~\x1b[6~", ["page up", "page down"]),
        (b"\x1b", ["escape"]),
        (b"\x1b/x", ["escape", "/", "x"]),
        (b"12\x7f\r", ["1", "2", "backspace", "enter"]),
        (b"\x03\x1a\x0c", ["control-c", "control-z", "control-l"]),
        (b"\x1b[200~", []),
        (b"\x01\x00", []),
        ("ü€".encode(), ["ü", "€"]),
        (b"\xff\xfe", []),
        (b"", []),
    ],
)
def test_keys(data: bytes, names: list[str]) -> None:
    assert keys(data) == names
