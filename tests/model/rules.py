"""The rules of tubes in the reference model: which tube has which, and its limits."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from tests.model.bookkeeping import SECOND, Thing, listed
from tests.model.times import Times

TEXTS = [
    *("", "attempts: 1\n", "attempts: 2\ndead: u\n", "dead: v\n", "backoff: 0.5 factor 3 max 9\n"),
    "attempts: 1\ndead: t\nbackoff: 2 factor 1 max 2\n",
    *("expire: 1\n", "expire: 2 dead\n", "attempts: 2\ndead: u\nexpire: 0.5 dead\n"),
    *("unique: body until reserve\n", "unique: body replace\n", "attempts: 1\ndead: u\nunique: body\n"),
    *("", "jobs-max: 1\n", "bytes-max: 3\n", "jobs-max: 2\nbytes-max: 9\n", "concurrency: 1\n", "concurrency: 2\n"),
    *("rate: 1/s burst 1\n", "rate: 3/s burst 2\n", "rate: 60/m burst 1\nconcurrency: 1\n"),
    *("jobs-max: 3\nrate: 2/s burst 2\nconcurrency: 2\n", "attempts: 2\ndead: u\nconcurrency: 1\n"),
    *("attempts: 2\nbreaker: 50% of 2 in 3s probe 2s\n", "backoff: 1\nbreaker: 100% of 1 in 1s probe 1s\n"),
    "attempts: 3\ndead: u\nexpire: 2\nrate: 3/s burst 2\nbreaker: 34% of 3 in 60s\n",
    *("group-concurrency: 1\n", "groups: fair split\ngroup-jobs-max: 1\n", "group-order: strict hold-buried\n"),
    *("groups: fair\ngroup-concurrency: 2\ngroup-weight: a=3 b=2\n", "attempts: 2\ndead: u\ngroup-order: strict\n"),
    "unique: body\nconcurrency: 2\ngroups: split\ngroup-order: strict\n",
]
"""Rules that conversations set: each rule there is, so tight that it is noticed, and some together."""

BREAKING = [text for text in TEXTS if "breaker" in text]
GROUPING = ["", *(text for text in TEXTS if "group" in text)]

UNITS = {"s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}


class Rules(Times):
    """Setting rules and showing them; what limits a tube."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.rule_texts: dict[str, str] = {}
        """Pattern: lines."""

        self.tokens_at = now
        """When the tokens were counted that there are."""

        self.rules_set_at: dict[str, int] = {}
        self.buckets: dict[str, tuple[tuple[int, int], list[int]]] = {}
        """Tube: its rate, as the time for a token and the number of tokens; and when each of these comes."""

        self.breakers: dict[str, Thing] = {}
        """Tube: when attempts ended; since when it is closed; when the next probe may be, and which one is held."""

    def pattern_of(self, tube: str) -> str | None:
        """The pattern from which a tube has its rules: its name, else the longest prefix."""
        prefixes = [each for each in self.rule_texts if each.endswith("*") and tube.startswith(each[:-1])]
        return tube if tube in self.rule_texts else max(prefixes, key=len, default=None)

    def rules_of(self, tube: str) -> dict[str, str]:
        """The rules of a tube by name."""
        lines = self.rule_texts.get(self.pattern_of(tube) or "", "").splitlines()
        return dict(line.split(": ", 1) for line in lines)

    # --- limits ---

    def is_full(self, tube: str, jobs: int, size: int) -> bool:
        """Whether so many more jobs, of so many bytes, are too many."""
        there, rules = [job for job in self.jobs.values() if job.tube == tube], self.rules_of(tube)
        jobs_max, bytes_max = (int(rules.get(name, 1 << 62)) for name in ("jobs-max", "bytes-max"))
        waiting = sum(job.state in ("ready", "delayed") for job in there)
        too_large = size > 0 and sum(len(job.body) for job in there) + size > bytes_max
        return too_large or (jobs > 0 and waiting + jobs > jobs_max)

    def refuse(self, tube: str) -> str:
        self.counts["puts-refused"] += 1
        self.tube_counts[tube]["puts-refused"] += 1
        return "OUT_OF_MEMORY"

    def is_closed(self, tube: str) -> bool:
        return (
            super().is_closed(tube)
            or self.is_taken(tube)
            or self.tokens(tube)[0] > self.tokens_at
            or self.is_shut(tube)
        )

    def is_taken(self, tube: str) -> bool:
        return self.held(tube) >= int(self.rules_of(tube).get("concurrency", 1 << 62))

    def held(self, tube: str) -> int:
        return sum(job.tube == tube and job.state == "reserved" for job in self.jobs.values())

    def tokens(self, tube: str) -> list[int]:
        return self.buckets[tube][1] if self.rate_of(tube) else [0]

    def take(self, job: Thing) -> None:
        """Takes the first token for a job, and another one follows the last; the job is the probe if one is due."""
        if rate := self.rate_of(job.tube):
            times = self.tokens(job.tube)
            times.append(max(times[-1], self.now) + rate[0])
            times.pop(0)
        if breaker := self.broken(job.tube):
            breaker.probe = job.id

    def rate_of(self, tube: str) -> tuple[int, int] | None:
        """The time for a token, and how many there may be."""
        if "rate" not in self.rules_of(tube):
            return None
        each, _, burst = self.rules_of(tube)["rate"].split()
        number, unit = each.split("/")
        return -(-UNITS[unit] // int(number)), int(burst)

    def begin_bucket(self, tube: str, since: int) -> None:
        """Begins an empty bucket, unless there is one of the same rate that is filled later."""
        if rate := self.rate_of(tube):
            before = self.buckets.get(tube, (None, [0]))
            times = [since + rate[0] * (1 + at) for at in range(rate[1])]
            if before[0] != rate or before[1][-1] < times[-1]:
                self.buckets[tube] = (rate, times)

    # --- the breaker ---

    def begin_breaker(self, tube: str) -> None:
        self.breakers[tube] = Thing(ended=[], since=0, probe_at=0, probe=0)

    def breaker_rule(self, tube: str) -> list[int]:
        """Its share, of how many, in how long, and the time to the next probe; empty: it has none."""
        words = self.rules_of(tube).get("breaker", "").split()
        return [int(word.rstrip("%s")) for word in words[0::2]] + [30] * (len(words) == 5)

    def broken(self, tube: str) -> Thing | None:
        """The breaker of a tube that it has closed."""
        breaker = self.breakers.get(tube)
        return breaker if breaker and breaker.probe_at else None

    def is_shut(self, tube: str) -> bool:
        breaker = self.broken(tube)
        return breaker is not None and bool(breaker.probe or breaker.probe_at > self.tokens_at)

    def is_excused(self, job: Thing) -> bool:
        """Whether an attempt that fails is none."""
        breaker = self.broken(job.tube)
        return breaker is not None and breaker.since < self.now and breaker.probe != job.id

    def note_failure(self, job: Thing) -> None:
        """The attempt at a held job fails: its tube may be closed by that, or for longer."""
        if not (rule := self.breaker_rule(job.tube)):
            return
        breaker, (share, least, _, wait) = self.breakers[job.tube], rule
        if not breaker.probe_at:
            breaker.ended.append((self.now, True))
            failures, ends = self.recent(job.tube)
            if ends < least or failures * 100 < ends * share:
                return
            breaker.since = self.now
        elif breaker.probe != job.id:
            return
        breaker.probe, breaker.probe_at = 0, self.now + wait * SECOND

    def note_success(self, job: Thing) -> None:
        """The holder of a job deletes it: its tube may be opened by that."""
        if not self.breaker_rule(job.tube):
            return
        if not self.broken(job.tube):
            self.breakers[job.tube].ended.append((self.now, False))
        elif self.breakers[job.tube].probe == job.id:
            self.begin_breaker(job.tube)

    def recent(self, tube: str) -> tuple[int, int]:
        """Of the attempts that ended in the half window of the last one and in the one before: failures, and all."""
        half, ended = self.breaker_rule(tube)[2] * SECOND // 2, self.breakers[tube].ended
        found: list[bool] = [failed for when, failed in ended if when // half >= ended[-1][0] // half - 1]
        return sum(found), len(found)

    def free_probe(self, job: Thing) -> None:
        """A held job leaves the hands of its holder: if it is the probe still, another one may be."""
        breaker = self.broken(job.home)
        if breaker and breaker.probe == job.id:
            breaker.probe = 0

    def open_tube(self, tube: str) -> str:
        if tube not in self.tubes:
            self.begin_breaker(tube)
            self.begin_bucket(tube, self.rules_set_at.get(self.pattern_of(tube) or "", 0))
        return super().open_tube(tube)

    def next_deadline(self) -> int:
        tokens = [self.tokens(tube)[0] for tube in self.tubes]
        broken = [breaker for tube in self.tubes if (breaker := self.broken(tube))]
        moments: list[int] = [*tokens, *(breaker.probe_at for breaker in broken if not breaker.probe)]
        return min([super().next_deadline(), *(moment for moment in moments if moment > self.now)])

    # --- the commands ---

    def change_rules(self, pattern: str, text: str | None) -> None:
        before = {tube: (self.rate_of(tube), self.breaker_rule(tube)) for tube in self.tubes}
        self.rule_texts.pop(pattern, None)
        if text is not None:
            self.rule_texts[pattern] = text
            self.rules_set_at[pattern] = self.now
        for tube, (rate, breaker) in before.items():
            if self.breaker_rule(tube) != breaker:
                self.begin_breaker(tube)
            if self.rate_of(tube) != rate:
                self.begin_bucket(tube, self.now)
            self.follow_rules(tube)

    def set_rules(self, session: Thing, pattern: str, text: str) -> str:
        if self.rule_texts.get(pattern) != text:
            self.change_rules(pattern, text)
        return "RULES_SET"

    def drop_rules(self, session: Thing, pattern: str) -> str:
        if pattern not in self.rule_texts:
            return "NOT_FOUND"
        self.change_rules(pattern, None)
        return "DROPPED"

    def get_rules(self, session: Thing, tube: str) -> str:
        pattern = self.pattern_of(tube)
        return "NOT_FOUND" if pattern is None else listed(f'---\npattern: "{pattern}"\n{self.rule_texts[pattern]}')

    def list_rules(self, session: Thing, options: dict[str, str]) -> str:
        found = [(pattern, text) for pattern, text in sorted(self.rule_texts.items()) if pattern > options["after"]]
        lines = ["\n  ".join([f'- pattern: "{pattern}"', *text.splitlines()]) + "\n" for pattern, text in found]
        return listed("---\n" + "".join(lines))
