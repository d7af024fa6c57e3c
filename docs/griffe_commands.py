# noqa: INP001 - griffe loads this file by its path
"""For the Python reference: what a command returns to its caller, and names instead of marks for Sphinx.

A command of the client is written as a method that returns a Call, see `beanpole.client.commands`. Its decorator turns
that into what the class of the client gives: the value, or a coroutine of it.
"""

import re

import griffe

WRAPPERS = {"Call", "Plan"}
ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")


class Commands(griffe.Extension):
    """Changes what griffe has read of our sources."""

    def on_function(self, *, func: griffe.Function, **_: object) -> None:
        """Show the type of the value that a command returns."""
        returns = func.returns
        if isinstance(returns, griffe.ExprSubscript) and str(returns.left) in WRAPPERS:
            func.returns = returns.slice

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Show a name in the place of a mark."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value).replace("\n::\n\n", "\n\n")
