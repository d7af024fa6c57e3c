"""Files that people write and programs read again: who may change one, how much of it is read, when it has changed."""

import os
import shlex
import stat
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from beanpole.errors import FileError, LineError
from beanpole.toml import line_of, parse

FILE_BYTES_MAX = 4_194_304
"""Bytes of a file: TOML of this size takes seconds to read, and nobody has written it."""

SECRET = stat.S_IROTH | stat.S_IWOTH

MODES = {
    0: "",
    stat.S_IWOTH: "others may write it: chmod o-w",
    SECRET: "others may read or write it: chmod o-rw",
}
"""What a file must not allow to others, and how to say that it does."""

KINDS = {int: "a whole number", str: "a string", list: "a list", dict: "a table", bool: "true or false"}

T = TypeVar("T")


def read_text(path: Path, error: type[FileError], forbidden: int = 0) -> str:
    """Read a file. `forbidden`: the bits of MODES that it must not have.

    Raises:
        FileError: the one that is given; it can't be read, is too big, or no UTF-8, or others may do what is forbidden.
    """
    try:
        with open(path, "rb", opener=open_at_once if forbidden else None) as file:
            mode = os.fstat(file.fileno()).st_mode
            if forbidden and not stat.S_ISREG(mode):
                raise error(str(path), 0, "this is no regular file")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as why:
        raise error(str(path), 0, why.strerror or str(why)) from None
    if len(data) > FILE_BYTES_MAX:
        raise error(str(path), 0, f"it has more than {FILE_BYTES_MAX} bytes")
    fault = fault_of_mode(str(path), mode, forbidden)
    if fault:
        raise error(str(path), 0, fault)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise error(str(path), 0, "this is no UTF-8") from None


def fault_of_mode(path: str, mode: int, forbidden: int) -> str:
    """Return what others may do with a file and must not, and how to end that; empty: nothing."""
    return f"{MODES[forbidden]} {shlex.quote(path)}" if mode & forbidden else ""


def open_at_once(path: str, flags: int) -> int:
    """Open a file, also a pipe, without waiting for whoever might write into it."""
    return os.open(path, flags | os.O_NONBLOCK)


def stamp(path: Path) -> tuple[int, ...]:
    """Return what tells versions of a file apart, or that it is not there."""
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


class TomlFile:
    """A file while it is checked: its values by their keys, and errors that name its lines."""

    def __init__(self, path: Path, error: type[FileError], forbidden: int = 0) -> None:
        """Read it, as `read_text` does. Raises FileError, the one that is given: it can't be read, or is no TOML."""
        self.path = path
        self.error = error
        self.text = read_text(path, error, forbidden)
        try:
            self.values = parse(self.text)
        except LineError as wrong:
            raise error(str(path), wrong.line, wrong.why) from None

    def wrong(self, why: str, *keys: str) -> FileError:
        """Return what is wrong with what stands behind a key; with the file as a whole, if there is none."""
        return self.error(str(self.path), line_of(self.text, *keys) if keys else 0, why)

    def get(self, *keys: str) -> object:
        """Return what stands behind a key of a table; None: there is no such key."""
        *tables, key = keys
        table = self.values
        for each in tables:
            table = table[each]
        found: object = table.get(key)
        return found

    def value(self, kind: type[T], *keys: str) -> T:
        """Return what stands behind a key of a table, else nothing of its kind. Raises FileError: it is no such."""
        value = self.get(*keys)
        if value is None:
            return kind()
        if type(value) is not kind:
            raise self.wrong(f"{label(keys)}{KINDS[kind]} is wanted", *keys)
        return value

    def strings(self, *keys: str) -> list[str]:
        """Return the strings that stand behind a key, without those that are there twice. Raises FileError."""
        values = self.value(list, *keys)
        if not all(isinstance(each, str) for each in values):
            raise self.wrong(f"{label(keys)}a list of strings is wanted", *keys)
        return list(dict.fromkeys(values))

    def check_keys(self, known: Collection[str], owner: str, *keys: str) -> None:
        """Check that a table has no key that its owner does not know. Raises FileError: it has."""
        for key in self.value(dict, *keys) if keys else self.values:
            if key not in known:
                why = f"{label(keys) if keys[1:] else ''}there is no key {key[:40]!a}: {owner} has {', '.join(known)}"
                raise self.wrong(why, *keys, key)


def label(keys: Collection[str]) -> str:
    """Return what a sentence about a key begins with; which kind of table has it, the line says."""
    return "".join(f"{each}: " for each in list(keys)[1:] or keys)
