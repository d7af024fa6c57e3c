from typing import final

from beanpole.engine.clockwork import Clockwork
from beanpole.protocol.commands import Verb

MISTAKES: dict[Verb, bytes]

@final
class Engine(Clockwork):
    def check(self, now_ns: int = -1) -> None: ...
