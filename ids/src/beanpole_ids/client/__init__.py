"""The client of the ID service: numbers over UDP, from whichever node answers.

Bottom up: `calls` (requests, replies, and the order in which nodes are asked), then `sync` and `aio`, which send
datagrams and wait, and `ranges` (numbers that are fetched ahead). It needs none of the service's dependencies, and
works with lxyfirst/id_server too, one number at a time.
"""

from beanpole_ids.client.aio import AsyncIdClient
from beanpole_ids.client.ranges import AsyncRange, Range
from beanpole_ids.client.sync import IdClient

__all__ = ["AsyncIdClient", "AsyncRange", "IdClient", "Range"]
