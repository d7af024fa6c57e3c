"""A job as a test sees it: everything about it, whoever holds it."""

from dataclasses import dataclass

from beanpole.client.stats import StatsJob


@dataclass(frozen=True)
class FakeJob(StatsJob):
    """A job at the moment when it was asked for: what :meth:`beanpole.Client.stats_job` says of it, and its body."""

    body: bytes = b""

    @property
    def text(self) -> str:
        """The body as a string. Raises UnicodeDecodeError if it is none in UTF-8."""
        return self.body.decode()
