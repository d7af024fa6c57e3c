from typing import final

from beanpole.engine.store import Store
from beanpole.protocol.commands import Verb

MISTAKES: dict[Verb, bytes]

@final
class Engine(Store):
    def tick(self, now_ns: int) -> None: ...
    def check(self, now_ns: int = -1) -> None: ...
