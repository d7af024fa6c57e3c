from typing_extensions import disjoint_base

def now_ns() -> int: ...

@disjoint_base
class EventQueue:
    def fileno(self) -> int: ...
