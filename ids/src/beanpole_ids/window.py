"""A window of recent answers, from which a repeated request gets the same number again.

It is in memory only: a request that is repeated after a restart gets a new number, which leaves a gap and repeats none.
"""

from collections import OrderedDict
from hashlib import blake2b

from beanpole_ids import limits

LONG = 100  # an answer counts as one more number for each of so many bytes
NAME_BYTES_MAX = 128  # of a longer one there is a hash: ids and salts may be long, and many names are kept


def name_of(*parts: bytes) -> bytes:
    """Return what is equal for a repetition of a request. Its parts have no NUL, and the first is not empty."""
    name = b"\0".join(parts)
    return name if len(name) <= NAME_BYTES_MAX else b"\0" + blake2b(name, digest_size=16).digest()


class Window:
    """The data of answers, as JSON, by the name of their request, the oldest first."""

    def __init__(self) -> None:
        self.answers: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()
        """Until when an answer is kept, and its data."""

        self.number_count = 0  # numbers in all of them

    def find(self, name: bytes, now_s: float) -> bytes | None:
        """Return the data of the answer to a request; None if it is new."""
        entry = self.answers.get(name)
        return entry[1] if entry is not None and entry[0] >= now_s else None

    def keep(self, name: bytes, data: bytes, now_s: float) -> None:
        """Keep an answer."""
        if name in self.answers:
            self._drop(name)
        self.answers[name] = (now_s + limits.WINDOW_S, data)
        self.number_count += size(data)
        while self._is_full() or next(iter(self.answers.values()))[0] < now_s:
            self._drop(next(iter(self.answers)))

    def _is_full(self) -> bool:
        return len(self.answers) > limits.WINDOW_COUNT_MAX or self.number_count > limits.WINDOW_NUMBERS_MAX

    def _drop(self, name: bytes) -> None:
        self.number_count -= size(self.answers.pop(name)[1])


def size(data: bytes) -> int:
    """Return as how many numbers an answer counts."""
    return 1 + len(data) // LONG
