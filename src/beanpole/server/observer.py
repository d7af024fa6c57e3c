"""What an operator reads of a server's connections, and of what keeps them waiting."""

from beanpole.server import listener
from beanpole.server.logs import Logger
from beanpole.server.slowturn import SlowTurn, SlowTurnReporter


class Observer:
    """Reports to an operator what happens to connections, and what keeps them waiting."""

    def __init__(self, logger: Logger, limited: bool) -> None:
        self.logger = logger
        self.limited = limited
        """Whether --connections-max allows fewer connections than there are descriptors."""
        self.slow_turns = SlowTurnReporter(logger)

    def connection_opened(self, fd: int) -> None:
        """A client connected."""
        self.logger.info("connection opened", fd=fd, peer=listener.peer_text(fd))

    def connection_closed(self, fd: int) -> None:
        """A client is gone."""
        self.logger.info("connection closed", fd=fd)

    def turn_slow(self, slow: SlowTurn) -> None:
        """A turn has kept every client waiting."""
        self.slow_turns.report(slow)

    def accept_paused(self, reason: str) -> None:
        """There is no place for a new client: no descriptor, or as many connections as there may be."""
        if self.limited and reason == "EMFILE":
            self.logger.warning("accepting paused", reason="--connections-max", effect="new clients wait for a place")
            return
        self.logger.error(
            "accepting paused", reason=reason, advice="raise the limit of open files (ulimit -n, LimitNOFILE=)"
        )
