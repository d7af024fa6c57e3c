"""Limits: how many numbers applications get of rules, a second and a cycle; and how many new names an address may use.

They are counted by this process, in memory (`tallies`): a restart begins again, and each node counts for itself. What
must hold whatever crashes is the maximum of a rule, for its counter is durable.
"""

from collections.abc import Callable, Iterable

from beanpole_ids import limits
from beanpole_ids.errors import LimitError
from beanpole_ids.rules.limit import EACH, Limit
from beanpole_ids.tallies import Allowance, Quota, Rate, Share, Tally
from beanpole_ids.waiting import network_of


class Admission:
    """All limits of a configuration."""

    def __init__(self, found: Iterable[Limit]) -> None:
        self._tallies: dict[Limit, list[Tally]] = {}
        self._allowances: dict[str, Allowance | None] = {}
        self.reload(found)

    def reload(self, found: Iterable[Limit]) -> None:
        """Take over other limits; one that stays goes on counting."""
        self._tallies = {limit: self._tallies.get(limit) or tallies_of(limit) for limit in found}
        self._allowances = {}

    def allowance(self, rule: str) -> Allowance | None:
        """Return what the limits say of a rule; None: none is about it."""
        if rule not in self._allowances:
            self._allowances[rule] = self._find(rule)
        return self._allowances[rule]

    def _find(self, rule: str) -> Allowance | None:
        shares = [
            (
                limit.app.encode() if limit.app not in {None, EACH} else None,
                Share(tally, rule.encode() if limit.rule == EACH else b"", is_each=limit.app == EACH),
            )
            for limit, tallies in self._tallies.items()
            if limit.rule in {None, EACH, rule}
            for tally in tallies
        ]
        return Allowance(shares) if shares else None


def tallies_of(limit: Limit) -> list[Tally]:
    return [tally(limit) for tally, is_used in ((Rate, limit.rate), (Quota, limit.quota)) if is_used]


class NewNames:
    """Names that an address uses first: so many a second, and some seconds of them at once.

    Each is a row in the database and a counter in memory, and clients choose them. Those that the database has are no
    new ones, so a restart is not limited.
    """

    def __init__(self, rate: int, monotonic_s: Callable[[], float]) -> None:
        self.limit = Limit(None, None, rate, rate * limits.NEW_NAMES_BURST_S)
        self.monotonic_s = monotonic_s
        self._rate = Rate(self.limit)

    def spend(self, sources: Iterable[str]) -> LimitError | None:
        """Count a name for the first of some addresses that may have one; return why none of them may."""
        refusal = None
        for source in sources:
            name = network_of(source).encode(), b""
            now_s = self.monotonic_s()
            try:
                self._rate.check(name, 1, 0.0, now_s)
            except LimitError as error:
                text = f"too many new names: new_names_per_s is {self.limit.rate:g} for an address"
                refusal = LimitError(text, error.retry_s)
                continue
            self._rate.give(name, 1, 0.0, now_s)
            return None
        return refusal
