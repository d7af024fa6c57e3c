"""Log lines through structlog: a timestamp, a level, an event, and what it is about, to standard error.

On a terminal a line is for people, elsewhere it is JSON. Nothing that a client does can write a line, unless the
operator asked for connections.
"""

import contextlib
import sys
from typing import TextIO, cast

# structlog looks for rich to draw tracebacks with, and importing rich would be a third of the server's time to start.
sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402 - after the line above, which is undone below

del sys.modules["rich"]

Logger = structlog.typing.FilteringBoundLogger


class CarefulWriter:
    """Standard error, whoever closed it: a log line that nobody can read is no reason to stop serving."""

    def write(self, text: str) -> None:
        """Write text, or lose it."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)

    def flush(self) -> None:
        """Pass on what was written, or lose it."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def open_logger(log_format: str) -> Logger:
    """Return the logger of a server; `log_format` is ``console``, ``json`` or ``auto``."""
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer()
    )
    logger: Logger = structlog.wrap_logger(
        structlog.WriteLogger(cast("TextIO", CarefulWriter())),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("INFO"),
        cache_logger_on_first_use=True,
    )
    return logger
