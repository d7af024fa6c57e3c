"""Who may ask: a page of another site makes browsers ask for it, and so gets behind what keeps strangers out.

Three things keep such pages out. The name in Host must be known, or a page could have its own name lead here and read
the answers (DNS rebinding). A request that changes something comes from no page of another site, which Origin would
name. And a GET, which a page needs no leave to send, gives numbers only with a field that it can't send.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable

from beanpole_ids.http.asked import Asked
from beanpole_ids.http.response import ProblemError
from beanpole_ids.rules.limit import Network

FORM = re.compile(r"(\[[^][]*\]|[^][:]*)(?::[0-9]*)?")
"""A host, in brackets if there are colons in it, and maybe a port."""


class Guard:
    """Refuses requests that a page of another site may have caused, and those that only some networks may send."""

    def __init__(self, names: Collection[str] = (), reload_from: Iterable[Network] = ()) -> None:
        self.names = frozenset(name.lower().removesuffix(".") for name in names)
        self.reload_from = tuple(reload_from)

    def check(self, asked: Asked) -> None:
        """Raises ProblemError: the name is not known, or a page of another site asks."""
        host, origin = asked.host, asked.origin
        # What no browser sends, a request without a Host, is let through, as is a question for health.
        if host and (asked.path, asked.query) != ("/health", "") and not self.is_known(host):
            detail = f"this service does not know the name {host!r}: `names` in the table http allows it"
            raise ProblemError("unknown-host", detail)
        if origin and asked.method not in {"GET", "HEAD"}:
            scheme, _, page = origin.partition("://")
            if scheme not in {"http", "https"} or page.lower() != host.lower():
                raise ProblemError("other-site", f"a page of {origin!r} asks, not one of this service")

    def is_known(self, text: str) -> bool:
        """Return whether a value of Host is an address, localhost, or one of the names."""
        match = FORM.fullmatch(text)
        if match is None:
            return False
        host = match[1].lower().removesuffix(".")
        return host == "localhost" or host in self.names or address_of(host.strip("[]")) is not None

    def check_reload(self, asked: Asked) -> None:
        """Raises ProblemError: a reload may not be asked for from there."""
        address = address_of(asked.source)
        if asked.is_forwarded or not any(address in each for each in self.reload_from if address):
            detail = "only `reload_from` in the table http may reload, and not through a proxy"
            raise ProblemError("not-from-here", detail)


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an IP address, one of IPv4 within IPv6 as what it is; None if a text is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
