"""Schedules in a file: TOML, a table a schedule, whose keys are the lines of its document.

::

    [nightly]
    cron = "30 2 * * *"
    zone = "Europe/Berlin"
    tube = "reports"
    json = {kind = "nightly"}

A duration is a number of seconds or a time as in "1h30m"; times and dates may be TOML's own. The body of the jobs is
`body`, `json`, or `body_base64`. What is read is as good as set: zones are looked up, and that it fires is known.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from beanpole import toml
from beanpole.errors import LineError, ScheduleError
from beanpole.protocol.names import NAME_RULE, TUBE
from beanpole.protocol.rules import decimal
from beanpole.quantities import DURATION_FORM, seconds_of
from beanpole.schedules.document import LINES, Document, check, header_of, parse

BODIES = ("body", "json", "body_base64")
"""The keys that have the body."""

BARE = re.compile("[A-Za-z0-9_-]+")


class EntryError(ValueError):
    """What stands behind a key is wrong. `key` is empty for the whole; `why` is a sentence."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key
        self.why = why


# --- Reading ----------------------------------------------------------------------------------------------------------


def read(text: str) -> dict[str, Document]:
    """Read a file; return its schedules by their names.

    Raises:
        ScheduleError: something is wrong; its line is one of the file.
    """
    try:
        tables = toml.parse(text)
    except LineError as error:
        raise ScheduleError(error.line, error.why) from None
    found = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ScheduleError(
                toml.line_of(text, name), "a schedule is a table: its name in brackets, its lines below"
            )
        if not TUBE.fullmatch(name.encode()):
            raise ScheduleError(toml.line_of(text, name), f"a schedule is named as a tube, and {NAME_RULE}")
        try:
            found[name] = document_of({key: value for key, value in table.items() if key not in BODIES}, body_of(table))
        except EntryError as error:
            path = (name, error.key) if error.key else (name,)
            raise ScheduleError(toml.line_of(text, *path), error.why) from None
        except ValueError as error:  # a whole number that is too large for Python to write
            raise ScheduleError(toml.line_of(text, name), str(error)) from None
    return found


def document_of(values: Mapping[str, object], body: bytes = b"") -> Document:
    """Make a document, and check it, of the values of its lines: strings as people type them, or values of TOML.

    Raises:
        EntryError: one is wrong.
    """
    names = list(values)
    lines = [f"{name}: {text_of(name, value)}\n" for name, value in values.items()]
    try:
        document = parse("".join(lines).encode(errors="surrogateescape") + b"\n" + body)
        check(document)
    except ScheduleError as error:
        raise EntryError(names[error.line - 1] if error.line else "", error.why) from None
    return document


def text_of(name: str, value: object) -> str:
    """Return what stands in a document for a value. Raises EntryError: it is none."""
    if name not in LINES:
        quote = f'; a name with a dot stands in quotes: ["name.{name[:40]}"]' if isinstance(value, dict) else ""
        raise EntryError(name, f"there is no line {name[:40]!a}{quote}")
    form = LINES[name].form
    if form == "S" and not isinstance(value, bool):
        seconds = seconds_of(str(value))
        if seconds is None:
            raise EntryError(name, f"{name}: {value!r:.40} is no time; {DURATION_FORM}")
        if (seconds * 1_000).denominator > 1:
            raise EntryError(name, f"{name}: a duration has three decimals at most")
        return decimal(int(seconds * 1_000)).decode()
    if form == "DATE ..." and isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    elif isinstance(value, datetime):
        value = value.isoformat(timespec="auto" if value.microsecond % 1_000 else "milliseconds")
    if isinstance(value, bool | float | list | dict):
        raise EntryError(name, f"{name}: {form} is wanted")
    text = str(value)
    if not text.strip() or "\n" in text:
        raise EntryError(name, f"{name}: {form} is wanted, on one line")
    return text


def body_of(table: Mapping[str, Any]) -> bytes:
    """Return the body that a table gives to jobs. Raises EntryError: there are several, or it can't be one."""
    given = [key for key in BODIES if key in table]
    if not given:
        return b""
    key, value = given[0], table[given[0]]
    if given[1:]:
        raise EntryError(given[1], f"{key} and {given[1]} contradict each other")
    if key == "json":
        try:
            text = json.dumps(
                value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=lambda time: time.isoformat()
            )
        except ValueError as error:
            raise EntryError(key, f"json: {error}") from None
        return text.encode()
    if not isinstance(value, str):
        raise EntryError(key, f"{key}: a string is wanted; json takes any value")
    try:
        return base64.b64decode(value, validate=True) if key == "body_base64" else value.encode()
    except binascii.Error as error:
        raise EntryError(key, f"{key}: {error}") from None


# --- Writing ----------------------------------------------------------------------------------------------------------


def section(name: str, text: bytes) -> list[str]:
    """Return the lines that a schedule has in a file, from the document that a server keeps."""
    lines = [f"[{name if BARE.fullmatch(name) else quoted(name)}]"]
    lines += [f"{key} = {value_of(key, value)}" for key, value in header_of(text).items()]
    body = text.partition(b"\n\n")[2]
    if body:
        try:
            lines.append(f"body = {quoted(body.decode())}")
        except UnicodeDecodeError:
            lines.append(f'body_base64 = "{base64.b64encode(body).decode()}"')
    return lines


def value_of(key: str, value: str) -> str:
    """Return what stands behind a line's key in TOML."""
    form = LINES[key].form if key in LINES else ""
    if form == "DATE ...":
        return f"[{', '.join(value.split())}]"
    return value if form in ("S", "N", "TIME") else quoted(value)


def quoted(text: str) -> str:
    """Return a text as a string of TOML, which moves no terminal's cursor."""
    if text.isprintable() and ('"' in text or "\\" in text):
        for mark in ("'", "'''"):
            if mark not in text and not text.startswith("'") and not text.endswith("'"):
                return mark + text + mark
    written = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in written)


def comment(text: str) -> str:
    """Return a text as a comment of TOML, on one line."""
    return "# " + "".join(each if each.isprintable() or each == "\t" else repr(each)[1:-1] for each in text)
