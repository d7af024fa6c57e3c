"""Wrong tokens make who tries them wait: longer each time, up to five seconds. Nobody else waits."""

from collections import OrderedDict
from collections.abc import Callable

from beanpole.console import limits


class Attempts:
    """What each peer has tried in vain, of the last peers."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._peers: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def wrong(self, peer: str) -> float:
        """Notes a wrong token of a peer; returns for how many seconds its answer has to wait."""
        now_ns = self._now_ns()
        count, at_ns = self._peers.pop(peer, (0, now_ns))
        if now_ns - at_ns > limits.WRONG_TOKEN_FORGOTTEN_S * 1e9:
            count = 0
        self._peers[peer] = (count + 1, now_ns)
        if len(self._peers) > limits.WRONG_TOKEN_PEERS_MAX:
            self._peers.popitem(last=False)
        return min(limits.WRONG_TOKEN_S_MAX, limits.WRONG_TOKEN_S * 2.0 ** min(count, 30))
