"""What tests of counters share."""

from beanpole_ids.errors import NeedRangeError
from beanpole_ids.rules.sequence import Counter


def next_number(counter: Counter) -> int:
    """Takes one number of a counter, as the service takes many.

    Raises:
        NeedRangeError: none is reserved.
        ExhaustedError: the cycle has none left.
    """
    first, left = counter.offer()
    if not left:
        counter.need(1)
        raise NeedRangeError
    counter.advance(first, 1)
    return first
