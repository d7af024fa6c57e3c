import socket
from collections.abc import Sequence
from typing import final

from beanpole.bench.histogram import Histogram
from beanpole.bench.plan import Group

@final
class GroupState:
    def __init__(self, group: Group) -> None: ...
    @property
    def group(self) -> Group: ...
    @property
    def latencies(self) -> Histogram: ...

@final
class Connection:
    def __init__(self, sock: socket.socket, state: GroupState, index: int, tubes: Sequence[bytes]) -> None: ...
