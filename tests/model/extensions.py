"""The commands that beanstalkd does not have, in the reference model, and how clients say them.

Options stand last, as a dict. A duration is a number of seconds, also 0.5.
"""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from abc import ABC, abstractmethod
from typing import Any

from tests.model.bookkeeping import NEVER, Bookkeeping, Thing

WITH_BODY = ("put-job", "fail-job", "change-body")
"""The last word but the options is a body, of which the line says the size."""


def said(verb: str, *words: Any) -> bytes:  # noqa: ANN401 - numbers and names
    """An extension as a client sends it."""
    rest = list(words)
    options = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    body = str(rest.pop()) if verb in WITH_BODY else None
    line = [verb, *rest, *([] if body is None else [len(body)]), *(f"{key}={value}" for key, value in options.items())]
    return (" ".join(map(str, line)) + "\r\n" + ("" if body is None else body + "\r\n")).encode("latin-1")


class Extensions(Bookkeeping, ABC):
    """The extensions; what they share with the other commands is the model's."""

    @abstractmethod
    def new_job(self, tube: str, pri: int, delay: float, ttr: int, body: str) -> Thing:
        """Puts a job into a tube."""

    @abstractmethod
    def move(self, job: Thing, state: str, until: int = NEVER, holder: Thing | None = None) -> None:
        """Puts a job into a state."""

    @abstractmethod
    def move_later(self, job: Thing, delay: float) -> None:
        """Makes a job delayed, or ready."""

    def put_job(self, session: Thing, body: str, options: dict[str, Any]) -> str:
        session.producer = True
        if self.draining:
            return "DRAINING"
        tube = self.open_tube(options.get("tube", session.used))
        pri, delay, ttr = options.get("pri", 65536), options.get("delay", 0), options.get("ttr", 60)
        return f"INSERTED {self.new_job(tube, pri, delay, ttr, body).id}"

    def snooze_job(self, session: Thing, job: Thing, delay: float, options: dict[str, Any]) -> str:
        job.pri, job.releases = options.get("pri", job.pri), job.releases + 1
        self.move_later(job, delay)
        return "RELEASED"

    def fail_job(self, session: Thing, job: Thing, text: str, options: dict[str, Any]) -> str:
        job.pri = options.get("pri", job.pri)
        if "dead" in options:
            job.buries += 1
            self.move(job, "buried")
            return "BURIED"
        job.releases += 1
        self.move_later(job, options.get("delay", 0))
        return "RELEASED"

    def change_job(self, session: Thing, job: Thing, options: dict[str, Any]) -> str:
        unchangeable = {"reserved": {"tube", "pri", "delay"}, "buried": {"delay"}}.get(job.state, set())
        if unchangeable & set(options):
            return "NOT_FOUND"
        job.pri, job.ttr = options.get("pri", job.pri), max(options.get("ttr", job.ttr), 1)
        if "delay" in options:
            self.move_later(job, options["delay"])
        if options.get("tube", job.tube) != job.tube:
            job.tube = self.open_tube(options["tube"])
            self.move(job, job.state, job.until)
        return "CHANGED"

    def change_body(self, session: Thing, job: Thing, body: str) -> str:
        job.body = body
        return "CHANGED"
