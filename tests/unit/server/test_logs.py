"""Log lines are those of structlog, byte by byte, in each of the three formats."""

import contextlib
import datetime as dt
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from beanpole.server.logs import Event, Logger, colored_line, json_line, plain_line

Renderer = Callable[[Any, str, Any], str]

NOW_NS = 1_800_000_000_012_345_678
TIME = "2027-01-15T08:00:00.012345Z"
CASES: list[tuple[str, str, Event]] = [
    ("info", "listening", {"addresses": ["tcp:[::1]:1", "unix:/s"], "pid": 5, "version": "0.1"}),
    ("warning", "an event that is longer than its column is wide", {"reason": "has spaces", "empty": "", "none": None}),
    ("error", "stopped", {}),
    (
        "critical",
        "é",
        {"quotes": "it's", "lines": "a\nb", "equals": "a=b", "path": io.DEFAULT_BUFFER_SIZE, "error": KeyError("x")},
    ),
    ("info", "connected", {"b": 2, "a": 1, "c": True}),
]


def console(*, colors: bool) -> structlog.dev.ConsoleRenderer:
    """The lines of structlog for people."""
    return structlog.dev.ConsoleRenderer(
        colors=colors, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )


FORMATS = [
    (json_line, structlog.processors.JSONRenderer()),
    (plain_line, console(colors=False)),
    (colored_line, console(colors=True)),
]


def theirs(renderer: Renderer, level: str, event: str, about: Event) -> str:
    """The line that structlog writes."""
    written = io.StringIO()
    logger = structlog.wrap_logger(
        structlog.WriteLogger(written),
        processors=[
            structlog.processors.add_log_level,
            lambda _logger, _name, found: {**found, "timestamp": TIME},
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("INFO"),
    )
    getattr(logger, level)(event, **about)
    return written.getvalue()


@pytest.mark.parametrize(("line", "renderer"), FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_line_is_that_of_structlog(
    capsys: pytest.CaptureFixture[str],
    line: Callable[[Event], str],
    renderer: Renderer,
    case: tuple[str, str, Event],
) -> None:
    level, event, about = case
    getattr(Logger(line, lambda: NOW_NS), level)(event, **about)
    assert capsys.readouterr().err == theirs(renderer, level, event, about)


@pytest.mark.parametrize(("line", "renderer"), FORMATS)
@pytest.mark.filterwarnings("ignore:Remove `format_exc_info`")
def test_traceback_is_that_of_structlog(
    capsys: pytest.CaptureFixture[str], line: Callable[[Event], str], renderer: Renderer
) -> None:
    logger = Logger(line, lambda: NOW_NS)
    try:
        json.loads("{")
    except ValueError as error:
        expected = theirs(renderer, "error", "failed", {"exc_info": error, "id": 1})
        assert "JSONDecodeError" in expected
        for exc_info in (error, True, (type(error), error, error.__traceback__)):
            logger.error("failed", exc_info=exc_info, id=1)  # noqa: TRY400 - what is tested
            assert capsys.readouterr().err == expected
        logger.exception("failed", id=1)
        assert capsys.readouterr().err == expected
    logger.error("failed", exc_info=None, id=1)
    assert capsys.readouterr().err == theirs(renderer, "error", "failed", {"id": 1})


@pytest.mark.parametrize("line", [plain_line, colored_line])
@pytest.mark.parametrize("said", ["\x1b[2J", "\x9b2J", "a\x07", "\u202egnp.exe", "a\x7f", "\u2028"])
def test_what_a_terminal_would_obey_is_escaped(
    capsys: pytest.CaptureFixture[str], line: Callable[[Event], str], said: str
) -> None:
    """It may be the name of a file, or what the error of a handler says of a job."""
    Logger(line, lambda: NOW_NS).error(f"failed: {said}", exc_info=ValueError(f"two\nlines {said}"), path=said)
    shown = capsys.readouterr().err
    plain = re.sub(r"\x1b\[\d+m", "", shown) if line is colored_line else shown
    assert all(each.isprintable() or each == "\n" for each in plain)
    assert shown.count(repr(said)[1:-1]) == 3
    assert "ValueError: two\nlines " in shown


def test_time_of_a_line() -> None:
    assert dt.datetime.fromisoformat(TIME).timestamp() == NOW_NS // 1_000 / 1e6


def test_standard_error_that_nobody_reads() -> None:
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        Logger(json_line).info("listening")
        assert json.loads(stream.getvalue())["event"] == "listening"
        stream.close()
        Logger(json_line).info("listening")
