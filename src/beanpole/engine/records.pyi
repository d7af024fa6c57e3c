from enum import IntFlag

from typing_extensions import disjoint_base

class Room(IntFlag):
    FULL = 0
    OK = 1
    WAIT = 2

@disjoint_base
class Records:
    @property
    def index(self) -> int: ...
    def room_for_put(self, size: int) -> Room: ...
