"""The lines of commands that beanstalkd does not know, and what each needs the server to have listed. No I/O.

A server that does not know a command takes the body behind it for commands. So a line of an extension is only sent over
a connection whose server has listed the command and each option that the line has; all that is wrong with an argument
raises :class:`~beanpole.errors.ArgumentError` before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from beanpole.errors import ArgumentError
from beanpole.limits import MOMENT_S_MAX, PRI_MAX
from beanpole.protocol import limits

P = ParamSpec("P")
T = TypeVar("T")

ID_MAX = 2**64 - 1

STATES = ("ready", "reserved", "delayed", "buried")  # the states of a job
RESTING = ("ready", "delayed", "buried")  # those of a job that nobody holds


def line(verb: bytes, *words: bytes, **options: bytes | None) -> tuple[bytes, tuple[str, ...]]:
    """A command's line, and what the server must have listed for it. An option that is None is left out."""
    given = {name: value for name, value in options.items() if value is not None}
    parts = [verb, *words, *(name.encode() + b"=" + value for name, value in given.items())]
    name = verb.decode()
    return b" ".join(parts) + b"\r\n", (name, *(f"{name}.{option}" for option in given))


def with_body(made: tuple[bytes, tuple[str, ...]], body: bytes) -> tuple[bytes, tuple[str, ...]]:
    return b"%s%s\r\n" % (made[0], body), made[1]


def size_of(body: object) -> bytes:
    """The size of a body. Raises TypeError for what is none."""
    if not isinstance(body, bytes):
        raise TypeError(f"a body is bytes here, not {type(body).__name__}: encode it, or choose an encoding or codec")
    return b"%d" % len(body)


# --- Arguments --------------------------------------------------------------------------------------------------------


def whole(value: object, most: int, name: str, least: int = 0) -> bytes:
    """A whole number. Raises ArgumentError."""
    if not isinstance(value, int) or not least <= value <= most:
        raise ArgumentError(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return b"%d" % value


def seconds(value: object, name: str, most: int = PRI_MAX) -> bytes:
    """A duration, to the nearest millisecond. Raises ArgumentError."""
    if not isinstance(value, int | float) or not 0 <= value <= most:
        raise ArgumentError(f"{name} must be seconds from 0 to {most}, not {value!r}")
    return b"%d" % value if value % 1 == 0 else (b"%.3f" % value).rstrip(b"0").rstrip(b".")


def unix_seconds(value: object, name: str) -> bytes:
    """A datetime with a time zone, or seconds since 1970, to the nearest millisecond. Raises ArgumentError."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ArgumentError(f"{name} has no time zone: {value!r}; datetime.now(UTC) has one")
        value = value.timestamp()
    return seconds(value, name, MOMENT_S_MAX)


def key_bytes(key: object, what: str = "a key", most: int = limits.KEY_BYTES_MAX) -> bytes:
    """The key of a job, or what is as that: its group, its token. Raises ArgumentError."""
    if not isinstance(key, str):
        raise ArgumentError(f"{what} must be a string, not {key!r}")
    try:
        data = key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ArgumentError(f"{what} is text in UTF-8: {key!r}") from None
    if not 1 <= len(data) <= most or any(byte <= 32 or byte == 127 for byte in data):
        raise ArgumentError(f"{what} has 1 to {most} bytes, no space and no control: {key!r}")
    return data


def meta_bytes(meta: object) -> bytes:
    """The headers of a job. Raises ArgumentError."""
    if not isinstance(meta, Mapping) or not all(isinstance(text, str) for pair in meta.items() for text in pair):
        raise ArgumentError(f"meta is a dict of names and values, all strings, not {meta!r}")
    try:
        data = ",".join([f"{escaped(name, '')}:{escaped(value, ':')}" for name, value in meta.items()]).encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"meta is text in UTF-8: {meta!r}") from None
    most, pairs = limits.META_BYTES_MAX, limits.META_PAIRS_MAX
    if "" in meta or len(meta) > pairs or len(data) > most:
        given = f"{len(meta)} and {len(data)}: {', '.join(map(repr, meta))}"
        raise ArgumentError(f"meta has up to {pairs} names, none empty, and {most} bytes as it is sent, not {given}")
    return data


def escaped(text: str, safe: str) -> str:
    """A name or a value in the headers of a job."""
    return quote(text, safe="!#$&'()*+./;<=>?@[]^`{|}" + safe)


def name_bytes(name: object) -> bytes:
    """A name as it goes over the wire. Raises ArgumentError if it can't be one."""
    if not isinstance(name, str):
        raise ArgumentError(f"a name must be a string, not {name!r}")
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"a name is text in UTF-8: {name!r}") from None
    if not 1 <= len(data) <= limits.SESSION_NAME_BYTES_MAX:
        most = limits.SESSION_NAME_BYTES_MAX
        raise ArgumentError(f"a name has 1 to {most} bytes, not {len(data)}: {name!r}")
    if name[0] == " " or any(ord(each) < 32 or 127 <= ord(each) < 160 for each in name):
        raise ArgumentError(f"a name has no control characters, and no space in front: {name!r}")
    return data


def choice(value: object, choices: tuple[str, ...], name: str) -> bytes:
    """One of some words. Raises ArgumentError."""
    if value not in choices:
        raise ArgumentError(f"{name} must be {' or '.join(choices)}, not {value!r}")
    return str(value).encode()


def optional(
    value: T | None, check: Callable[Concatenate[T, P], bytes], *args: P.args, **kwargs: P.kwargs
) -> bytes | None:
    """What a check makes of a value; None of None."""
    return None if value is None else check(value, *args, **kwargs)


def id_lines(verb: bytes, ids: Iterable[int]) -> Iterator[tuple[bytes, list[int]]]:
    """Lines with as many ids as go in one, and the ids of each. Raises ArgumentError for what is no id."""
    listed: list[int] = []
    parts = [verb]
    size = len(verb) + 2
    for id in ids:
        text = whole(id, ID_MAX, "id")
        if listed and size + 1 + len(text) > limits.EXTENSION_LINE_BYTES_MAX:
            yield b" ".join(parts) + b"\r\n", listed
            listed, parts, size = [], [verb], len(verb) + 2
        listed.append(id)
        parts.append(text)
        size += 1 + len(text)
    if listed:
        yield b" ".join(parts) + b"\r\n", listed


# --- Answers ----------------------------------------------------------------------------------------------------------


def fields_of(text: bytes | None) -> Mapping[str, str]:
    pairs = [each.partition(b"=") for each in (text or b"").split(b" ") if each]
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape") for name, _, value in pairs
    }
