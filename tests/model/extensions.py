"""The commands that beanstalkd does not have, in the reference model, and how clients say them.

Options stand last, as a dict. A duration is a number of seconds, also 0.5.
"""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from fractions import Fraction
from typing import Any

from tests.model.bookkeeping import NEVER, SECOND, Thing
from tests.model.many import ManyJobs, wanted

WITH_BODY = ("put-job", "fail-job", "change-body", "set-rules", "set-schedule")
"""The last word but the options is a body, of which the line says the size."""


def said(verb: str, *words: Any) -> bytes:  # noqa: ANN401 - numbers and names
    """An extension as a client sends it."""
    rest = list(words)
    options = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    body = str(rest.pop()) if verb in WITH_BODY else None
    line = [verb, *rest, *([] if body is None else [len(body)]), *(f"{key}={value}" for key, value in options.items())]
    return (" ".join(map(str, line)) + "\r\n" + ("" if body is None else body + "\r\n")).encode("latin-1")


PUT_OPTIONS: dict[str, list[Any]] = {
    "taken": ["keep", "replace"],
    "until": ["delete", "reserve"],
    "at": [0, 1001, 1003.5],
    "within": [0, 1, 2.5],
    "group": ["a", "b"],
    "once": ["p", "q"],
    "for": [1, 3],
}
"""What a put-job can have and a change-job can't; conversations give it to those with a key."""


class Extensions(ManyJobs):
    """The extensions; what they share with the other commands is the model's."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.once: dict[tuple[str, str], tuple[int, int]] = {}
        """By tube and token: what a put was answered with, and when that is forgotten."""

        self.once_max = NEVER

    def put_job(self, session: Thing, body: str, options: dict[str, Any]) -> str:
        if "once" not in options:
            return self.put_new(session, body, options)
        named = self.split(options.get("tube", session.used), options.get("group"))[0], options["once"]
        ends = [end for _, end in self.once.values() if end > self.now]
        id, end = self.once.get(named, (0, 0))
        session.producer = True
        if end > self.now:
            return f"EXISTS {id}"
        if len(ends) >= self.once_max and not self.draining:
            return "OUT_OF_MEMORY"
        reply = self.put_new(session, body, options)
        if " " in reply:
            self.once[named] = int(reply.split()[1]), (-(-self.now // SECOND) + options.get("for", 300)) * SECOND
        return reply

    def put_new(self, session: Thing, body: str, options: dict[str, Any]) -> str:
        """A put that was not done before."""
        session.producer = True
        if self.draining:
            return "DRAINING"
        tube, group = self.split(options.get("tube", session.used), options.get("group"))
        if not (is_one_too_many := self.is_one_too_many(tube)):
            self.open_tube(tube)
        pri, ttr = options.get("pri", 65536), options.get("ttr", 60)
        key, until = options.get("key"), options.get("until", "delete")
        rule = self.rules_of(tube).get("unique", "").split() if key is None else []
        merges, taken = bool(rule), "replace" if "replace" in rule else options.get("taken")
        until = "reserve" if "reserve" in rule else until
        holder = self.holder(tube, ("body", body) if merges else ("key", key) if key else None)
        delay = self.delay_of(options, holder.created if holder and holder.state != "reserved" else self.now)
        if holder and taken != "replace":
            self.tally("puts-merged", tube, merges)
            return f"{'INSERTED' if merges else 'EXISTS'} {holder.id}"
        replaced = holder if holder and holder.state != "reserved" else None
        size = len(body) - (len(replaced.body) if replaced else 0)
        if self.is_full(tube, 0 if replaced else 1, size) or (not replaced and self.is_group_full(tube, group)):
            return self.refuse(tube)
        if is_one_too_many:
            return "OUT_OF_MEMORY"
        self.tally("puts-merged" if merges else "jobs-replaced", tube, bool(replaced))
        if holder and holder.state != "reserved":
            self.end_in_group(holder)
            holder.group = group
            holder.pri, holder.ttr, holder.body, holder.until_what = pri, max(ttr, 1), body, until
            holder.died, holder.text, holder.history = None, "", []
            holder.own_expire = options.get("expire")
            self.arrive(holder)
            self.count_time(holder, self.now + int(delay * SECOND))
            self.move_later(holder, delay)
            return f"{'INSERTED' if merges else 'REPLACED'} {holder.id}"
        if holder:
            holder.superseded = True
        job = self.new_job(tube, pri, delay, ttr, body, group=group)
        job.key, job.until_what, job.own_expire = key, until, options.get("expire")
        job.body_key = merges
        self.arrive(job)
        self.count_time(job, self.now + int(delay * SECOND))
        return f"INSERTED {job.id}"

    def delay_of(self, options: dict[str, Any], put_first: int) -> Fraction:
        """How many seconds a job that was put first in that moment is to wait."""
        delay = Fraction(options.get("delay", 0))
        if "at" in options:
            delay = max(Fraction(options["at"]) - Fraction(self.wall, SECOND), Fraction(0))
        if "within" in options:
            delay = min(delay, max(Fraction(options["within"]) - Fraction(self.now - put_first, SECOND), Fraction(0)))
        return delay

    def find_job(self, session: Thing, tube: str, key: str) -> str:
        holder = self.holder(tube, ("key", key))
        return self.peek(session, holder) if holder else "NOT_FOUND"

    def cancel_job(self, session: Thing, job: Thing) -> str:
        self.move(job, "deleted")
        self.tally("jobs-cancelled", job.tube, 1)
        del self.jobs[job.id]
        return "CANCELLED"

    def cancel_key(self, session: Thing, tube: str, key: str) -> str:
        holder = self.holder(tube, ("key", key))
        return f"{self.cancel_job(session, holder)} {holder.id}" if holder else "NOT_FOUND"

    def holder(self, tube: str, key: tuple[str, str] | None) -> Thing | None:
        """The job that holds a key in a tube."""
        jobs = [job for job in self.jobs.values() if job.tube == tube and wanted(job) == key and key is not None]
        return next((job for job in jobs if not (job.superseded or job.freed or job.state == "buried")), None)

    def stuck(self, job: Thing) -> bool:
        """Whether a job stays buried, for another one has its key."""
        has_key = not (job.freed or job.superseded)
        return job.state == "buried" and (job.superseded or bool(has_key and self.holder(job.tube, wanted(job))))

    def snooze_job(self, session: Thing, job: Thing, delay: float, options: dict[str, Any]) -> str:
        self.count_release(job)
        if job.over <= self.now:
            self.move(job, "ready")
            return "RELEASED"
        job.pri = options.get("pri", job.pri)
        if job.attempt is not None:  # else it was not counted, and is not by this
            self.end_attempt(job, job.attempt - job.under_way)
        self.move_later(job, delay)
        return "RELEASED"

    def fail_job(self, session: Thing, job: Thing, text: str, options: dict[str, Any]) -> str:
        if "dead" in options or job.over > self.now:
            job.pri = options.get("pri", job.pri)
        is_last = self.is_last(job) and not self.is_excused(job)
        if "dead" in options or (is_last and not job.superseded and job.over > self.now):
            job.text = text
            self.keep_end(job, "failed", text)
            self.note_failure(job)
            self.die(job, "given-up" if "dead" in options else "attempts")
            return "BURIED"
        if job.over > self.now:  # else it ends as one that has waited too long, of which nobody said why it failed
            job.text = text
            self.keep_end(job, "failed", text)
        self.count_release(job)
        self.fail(job, int(options.get("delay", 0) * SECOND))
        return "RELEASED"

    def change_job(self, session: Thing, job: Thing, options: dict[str, Any]) -> str:
        unchangeable = {"reserved": {"tube", "pri", "delay"}, "buried": {"delay", "expire"}}.get(job.state, set())
        if unchangeable & set(options):
            return "NOT_FOUND"
        target = options.get("tube", job.tube)
        if job.state != "buried" and target != job.tube:
            holder = self.holder(target, None if job.freed else wanted(job))
            if holder:
                return f"EXISTS {holder.id}"
        is_full = target != job.tube and self.is_full(target, job.state != "buried", len(job.body))
        if is_full or self.is_one_too_many(target):
            return "OUT_OF_MEMORY"
        job.pri, job.ttr = options.get("pri", job.pri), max(options.get("ttr", job.ttr), 1)
        if "expire" in options:
            job.own_expire = job.expire = options["expire"]
            job.expire_dead = False
        due = job.until if job.state == "delayed" else self.now
        if "delay" in options:
            due = self.now + int(options["delay"] * SECOND)
        if {"delay", "expire"} & set(options):
            self.count_time(job, due)
        if "delay" in options:
            self.move_later(job, options["delay"])
        if options.get("tube", job.tube) != job.tube:
            self.tally_move(job.tube, options["tube"])
            job.kicks += job.died is not None
            job.tube, job.died = self.open_tube(options["tube"]), None
            self.arrive(job)
            self.count_time(job, due)
            self.move(job, job.state, job.until)
        return "CHANGED"

    def change_body(self, session: Thing, job: Thing, body: str) -> str:
        if self.is_full(job.tube, 0, len(body) - len(job.body)):
            return "OUT_OF_MEMORY"
        has_key = not (job.freed or job.superseded)
        job.body, before = body, job.body
        if job.body_key and has_key and job.state != "buried" and body != before:
            job.freed = True  # or it would be found itself
            job.freed = self.holder(job.tube, wanted(job)) is not None
        return "CHANGED"

    def reserve_many(self, session: Thing, count: int, timeout: float) -> str | None:
        session.worker = True
        jobs: list[Thing] = []
        if count == 0:
            self.serve()
            offered = self.best_offer(session.watched)
            reply: str | None = self.tell(session, offered.tube) if offered else self.wait(session, timeout, "notice")
            return reply
        while len(jobs) < count and (job := self.best(session.watched)):
            self.take(job)
            self.hold(session, job)
            jobs.append(job)
        if jobs:
            self.note_wait(self.now)
            return self.frames(jobs)
        waited: str | None = self.wait(session, timeout, "frame")
        return waited

    def frames(self, jobs: list[Thing]) -> str:
        """The reply that shows some jobs."""
        return "\r\n".join([f"JOBS {len(jobs)}", *(self.frame(job) for job in jobs)])

    def delete_many(self, session: Thing, *ids: int) -> str:
        lost = []
        for id in ids:
            if (job := self.jobs.get(id)) and job.holder in (None, session):
                self.delete(session, job)
                self.forget_tubes()
            else:
                lost.append(id)
        self.counts["cmd-delete"] += len(ids) - len(lost)
        return " ".join(map(str, ["DELETED", len(ids) - len(lost), *lost]))

    def touch_many(self, session: Thing, *ids: int) -> str:
        lost = []
        for id in ids:
            if (job := self.jobs.get(id)) and job.holder is session:
                self.touch(session, job)
            else:
                lost.append(id)
        return " ".join(map(str, ["TOUCHED", len(ids) - len(lost), *lost]))

    def cancel_reserve(self, session: Thing) -> str:
        if not session.waiting:
            return "NOT_WAITING"
        self.answer(session, "TIMED_OUT")
        return "CANCELLED"
