from typing_extensions import disjoint_base

@disjoint_base
class Records:
    @property
    def index(self) -> int: ...
