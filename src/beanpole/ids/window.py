"""A window of recent answers, from which a repeated request gets the same number again.

It is in memory only: a request that is repeated after a restart gets a new number, which leaves a gap and repeats none.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from beanpole.ids import limits

LONG = 100
"""A number counts once more for each of so many characters."""


class Window:
    """Answers by the name of their request (`Request.name`), the oldest first."""

    def __init__(self) -> None:
        self.answers: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        """Until when an answer is kept, and its data."""

        self.number_count = 0
        """Numbers in all of them."""

    def find(self, name: Hashable, now_s: float) -> Any:  # noqa: ANN401 - a number or a list of them
        """Return the data of the answer to a request; None if it is new."""
        entry = self.answers.get(name)
        return entry[1] if entry is not None and entry[0] >= now_s else None

    def keep(self, name: Hashable, data: Any, now_s: float) -> None:  # noqa: ANN401 - see `find`
        """Keep an answer."""
        if name in self.answers:
            self._drop(name)
        self.answers[name] = (now_s + limits.WINDOW_S, data)
        self.number_count += size(data)
        while self._is_full() or next(iter(self.answers.values()))[0] < now_s:
            self._drop(next(iter(self.answers)))

    def _is_full(self) -> bool:
        return len(self.answers) > limits.WINDOW_COUNT_MAX or self.number_count > limits.WINDOW_NUMBERS_MAX

    def _drop(self, name: Hashable) -> None:
        self.number_count -= size(self.answers.pop(name)[1])


def size(data: Any) -> int:  # noqa: ANN401 - see `find`
    """Return how many numbers an answer has; a long one counts as several, for the limit is of memory."""
    count, first = (len(data), data[0]) if isinstance(data, list) else (1, data)
    return count * (1 + len(first) // LONG)
