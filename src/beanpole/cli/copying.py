"""Puts copies of jobs, many a round trip: what `move` and `import` have in common.

No command puts a buried job. So it is put with a delay, reserved by its id and buried: no worker sees it meanwhile. If
that is interrupted, the copy is ready after the delay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from beanpole.client import Client, Result

BURY_WITHIN_S = 60
"""Seconds of delay of a copy that will be buried: far more than two round trips."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A job to be put."""

    body: bytes
    pri: int
    ttr: int
    delay_s: int = 0
    buried: bool = False


def put_copies(client: Client[bytes], tube: str, copies: Sequence[Copy]) -> list[Result[int]]:
    """Put jobs into a tube; return for each its id or an error.

    Raises:
        ReplyError: a copy could not be buried.
        ConnectionLostError: some were put, or all, or none.
    """
    with client.pipeline(raise_errors=False) as pipeline:
        results = [
            pipeline.put(each.body, each.pri, BURY_WITHIN_S if each.buried else each.delay_s, each.ttr, tube=tube)
            for each in copies
        ]
    with client.pipeline() as pipeline:
        for each, result in zip(copies, results, strict=True):
            if each.buried and result.error is None:
                pipeline.reserve_job(result.result())
                pipeline.bury(result.result(), each.pri)
    return results
