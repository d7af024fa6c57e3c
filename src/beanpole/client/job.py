"""A job as a client sees it."""

from typing import Generic, TypeVar

B = TypeVar("B")


class Job(Generic[B]):
    """A job that was reserved or peeked at: its id and its body, decoded."""

    __slots__ = ("body", "id")

    def __init__(self, id: int, body: B) -> None:
        self.id = id
        self.body = body

    def __repr__(self) -> str:
        return f"beanpole.Job(id={self.id!r}, body={self.body!r})"


def job_id(job: "Job[B] | int") -> int:
    """The id of a job, of which an id is one."""
    return job.id if isinstance(job, Job) else job
