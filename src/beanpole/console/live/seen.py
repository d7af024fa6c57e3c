"""A server as a page shows it: its last sample, also of one that is away, and what happened since the one before."""

from dataclasses import dataclass

from beanpole.client import StatsTube
from beanpole.console.errors import AwayError
from beanpole.console.servers import Server
from beanpole.observe.growth import Change, Rates
from beanpole.observe.sampling import Sample


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a server."""

    server: Server
    sample: Sample | None
    """The last; None: there never was one."""

    change: Change
    is_away: bool = False
    away_since: float | None = None
    """Seconds since 1970; None: it is there."""

    reason: str = ""
    """Why it is away."""

    @property
    def total(self) -> Rates:
        """Of the whole server."""
        return self.change.total

    def tube(self, name: str) -> StatsTube | None:
        """A tube of the sample; None: there is no such tube."""
        return self.sample.tubes.get(name) if self.sample is not None else None


async def see(server: Server) -> Seen:
    """Returns what is known of a server, no older than a second if it is there. Never raises."""
    sampler = server.sampler
    try:
        sample = await sampler.look()
    except AwayError as error:
        since = sampler.away.since
        return Seen(server, sampler.sample.value, sampler.change, is_away=True, away_since=since, reason=str(error))
    return Seen(server, sample, sampler.change)
