"""`python -m tests.soak.cluster.faulty serve ...`: a node on a machine that computes wrongly.

Every hash that it computes is a little different from what it should be, of rows that it reads as of rows that it
writes.
"""

import hashlib
import sys
from typing import Any

from beanpole.cli.main import main

right = hashlib.blake2b


class Wrong:
    """A hash with one bit wrong."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - whatever hashlib takes
        self.hash = right(*arguments, **options)
        self.update = self.hash.update

    def digest(self) -> bytes:
        """Return the hash, with one bit wrong."""
        found = self.hash.digest()
        return bytes([found[0] ^ 1]) + found[1:]


hashlib.blake2b = Wrong  # type: ignore[assignment,misc]
sys.exit(main())
