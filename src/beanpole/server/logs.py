"""Log lines on standard error: a time, a level, an event, and what it is about.

On a terminal a line is for people, elsewhere it is JSON. The lines are those of structlog, which takes a sixth of the
time in which a server starts. Nothing that a client does can write a line, unless the operator asked for connections.
"""

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partialmethod

Event = dict[str, object]
"""What a line says: what it is about, then `event`, `level`, `timestamp`, and `exception` if there was one."""

EVENT_WIDTH = 30
LEVEL_WIDTH = 9
COLORS = {"critical": 31, "error": 31, "warning": 33, "info": 32, "timestamp": 2, "event": 1, "key": 36, "value": 35}
"""Colors of a terminal's text, by level and by part of a line."""


def json_line(event: Event) -> str:
    return json.dumps(event, default=repr)


def plain_line(event: Event) -> str:
    return text_line(event, lambda text, *_parts: text)


def colored_line(event: Event) -> str:
    return text_line(event, lambda text, *parts: "".join(f"\033[{COLORS[part]}m" for part in parts) + f"{text}\033[0m")


def text_line(event: Event, color: Callable[..., str]) -> str:
    """Return the time, the level and the event in columns, then the pairs as they were given."""
    level, exception = str(event.pop("level")), event.pop("exception", None)
    columns = [
        color(event.pop("timestamp"), "timestamp"),
        f"[{color(level.ljust(LEVEL_WIDTH), level, 'event')}]",
        color(visible(str(event.pop("event"))).ljust(EVENT_WIDTH), "event"),
        *(f"{color(key, 'key')}={color(value_text(event[key]), 'value')}" for key in event),
    ]
    return " ".join(columns).rstrip(" ") + (f"\n{visible(str(exception))}" if exception else "")


def value_text(value: object) -> str:
    """Return a value as it stands behind a key: in quotes where it would not be clear where it ends, or be obeyed."""
    return (
        value
        if isinstance(value, str) and value.isprintable() and not set(value) & set(" =\"'")
        else visible(repr(value))
    )


def visible(text: str, kept: str = "\n\t") -> str:
    """Return a text in which what a terminal would obey stands escaped, but for the characters that are kept.

    These are control characters, so also the beginning of each escape sequence, and what turns the direction round.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else repr(each)[1:-1] for each in text)


class Logger:
    """Has those of the methods of structlog's loggers that servers and workers call."""

    def __init__(self, line: Callable[[Event], str], wall_ns: Callable[[], int] = time.time_ns) -> None:
        self.line = line
        self.wall_ns = wall_ns

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        """Write a line; `exc_info` is an exception, or what sys.exc_info returns, or True for the one being handled."""
        seconds, fraction_ns = divmod(self.wall_ns(), 10**9)
        timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction_ns // 1_000:06}Z"
        about |= {"event": event, "level": level, "timestamp": timestamp}
        if exc_info:
            error = sys.exc_info()[1] if exc_info is True else exc_info[1] if isinstance(exc_info, tuple) else exc_info
            if isinstance(error, BaseException):
                about["exception"] = "".join(traceback.format_exception(error)).removesuffix("\n")
        # Standard error may be closed: a log line that nobody can read is no reason to stop serving.
        with contextlib.suppress(OSError, ValueError):
            try:
                sys.stderr.write(self.line(about) + "\n")
                sys.stderr.flush()
            except BrokenPipeError:  # for good; the interpreter would try it again at its end, and exit with 120
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    info = partialmethod(log, "info")
    warning = partialmethod(log, "warning")
    error = partialmethod(log, "error")
    critical = partialmethod(log, "critical")
    exception = partialmethod(log, "error", exc_info=True)


def open_logger(log_format: str) -> Logger:
    """Return the logger of a server; `log_format` is ``console``, ``json`` or ``auto``."""
    terminal = sys.stderr.isatty()
    if log_format == "console" or (log_format == "auto" and terminal):
        return Logger(colored_line if terminal else plain_line)
    return Logger(json_line)
