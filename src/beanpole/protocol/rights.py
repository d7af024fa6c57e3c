"""Rights: what a user may do with which tubes. A right holds if any of its patterns fits; nothing is denied.

Patterns are those of rules: the name of a tube, a beginning of names with ``*`` behind it, or ``*``.
"""

from collections.abc import Mapping

import cython
from cython.cimports.libc.stdint import uint8_t
from cython.cimports.libc.string import memcmp

RIGHTS: dict[str, int] = {
    "put": Right.PUT,
    "reserve": Right.RESERVE,
    "look": Right.LOOK,
    "manage": Right.MANAGE,
    "rules": Right.RULES,
}
"""The rights, by the names that they have in files of users and in replies."""


def implied(right: str) -> int:
    """Return the bits that a right gives: who may manage a tube may look into it."""
    return RIGHTS[right] | (Right.LOOK if right == "manage" else 0)


@cython.cclass
class Grants:
    """What one user may do, made of the patterns of each right. The fields stand in ``rights.pxd``."""

    def __cinit__(self, patterns: Mapping[str, tuple[bytes, ...]]):
        found: dict = {}
        self.patterns = dict(patterns)
        for right, each in patterns.items():
            for pattern in each:
                found[pattern] = found.get(pattern, 0) | implied(right)
        self.always = found.pop(b"*", 0)
        self.rows = [(pattern.removesuffix(b"*"), pattern.endswith(b"*"), bits) for pattern, bits in found.items()]

    def bits(self, name, size):
        """Return the bits of the rights that hold for a tube."""
        found: uint8_t = self.always
        row: tuple
        for row in self.rows:
            text: bytes = row[0]
            length: cython.Py_ssize_t = len(text)
            if (length == size or (length < size and row[1])) and memcmp(
                name, cython.cast(cython.p_const_char, text), length
            ) == 0:
                found |= cython.cast(uint8_t, row[2])
        return found

    def of(self, name: bytes) -> int:
        """Return the bits of the rights that hold for a tube."""
        return self.bits(name, len(name))

    def meets(self, pattern: bytes) -> bool:
        """Whether there is a right to some tube that a pattern fits."""
        text: bytes = pattern.removesuffix(b"*")
        is_wide: bool = pattern.endswith(b"*")
        return self.always != 0 or any(
            row[0] == text or (row[1] and text.startswith(row[0])) or (is_wide and row[0].startswith(text))
            for row in self.rows
        )

    def covers(self, right: str, pattern: bytes) -> bool:
        """Whether a right holds for every tube that a pattern fits."""
        text: bytes = pattern.removesuffix(b"*")
        wanted: cython.int = RIGHTS[right]
        if self.always & wanted:
            return True
        if pattern.endswith(b"*"):
            return any(row[1] and row[2] & wanted and text.startswith(row[0]) for row in self.rows)
        return (self.bits(text, len(text)) & wanted) != 0
