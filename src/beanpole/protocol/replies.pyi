from typing import final

@final
class ReplyBuffer:
    @property
    def size(self) -> int: ...
    def take(self) -> bytes: ...
