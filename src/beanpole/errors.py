"""What can go wrong in Beanpole as a program.

::

    BeanpoleError
    └── StartError          the server can't start; carries the exit code that beanstalkd would use

What a client does wrong is a reply, never an exception; what we do wrong is an ``AssertionError``.
"""

import enum


class ExitCode(enum.IntEnum):
    """Exit codes of ``beanpole serve``, the same as beanstalkd's."""

    OK = 0
    FAILED = 1
    USAGE = 5
    DATA_DIR_LOCKED = 10
    UNKNOWN_USER = 33
    CANNOT_LISTEN = 111


class BeanpoleError(Exception):
    """The base of every error that Beanpole raises on purpose."""


class StartError(BeanpoleError):
    """The server can't start: one sentence for the user, and the exit code of the process."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code
