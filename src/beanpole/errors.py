"""What can go wrong in Beanpole as a program: the errors that several packages share, and the exit codes.

::

    BeanpoleError
    ├── StartError                   the server can't start; carries the exit code that beanstalkd would use
    └── CommandError                 a command was not done; says which, and of which job or tube
        ├── ReplyError               the server's answer is no; see `beanpole.client.errors`
        │   ├── BadFormatError       BAD_FORMAT
        │   │   └── ArgumentError    the same, found before anything was sent; also a ValueError
        │   └── RulesError           BAD_RULES, or the same, found before; says which line is wrong, and why
        └── UnexpectedReplyError     what came is no reply of the protocol, or none to this command

Each package has those of its own in its module `errors`. Users import the client's and the worker's from here too.

In the server, what a client does wrong is a reply, never an exception; what we do wrong is an ``AssertionError``.
"""

import enum
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beanpole.client.errors import *  # noqa: F403 - for users, see the end
    from beanpole.worker.errors import *  # noqa: F403


class ExitCode(enum.IntEnum):
    """Exit codes. Those of ``beanpole serve`` are the same as beanstalkd's."""

    OK = 0
    FAILED = 1
    NOT_FOUND = 2
    TIMED_OUT = 3
    NO_SERVER = 4
    USAGE = 5
    OTHER_ORDER = 8
    OTHER_WORDS = 9
    DATA_DIR_LOCKED = 10
    UNKNOWN_USER = 33
    WORKER_STUCK = 75
    LOG_CHANGED = 7
    """What was confirmed is gone from a cluster's log: starting again proves nothing."""

    CANNOT_LISTEN = 111


class BeanpoleError(Exception):
    """The base of every error that Beanpole raises on purpose."""


class StartError(BeanpoleError):
    """The server can't start: one sentence for the user, and the exit code of the process."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


# --- The client -------------------------------------------------------------------------------------------------------


class CommandError(BeanpoleError):
    """A command was not done, or nobody knows whether it was."""

    command: str = ""
    """What was sent, as the protocol calls it: ``delete``; empty: nothing was, or nobody knows for which it came."""

    id: int | None = None
    """The job that the command named."""

    tube: str | None = None
    """The tube that the command named, or that was used for it; the watched one, if there is only one."""


class ReplyError(CommandError):
    """The server has answered, and the answer is no. The connection is as good as before, where it is not said."""


class BadFormatError(ReplyError):
    """``BAD_FORMAT``: the command is malformed."""


class ArgumentError(BadFormatError, ValueError):
    """An argument that the server would refuse, or misread. Nothing was sent."""


class RulesError(ReplyError):
    """``BAD_RULES``: a line of the rules of a tube is wrong, and none of them is set.

    `line` counts from 1, and is 0 for the rules as a whole; `why` is a sentence.
    """

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}" if line else why)
        self.line = line
        self.why = why

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.line, self.why), self.__dict__


class UnexpectedReplyError(CommandError):
    """What came is no reply of the protocol, or none that this command can have. The connection is closed."""


# --- Errors of other packages -----------------------------------------------------------------------------------------

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import an error of the client or the worker when a user asks for it: a server needs none of them."""
        for package in ("client", "worker") if name.endswith("Error") else ():
            found = vars(importlib.import_module(f"beanpole.{package}.errors")).get(name)
            if found is not None:
                return found
        raise AttributeError(f"module 'beanpole.errors' has no attribute {name!r}")
