"""A worker's client: one connection, and never a second one.

An ordinary client reconnects when its connection breaks. A worker must not send ``delete`` over a new connection: the
job that it has finished went back to the queue when the old one broke, and a server that has lost its data may have
given the same id to another job.
"""

from typing import TYPE_CHECKING, Any

from beanpole.client import AsyncClient
from beanpole.client.errors import ConnectionLostError

if TYPE_CHECKING:
    from beanpole.client.aio_link import Link


class WorkerClient(AsyncClient[Any]):
    """One connection; once it is over, every command raises ConnectionLostError."""

    _was_made = False

    async def _connected(self) -> "Link":
        if self._was_made and (self._link is None or self._link.is_over):
            raise ConnectionLostError("the connection is over", outcome_unknown=False)
        link = await super()._connected()
        self._was_made = True
        return link
