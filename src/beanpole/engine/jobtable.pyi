from typing import final

from beanpole.engine.job import Job

@final
class JobTable:
    @property
    def count(self) -> int: ...
    def jobs(self) -> list[Job]: ...
    def check(self) -> None: ...
