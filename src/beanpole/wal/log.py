"""The log between the engine and the replies: what a server without a data directory uses.

A turn ends with :meth:`Log.append`; no reply leaves before ``durable_index`` has reached the records that it depends
on. :class:`NullLog` keeps nothing and so promises nothing: everything is as durable as it will ever be at once.
"""

from typing import Protocol

from beanpole.engine.records import Records


class Log(Protocol):
    """What the poller needs of a log."""

    records: Records
    """What the engine tells its changes to; ``records.index`` is the number of the last one."""

    @property
    def durable_index(self) -> int:
        """The last record that a crash can't take back."""

    def append(self) -> None:
        """Write the records since the last call. Raise OSError when that fails: the server must stop."""

    def close(self) -> None:
        """Make everything durable and let go of the files."""


class NullLog:
    """A log that keeps nothing."""

    def __init__(self) -> None:
        self.records = Records()

    @property
    def durable_index(self) -> int:
        """Everything."""
        return self.records.index

    def append(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
