"""What can be the name of a tube: as a pattern, and in words that are the same wherever a message has them."""

import re

from beanpole.limits import TUBE_NAME_BYTES_MAX

TUBE = re.compile(rb"(?!-)[A-Za-z0-9\-+/;.$_()]{1,%d}" % TUBE_NAME_BYTES_MAX)

PATTERN = re.compile(rb"\*|%b\*?" % TUBE.pattern)
"""Tubes of rules or rights: one by its name, all whose names begin so, or all."""

NAME_RULE = (
    f"a tube's name has 1 to {TUBE_NAME_BYTES_MAX} letters, digits and signs out of -+/;.$_()"
    " and does not begin with a dash"
)

SHOWN = 80
"""Characters of a name that a message shows."""


def name_fault(name: object) -> str:
    """Say that this can't be the name of a tube."""
    shown = repr(name)
    return f"{NAME_RULE}: {shown}" if len(shown) <= SHOWN else f"{NAME_RULE}: {shown[:SHOWN]}…"
