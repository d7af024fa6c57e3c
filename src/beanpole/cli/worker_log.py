"""What ``beanpole worker`` shows of the log of its worker and client: lines on standard error, as a server's."""

import logging
import sys

from beanpole.server.logs import Logger, json_line, open_logger
from beanpole.worker.log import NAME

OURS = "beanpole"
"""The logger above that of the worker and that of its client."""

STANDARD = vars(logging.makeLogRecord({})).keys() | {"event", "sentence"}
"""What any record has; the rest are the fields of an event."""


class Lines(logging.Handler):
    """Writes records as a server writes its log."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record; on a terminal its sentence for people, if it has one."""
        event, sentence = getattr(record, "event", record.getMessage()), getattr(record, "sentence", "")
        about = {name: value for name, value in vars(record).items() if name not in STANDARD}
        if sentence and self._logger.line is not json_line:
            event, about = sentence, {}
        self._logger.log(record.levelname.lower(), event, record.exc_info, **about)


def show_log(log_format: str) -> None:
    """Shows the log, unless the program has handlers of its own for it.

    What the program has for all its logs gets it, too, if that is not the terminal: no line stands there twice.
    """
    ours, root = logging.getLogger(OURS), logging.getLogger()
    if ours.handlers or logging.getLogger(NAME).handlers:
        return
    ours.addHandler(Lines(open_logger(log_format)))
    ours.setLevel(ours.level or logging.INFO)
    ours.propagate = not any(getattr(each, "stream", None) in {sys.stdout, sys.stderr} for each in root.handlers)
