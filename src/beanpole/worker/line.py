"""A connection of a worker: a client that never makes a second connection.

A client makes a new connection when the last one broke. A worker must not send ``delete`` over a new one: the job that
it has finished is the server's again, and a server that has lost its jobs may have given the id to another.
"""

from typing import TYPE_CHECKING, Any

from beanpole.client import AsyncClient
from beanpole.errors import ConnectionLostError

if TYPE_CHECKING:
    from beanpole.client.aio_link import Link


class Line(AsyncClient[Any]):
    """One connection; when it is over, every command raises ConnectionLostError."""

    _was_made = False

    async def _connected(self) -> "Link":
        if self._was_made and (self._link is None or self._link.is_over):
            raise ConnectionLostError("the connection is over", outcome_unknown=False)
        link = await super()._connected()
        self._was_made = True
        return link
