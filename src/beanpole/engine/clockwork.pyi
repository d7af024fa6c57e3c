from typing_extensions import disjoint_base

from beanpole.engine.store import Store

@disjoint_base
class Clockwork(Store):
    def tick(self, now_ns: int) -> None: ...
