"""What can go wrong with a log.

::

    ValueError
    └── VersionError                 a segment is whole, but of a version or with records that this program can't read
    BeanpoleError
    ├── StartError
    │   ├── DamageError              the log is damaged in a way that no crash explains; says where
    │   └── OtherVersionError        another version of this program wrote the log
    ├── NoLogError                   a directory holds no log
    └── SalvageError                 there is something that salvage must not touch

After the disk has failed, the log raises the `OSError` that said so, and the server stops.
"""

from beanpole.errors import BeanpoleError, ExitCode, StartError


class VersionError(ValueError):
    """A segment is whole, but another version of this program wrote it."""


class DamageError(StartError):
    """The log is damaged in a way that no crash explains."""

    def __init__(self, name: str, offset: int, what: str) -> None:
        super().__init__(
            f"the log is damaged: {name} at byte {offset}: {what}; nothing was changed. "
            "Look with: beanpole wal check DIR. Keep what is good with: beanpole wal salvage DIR",
            ExitCode.FAILED,
        )
        self.name = name
        self.offset = offset
        self.what = what


class OtherVersionError(StartError):
    """Another version of this program wrote the log."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}; nothing was changed. Start the program that wrote it", ExitCode.FAILED)


class NoLogError(BeanpoleError):
    """A directory holds no log."""


class SalvageError(BeanpoleError):
    """There is something that salvage must not touch."""
