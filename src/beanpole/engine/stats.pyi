from collections.abc import Iterable

from beanpole.engine.engine import Engine
from beanpole.engine.job import Job
from beanpole.engine.tube import Tube
from beanpole.protocol.commands import Verb

PROTOCOL_VERSION: str
COMMAND_KEYS: tuple[tuple[str, Verb], ...]
PROCESS_KEYS: tuple[tuple[str, str], ...]
STATE_NAMES: tuple[str, ...]

def yaml(pairs: Iterable[tuple[str, object]]) -> bytes: ...
def names(tubes: Iterable[Tube]) -> bytes: ...
def server(engine: Engine, now_ns: int) -> bytes: ...
def tube(tube: Tube, now_ns: int) -> bytes: ...
def job(job: Job, now_ns: int) -> bytes: ...
