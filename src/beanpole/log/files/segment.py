"""A segment's file, and the states that it goes through, from the pool and back to it.

::

                          taken                ended                  synced
      spare ───────────────────────► open ──────────────► sealing ──────────────► sealed
        ▲                                                                           │ moved
        │ zeroed                           moves synced                             ▼
        └─────────────────── dead ◄──────────────────────────────────────────── emptied
                              │ removed
                              ▼
                            gone
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What becomes of a segment next."""

    SPARE = "spare"
    """Zeros, in the pool."""

    OPEN = "open"
    """Records are written to it. Only one segment is open."""

    SEALING = "sealing"
    """It ends with an END record, which is being synced. Until that is done no other segment is open."""

    SEALED = "sealed"
    """It is complete, and that is durable."""

    EMPTIED = "emptied"
    """What lived in it is written again, and that is being synced."""

    DEAD = "dead"
    """Nothing in it is needed any more; its file is being removed, or zeroed for the pool."""

    GONE = "gone"


TRANSITIONS = {
    (State.SPARE, "taken"): State.OPEN,
    (State.OPEN, "ended"): State.SEALING,
    (State.SEALING, "synced"): State.SEALED,
    (State.SEALED, "moved"): State.EMPTIED,
    (State.EMPTIED, "moves synced"): State.DEAD,
    (State.DEAD, "zeroed"): State.SPARE,
    (State.DEAD, "removed"): State.GONE,
}


@dataclass(slots=True)
class Segment:
    """A segment with its file."""

    number: int
    size: int
    """Bytes of the file."""

    state: State = State.SEALED
    comes_back: bool = False
    """Whether its file is to become a spare, and is booked as one since it was emptied."""

    def advance(self, event: str) -> None:
        """Go into the next state."""
        assert (self.state, event) in TRANSITIONS, f"segment {self.number} is {self.state}, and then {event}"
        self.state = TRANSITIONS[self.state, event]
