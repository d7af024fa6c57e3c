from enum import IntFlag
from typing import final

class Kind(IntFlag):
    NOTHING = 0
    INSERTED = 1
    RESERVED = 2
    DELETED = 3
    USING = 4
    WATCHING = 5
    OTHER = 6

class ReplyError(Exception): ...

@final
class ReplyReader:
    @property
    def kind(self) -> int: ...
    @property
    def job_id(self) -> int: ...
    @property
    def body_bytes(self) -> int: ...
    @property
    def complete(self) -> bool: ...
    def other_line(self) -> bytes: ...
    def feed(self, data: bytes) -> list[tuple[int, int, int]]: ...
