"""The client of the ID service: numbers over UDP, from whichever node answers.

Bottom up: `calls` (requests, replies, and which node is asked), then the two skins `sync` and `aio`, which move
datagrams and wait, and `ranges` (numbers that are fetched ahead and handed out here). It needs none of the packages
that the service needs, and works with lxyfirst/id_server too, one number at a time.
"""

from beanpole.idclient.aio import AsyncIdClient
from beanpole.idclient.ranges import AsyncRange, Range
from beanpole.idclient.sync import IdClient

__all__ = ["AsyncIdClient", "AsyncRange", "IdClient", "Range"]
