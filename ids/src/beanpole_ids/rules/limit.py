"""What a configuration says of who gets numbers, and how many: limits, and networks whose addresses are not forged."""

from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import ceil

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.reader import Table, read_cycle, zone_named

EACH = "*"  # instead of a name: every one for itself
Network = IPv4Network | IPv6Network

TRUSTED: tuple[Network, ...] = (
    *map(ip_network, ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16")),
    *map(ip_network, ("::1/128", "fc00::/7", "fe80::/10")),
)
"""Loopback, private and link-local networks: nobody outside can send from there, if routers do what they should."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How many numbers are given: so many a second, so many a cycle, or both."""

    rule: str | None  # the rule that it is about; None: all of them together; `EACH`: each for itself
    app: str | None  # the application, likewise
    rate: float = 0.0  # numbers a second; 0: any
    burst: int = 0  # numbers that may be taken at once after a pause; it goes with the rate
    quota: int = 0  # numbers of a cycle; 0: any
    per: str = ""  # the cycle of the quota as text, by which limits are compared
    cycle: Cycle | None = field(default=None, compare=False)  # the cycle of the quota

    def __str__(self) -> str:
        pairs = ("rule", self.rule), ("application", self.app)
        names = [f"each {what}" if name == EACH else f"{what} {name!r}" for what, name in pairs if name is not None]
        return " and ".join(names) or "all rules"


def read_limits(table: Table, rules: Collection[str], zone: str) -> tuple[Limit, ...]:
    """Read the tables ``limit``, which both forms of a configuration may have."""
    return tuple(read_limit(Table(each, "a limit"), rules, zone) for each in table.take("limit", list, []))


def read_limit(table: Table, rules: Collection[str], zone: str) -> Limit:
    """Read a limit."""
    rule, app = table.optional("rule", str), table.optional("app", str)
    if rule not in {None, EACH, *rules}:
        raise RuleError(f"a limit: there is no rule {rule!r}")
    rate, burst, quota = (table.rest.pop(key, None) for key in ("rate", "burst", "quota"))
    cycle = read_cycle(table, "per", zone_named(zone))
    table.end()
    is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
    is_right = {
        "rate": rate is None or (is_number and limits.LIMIT_RATE_MIN <= rate <= limits.LIMIT_MAX),
        "burst": burst is None or (type(burst) is int and 0 < burst <= limits.LIMIT_MAX and rate is not None),
        "quota": quota is None or (type(quota) is int and 0 < quota <= limits.NUMBER_MAX and cycle.unit != "never"),
        "per": cycle.unit == "never" or quota is not None,
    }
    for key, is_good in is_right.items():
        if not is_good:
            raise RuleError(f"a limit: {key} must be {MEANINGS[key]}")
    if rate is None and quota is None:
        raise RuleError("a limit needs a rate, or a quota and per")
    if rate is not None and burst is None:
        burst = max(1, ceil(rate))
    return Limit(rule, app, float(rate or 0), burst or 0, quota or 0, cycle.kind, cycle)


MEANINGS = {
    "rate": f"numbers a second, from {limits.LIMIT_RATE_MIN} to {limits.LIMIT_MAX}",
    "burst": f"numbers from 1 to {limits.LIMIT_MAX}, beside a rate",
    "quota": f"numbers from 1 to {limits.NUMBER_MAX}, beside a per that is year, month, week, day, hour or seconds",
    "per": "beside a quota",
}
"""What the keys of a limit must be."""


def read_networks(table: Table) -> tuple[Network, ...]:
    """Read the trusted networks, which both forms of a configuration may have."""
    found = table.optional("trusted_networks", list)
    try:
        return TRUSTED if found is None else tuple(map(ip_network, found))
    except ValueError as error:
        raise RuleError(f"trusted_networks must be networks as in '10.0.0.0/8': {error}") from error


def read_new_names(table: Table) -> int:
    """Read how many names an address may use first in a second; both forms of a configuration may have it."""
    return table.count("new_names_per_s", limits.NEW_NAMES_PER_S, limits.LIMIT_MAX)
