"""What a job keeps of the error of its last attempt: a line that says it, and where it came from, in a few bytes."""

import contextlib
import traceback
from types import TracebackType

from beanpole.protocol.limits import TEXT_BYTES_MAX
from beanpole.worker.policy import ON_PURPOSE

HEADLINE_BYTES_MAX = 512
"""Bytes of what a job keeps of an error's own words: the rest of what there is room for says where it came from."""

OWN = "beanpole.worker"
"""The frames of this package say nothing of the user's mistake."""


def headline(error: BaseException) -> str:
    """What an error says: that of a handler which says what it wants is its reason, maybe none."""
    text = ""
    with contextlib.suppress(BaseException):  # a user's __str__, which may do anything: it must not end the worker
        text = str(error)
    return text if isinstance(error, ON_PURPOSE) else f"{type(error).__name__}: {text}"


def reason_text(error: BaseException) -> str:
    """The headline of an error, then the last lines of its traceback, as far as ``fail-job`` takes them.

    Of an error that was raised on purpose it is the traceback of the one behind it (``raise Dead("...") from error``).
    """
    shown = error.__cause__ if isinstance(error, ON_PURPOSE) else error
    if shown is None:
        return _end_cut(headline(error), TEXT_BYTES_MAX)
    head = _end_cut(headline(error), HEADLINE_BYTES_MAX)
    lines = _traceback_of(shown, with_headline=shown is not error)
    tail = "\n".join(lines).encode("utf-8", "backslashreplace")
    left = TEXT_BYTES_MAX - len(head.encode()) - 1
    end = tail[-left:].decode("utf-8", "ignore")
    if len(tail) > left:
        end = end.partition("\n")[2] or end  # it begins with the rest of a line
    return f"{head}\n{end}".strip()


def _traceback_of(error: BaseException, *, with_headline: bool) -> list[str]:
    """The lines of the traceback of an error that a handler raised, and of those behind it."""
    try:
        made = traceback.TracebackException(type(error), error, _without_own(error.__traceback__), compact=True)
        lines = "".join(made.format()).rstrip().splitlines()
        if not with_headline:  # which may have several lines, and notes behind it
            start = len(lines) - len("".join(made.format_exception_only()).rstrip().splitlines())
            del lines[start : start + len(headline(error).rstrip().splitlines())]
    except Exception:  # noqa: BLE001 - what a user's error does when it is shown
        return []
    return lines[1:] if lines and lines[0].startswith("Traceback ") else lines


def _without_own(found: TracebackType | None) -> TracebackType | None:
    while found is not None and str(found.tb_frame.f_globals.get("__name__")).startswith(OWN):
        found = found.tb_next
    return found


def _end_cut(text: str, most: int) -> str:
    """A text of at most so many bytes, whole characters."""
    return text.encode("utf-8", "backslashreplace")[:most].decode("utf-8", "ignore")
