"""What becomes of jobs that fail, by the rules of their tubes, in the reference model."""

from tests.model.bookkeeping import NEVER, SECOND, Thing
from tests.model.groups import Groups


def backoff(rule: str, attempt: int, id: int) -> int:
    """How long a job waits after an attempt, in nanoseconds."""
    words = rule.split()
    said = dict(zip(words[1::2], words[2::2], strict=True))
    first, most = (int(float(text) * 1000) * 1_000_000 for text in (words[0], said.get("max", "3600")))
    delay = min(first, most)
    for _ in range(attempt - 1):
        delay = min(delay * int(float(said.get("factor", "2")) * 1000) // 1000, most)
    mixed = (id * 0x9E3779B97F4A7C15 % 2**64 ^ attempt) * 0xD6E8FEB86659FD93 % 2**64
    return delay - delay // 5 // 1024 * (mixed >> 54)


class Failures(Groups):
    """Attempts, backoff and death."""

    def count_time(self, job: Thing, due: int) -> None:
        """Lets the time that a job may wait begin."""
        job.over = due + int(job.expire * SECOND) if job.expire else NEVER

    def counts_attempts(self, job: Thing) -> bool:
        return bool({"attempts", "backoff", "group-order"} & set(self.rules_of(job.tube)))

    def arrive(self, job: Thing) -> None:
        """A job is new in its tube: it has had no attempt."""
        job.attempt, job.under_way = 0 if self.counts_attempts(job) else None, False
        rule = self.rules_of(job.tube).get("expire", "0").split() if job.own_expire is None else [job.own_expire]
        job.expire, job.expire_dead = float(rule[0]), rule[1:] == ["dead"]

    def begin_attempt(self, job: Thing) -> None:
        if self.counts_attempts(job):
            job.attempt, job.under_way = (job.attempt or 0) + 1, True

    def end_attempt(self, job: Thing, attempt: int) -> None:
        if job.attempt is not None or self.counts_attempts(job):
            job.attempt = attempt
        job.under_way = False

    def forget_attempts(self, job: Thing) -> None:
        job.attempt, job.under_way = None if job.attempt is None else 0, False

    def failed_attempt(self, job: Thing) -> int:
        """Which attempt it is that has failed."""
        return (job.attempt or 0) + (job.state == "reserved" and not job.under_way)

    def is_last(self, job: Thing) -> bool:
        rules = self.rules_of(job.tube)
        return "attempts" in rules and self.failed_attempt(job) >= int(rules["attempts"])

    def note_end(self, job: Thing, how: str) -> None:
        """An attempt has failed of which it is kept, if its tube counts attempts or there is more of it."""
        if job.history or self.counts_attempts(job):
            self.keep_end(job, how)

    def keep_end(self, job: Thing, how: str, text: str = "") -> None:
        lines = text.lstrip("".join(map(chr, range(33)))).splitlines() or [""]
        job.history = [(self.now, how, job.holder.name, lines[0][:200]), *job.history][:5]

    def fail(self, job: Thing, delay: int, *, keeps_delay: bool = False, how: str = "failed") -> None:
        """A held job comes back, and not because somebody wanted it to: it is ready, delayed or dead."""
        is_excused = self.is_excused(job)
        if how != "lost":
            self.note_failure(job)
        if job.superseded or job.over <= self.now:
            self.move(job, "ready")
            return
        is_recorded = how != "lost" or self.counts_attempts(job) or job.under_way
        if how != "failed" and is_recorded and not is_excused:
            self.note_end(job, how)
        if self.is_last(job) and not is_excused:
            self.die(job)
            return
        attempt, rules = self.failed_attempt(job), self.rules_of(job.tube)
        if is_excused:
            attempt = (job.attempt or 0) - job.under_way
        elif not delay and "backoff" in rules:
            delay = backoff(rules["backoff"], attempt, job.id)
        if is_excused and job.attempt is None:
            pass
        elif self.counts_attempts(job) or job.under_way:
            self.end_attempt(job, attempt)
        if delay or not keeps_delay:
            job.delay = delay // SECOND
        self.move(job, "delayed" if delay else "ready", self.now + delay if delay else NEVER)

    def die(self, job: Thing, why: str = "attempts") -> None:
        """A job is dead: it is ready in the tube of the dead, or buried where it is."""
        died_before, grave = job.died, self.rules_of(job.tube).get("dead", job.tube)
        attempt = self.failed_attempt(job)
        self.tally("jobs-dead", job.tube, 1)
        stays = grave == job.tube or (died_before and died_before[0] != job.tube)
        attempts = attempt if self.counts_attempts(job) else job.reserves
        job.died = (died_before[0] if died_before else job.tube, self.now, attempts, why)
        if stays:
            self.end_attempt(job, attempt)
            self.count_bury(job)
            self.move(job, "buried")
            return
        self.tally_move(job.tube, grave)
        if job.superseded:
            job.key, job.body_key, job.superseded = None, False, False
        job.freed = True
        job.tube = self.open_tube(grave)
        self.arrive(job)
        self.count_time(job, self.now)
        self.move(job, "ready")
