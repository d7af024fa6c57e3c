"""Wrong tokens make who tries them wait: longer each time, up to five seconds. Nobody else waits."""

from collections import OrderedDict
from collections.abc import Callable

WRONG_TOKEN_S = 0.25
"""Seconds that the answer to a first wrong token waits; each further one twice as long."""

WRONG_TOKEN_S_MAX = 5
"""Seconds that it waits at most."""

WRONG_TOKEN_FORGOTTEN_S = 600
"""Seconds after which a wrong token is forgotten."""

WRONG_TOKEN_PEERS_MAX = 1_000
"""Peers whose wrong tokens are counted: the last ones."""


class Attempts:
    """What each peer has tried in vain, of the last peers."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._peers: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def wrong(self, peer: str) -> float:
        """Notes a wrong token of a peer; returns for how many seconds its answer has to wait."""
        now_ns = self._now_ns()
        count, at_ns = self._peers.pop(peer, (0, now_ns))
        if now_ns - at_ns > WRONG_TOKEN_FORGOTTEN_S * 1e9:
            count = 0
        self._peers[peer] = (count + 1, now_ns)
        if len(self._peers) > WRONG_TOKEN_PEERS_MAX:
            self._peers.popitem(last=False)
        return min(WRONG_TOKEN_S_MAX, WRONG_TOKEN_S * 2.0 ** min(count, 30))
