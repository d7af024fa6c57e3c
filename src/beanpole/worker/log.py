"""Where a worker's events go: to a logger of the standard library, or to one that has structlog's methods.

Records of the standard library have the fields of an event as attributes, `event` with its name, and as their message
both, `job failed id=1 tube=emails`, so that Sentry, Django's logging and pytest's caplog see them as they see others.
"""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from beanpole.worker.events import Event

NAME = "beanpole.worker"  # the logger of a worker that was given none
LEVELS = logging.getLevelNamesMapping()


class Log:
    """Writes events."""

    def __init__(self, logger: Any = None) -> None:  # noqa: ANN401 - any of the two kinds
        self._logger = logging.getLogger(NAME) if logger is None else logger
        self._is_standard = isinstance(self._logger, logging.Logger | logging.LoggerAdapter)

    def write(self, event: Event, *, sentence: object = "", **about: object) -> None:
        """Writes an event and its fields, with `exc_info` as the loggers take it.

        A `sentence` is for people, in place of the name and the fields. What a filter or a processor of the program
        raises is shown as `logging` shows errors of its handlers: it is no reason to do no more jobs.
        """
        try:
            self._write(event, sentence, about)
        except Exception:  # noqa: BLE001 - see above
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc()

    def _write(self, event: Event, sentence: object, about: dict[str, object]) -> None:
        if not self._is_standard:
            getattr(self._logger, event.level)(event.name, **about)
            return
        error: Any = about.pop("exc_info", None)
        text, given = event.name, tuple(about.values())
        if sentence:
            text, given = "%s", (sentence,)
        elif about:
            text = " ".join([text, *(f"{name}=%s" for name in about)])
        extra = {"event": event.name, "sentence": sentence, **about}
        self._logger.log(LEVELS[event.level.upper()], text, *given, exc_info=error, extra=extra)


@contextmanager
def shown() -> Iterator[None]:
    """Shows the log on standard error while it lasts, if the program has said nothing about where it goes."""
    logger = logging.getLogger(NAME)
    if logger.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(level or logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
