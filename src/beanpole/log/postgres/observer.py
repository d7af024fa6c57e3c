"""What a node of a cluster reports to an operator."""

from typing import Protocol


class Observer(Protocol):
    """Hears of it."""

    # --- PostgreSQL ---

    def stalled(self, reason: str, seconds: float) -> None:
        """Nothing is confirmed, for a reason and so long; this is said again and again while it is so."""

    def stall_ended(self, seconds: float) -> None:
        """Rows are confirmed again."""

    # --- reading the log ---

    def rewound(self, count: int) -> None:
        """So many rows are gone that were not confirmed: nobody was answered on them."""

    def unreachable(self, reason: str) -> None:
        """The server can't be reached; this is said again and again while it is so."""

    def reachable(self) -> None:
        """The server is reached again."""

    def starts_over(self, reason: str) -> None:
        """The node reads the log from its oldest row again."""

    def unreadable(self, reason: str, *, waits: bool) -> None:
        """A row can't be verified. The node reads it again, or `waits` until the leader has repaired that."""

    def repairs(self, segment: int, node: str, reason: str) -> None:
        """Everything up to a segment is written again, for a node can't verify a row, and this one can't either."""

    def repaired(self, segment: int) -> None:
        """That is done."""

    def contradicted(self, node: str, reason: str) -> None:
        """A node can't verify a row, and this one can."""

    # --- roles ---

    def leader_known(self, note: dict[str, str], epoch: int) -> None:
        """Another node leads, and says this of itself."""

    def leads(self, epoch: int, jobs: int, seconds: float) -> None:
        """This node leads from here on."""

    def name_taken(self, name: str) -> None:
        """Another process that is alive has this node's name."""

    def not_shown(self, reason: str) -> None:
        """What this node says of itself can't be written, or what others say not be read."""

    def inbox_rests(self, reason: str) -> None:
        """Nothing is taken out of the inbox, for a reason; this is said again and again while it is so."""

    def goes_on(self, reason: str) -> None:
        """This node was asked to hand over, and can't."""

    def cut_off(self) -> None:
        """No other node reaches this one, and it leads on."""

    def deposed(self, reason: str) -> None:
        """This node does not lead any more."""
