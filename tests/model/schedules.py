"""Schedules in the reference model: when they put a job, and what a time becomes that puts none.

The times of a schedule here stand at one distance, so that they are found and counted by arithmetic. Beside what the
model answers it keeps what was promised over the whole conversation, and says so when that is broken.
"""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from datetime import datetime
from typing import Any, NamedTuple
from zlib import crc32

from tests.model.bookkeeping import NEVER, SECOND, Thing, seconds
from tests.model.extensions import Extensions

TEN_YEARS = 315_532_800 * SECOND
"""From 1970 on: when conversations begin, or where a wrong clock is set."""

STEPS_NS = [each * SECOND for each in (1, 5, -5, 3_000, -3_000, 86_400, -86_400)] + [TEN_YEARS, -TEN_YEARS]
"""By how much a wall clock is set. No few of them are just three hours together."""

PUT_RIGHT = 3 * 3_600 * SECOND
"""A clock that is set back by more was wrong before, or is now."""

DOUBT = 600 * SECOND
"""For so long it is taken for wrong now, and nothing fires."""

COUNTED_MAX = 100
"""Of times that pass together."""

CRONS = {"*/20 * * * *": (0, 1_200), "30 2 * * *": (9_000, 86_400)}
"""When the first time of a day is, in seconds of local time, and how far apart they are."""

ZONES = {"UTC": 0, "Asia/Tokyo": 9 * 3_600}
"""Local time, in seconds ahead of UTC, which has not changed here since 1951."""

TIMES = [
    *(f"every: {each}\n" for each in ("1", "2.5", "10", "10", "50", "7200")),
    *("cron: */20 * * * *\n", "cron: 30 2 * * *\n", "cron: 30 2 * * *\nzone: Asia/Tokyo\n"),
    *("every: 3\nstart: 1970-01-01T00:16:45.500Z\n", "every: 2\nend: 1970-01-01T00:16:50Z\n"),
    *("every: 7\nstart: 1970-01-01T00:16:49Z\nend: 1980-01-01T00:16:50Z\n", "every: 50\nend: 1980-01-02T00:00:00Z\n"),
]
ONCE = ["at: 1970-01-01T00:16:50Z\n", "at: 1980-01-01T00:16:50Z\n"]
SPREADS = ["", "", "spread: 8\n", "spread: 300\n"]
DELAYS = ["", "", *["overlap: allow\n"] * 3, "overlap: allow\nlate: 3\n", "late: 2\nmisfire: skip\n", "misfire: skip\n"]
PUTS = [
    *("", "tube: t\n", "tube: u\npri: 1\n", "tube: v\nttr: 1\n", "delay: 1.5\n", "tube: t\nttr: 2\nexpire: 3\n"),
    *("key: k\n", "tube: t\nexpire: 0.5\nkey: k\nuntil: reserve\n", "expire: 12\nkey: l\n"),
]
BODIES = ["", "x", "two\r\nlines"]
"""Of these a document is made, in the form in which a server shows it."""


class Moments(NamedTuple):
    """The times of a schedule, in nanoseconds."""

    first: int
    distance: int
    last: int

    def count(self, until: int) -> int:
        """How many there are up to a moment."""
        return max((min(until, self.last) - self.first) // self.distance + 1, 0)

    def after(self, at: int) -> int:
        """The first one behind a moment; 0: there is none."""
        found = self.first + self.count(at) * self.distance
        return found if found <= self.last else 0

    def latest(self, until: int) -> int:
        """The last one up to a moment."""
        return self.first + (self.count(until) - 1) * self.distance


def instant(text: str) -> int:
    """A moment that a document says."""
    return int(datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000


def moments_of(lines: dict[str, str]) -> Moments:
    """When a document is due."""
    start, end = instant(lines.get("start", "1970-01-01T00:00:00Z")), instant(lines.get("end", "2199-12-31T00:00:00Z"))
    if "at" in lines:
        return Moments(instant(lines["at"]), 1, instant(lines["at"]))
    if "every" in lines:
        return Moments(start, int(float(lines["every"]) * SECOND), end)
    first, distance = (each * SECOND for each in CRONS[lines["cron"]])
    first = (first - ZONES[lines.get("zone", "UTC")] * SECOND) % distance
    return Moments(first + -(-(start - first) // distance) * distance, distance, end)


class Scheduling(Extensions):
    """Schedules by name, and the wall clock."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.wall_seen = 0
        """The latest it has shown since it was put right, while there were schedules."""

        self.doubted = 0
        """Since when it is far behind that; 0: it is not."""

        self.schedules: dict[str, Thing] = {}
        self.made_count = 0

    def due(self, schedule: Thing) -> int:
        """When, by the wall clock, a schedule is due; never, if it is paused or has ended."""
        return schedule.next + schedule.spread if schedule.next and not schedule.paused else NEVER

    def next_fire(self) -> int:
        """When the first one is due."""
        due = [self.due(each) - self.lead for each in self.schedules.values() if self.due(each) < NEVER]
        if self.doubted and due:
            return self.doubted + DOUBT
        return NEVER if self.draining else max(min(due, default=NEVER), self.now)

    def next_deadline(self) -> int:
        return min(super().next_deadline(), self.next_fire())

    # --- the times ---

    def fire_due(self) -> None:
        """Look at the clock, and fire what is due."""
        if not self.schedules:
            return
        was_put_right = self.wall < self.wall_seen - PUT_RIGHT
        self.doubted = (self.doubted or self.now) if was_put_right else 0
        if was_put_right and self.now - self.doubted < DOUBT:
            return
        self.doubted = 0
        self.counts["clock-sets"] += was_put_right
        self.wall_seen = self.wall if was_put_right else max(self.wall, self.wall_seen)
        if self.draining:
            return
        for schedule in self.schedules.values() if was_put_right else ():
            self.put_right(schedule)
        while self.due(first := min(self.schedules.values(), key=self.turn)) <= self.wall:
            self.fire(first)

    def turn(self, schedule: Thing) -> tuple[int, int]:
        return self.due(schedule), schedule.number

    def put_right(self, schedule: Thing) -> None:
        """The clock was wrong before: the next time is behind the new one, unless it is over."""
        if schedule.last > self.wall + PUT_RIGHT:
            schedule.last = 0
            schedule.put.append(None)
            self.go_on(schedule, self.wall)
        elif self.wall < self.due(schedule) < NEVER:
            self.go_on(schedule, max(min(self.wall, schedule.next - 1), schedule.last))

    def go_on(self, schedule: Thing, behind: int) -> None:
        """Each time behind a moment counts from now on."""
        schedule.since, schedule.before, schedule.uncounted = behind, self.counted(schedule), 0
        schedule.next = schedule.times.after(behind)

    def counted(self, schedule: Thing) -> int:
        """How many times have become something."""
        return int(schedule.fires + schedule.skips + schedule.misses)

    def miss(self, schedule: Thing, until: int, but: int = 0) -> None:
        """The times that were due until some moment are missed, but for the last of them, if that is made up for."""
        schedule.last = schedule.times.latest(until - schedule.spread)
        passed = schedule.times.count(schedule.last) - schedule.times.count(schedule.next) + 1
        counted = min(passed, COUNTED_MAX)
        schedule.uncounted += passed - counted
        schedule.misses += counted - but
        self.counts["schedule-misses"] += counted - but

    def miss_overdue(self, schedule: Thing) -> None:
        """What has come, and can't fire any more, is missed, also while its spread is not over."""
        if schedule.next and not schedule.paused and schedule.next <= self.wall:
            self.miss(schedule, self.wall + schedule.spread)

    def fire(self, schedule: Thing) -> None:
        """What becomes of the next time of a schedule."""
        due, late = self.due(schedule), int(schedule.lines.get("late", 60)) * SECOND
        schedule.last, fires = schedule.next, True
        if self.wall - due > late:
            fires = "misfire" not in schedule.lines
            self.miss(schedule, self.wall if fires else self.wall - late - 1, fires)
        if fires and (self.overlaps(schedule) or self.taken(schedule)):
            schedule.skips += 1
            self.counts["schedule-skips"] += 1
        elif fires:
            schedule.fires += 1
            self.counts["schedule-fires"] += 1
            self.times["schedule-late"].append((self.wall - due) // 1000)
            schedule.put.append((schedule.last, schedule.fires))
            self.put_for(schedule, schedule.last, schedule.fires)
        schedule.next = schedule.times.after(schedule.last)

    def overlaps(self, schedule: Thing) -> bool:
        """Whether the job before is ready, delayed or reserved where it was put, and may not be."""
        job = self.jobs.get(schedule.job)
        is_there = (
            job and job.tube == schedule.tube and job.state != "buried" and not job.died and not self.is_over(job)
        )
        return bool(is_there) and "overlap" not in schedule.lines

    def is_over(self, job: Thing) -> bool:
        """Whether a job has waited too long: then it is gone for schedules, though it may go later in a tick."""
        return bool(job.over <= self.now and job.state in {"ready", "delayed"})

    def taken(self, schedule: Thing) -> Thing | None:
        """The job that has the key, or by a rule the body, of the next one."""
        rule, key = self.unique_in(schedule.tube), schedule.lines.get("key")
        holder: Thing | None = self.holder(
            schedule.tube, ("key", key) if key else ("body", schedule.body) if rule else None
        )
        if holder and self.is_over(holder):
            self.move(holder, holder.state)
            self.forget_tubes()
            return None
        return holder

    def unique_in(self, tube: str) -> list[str]:
        return self.rules_of(tube).get("unique", "").split()

    def put_for(self, schedule: Thing, at: int, fire: int) -> Thing:
        """Put the job of a schedule."""
        lines, tube = schedule.lines, self.open_tube(schedule.tube)
        delay = float(lines.get("delay", 0))
        job: Thing = self.new_job(tube, int(lines.get("pri", 65536)), delay, int(lines.get("ttr", 60)), schedule.body)
        job.key, job.until_what, job.put_by = lines.get("key"), lines.get("until", "delete"), (schedule.name, at, fire)
        if not job.key and (rule := self.unique_in(tube)):
            job.body_key, job.until_what = True, "reserve" if "reserve" in rule else "delete"
        job.own_expire = float(lines["expire"]) if "expire" in lines else None
        self.arrive(job)
        self.count_time(job, self.now + int(delay * SECOND))
        schedule.job = job.id
        return job

    # --- the commands ---

    def set_schedule(self, session: Thing, name: str, text: str) -> str:
        if self.draining:
            return "DRAINING"
        schedule = self.schedules.get(name)
        if schedule is None:
            counts = {"next": 0, "last": 0, "fires": 0, "skips": 0, "misses": 0, "job": 0, "paused": False}
            schedule = Thing(name=name, number=self.made_count, text=None, lines={}, put=[], **counts)
            self.schedules[name] = schedule
            self.made_count += 1
        if schedule.text != text:
            header, _, body = text.partition("\n\n")
            lines = dict(line.split(": ", 1) for line in header.split("\n"))
            of_time = ("cron", "every", "at", "zone", "start", "end")
            is_changed = [lines.get(each) for each in of_time] != [schedule.lines.get(each) for each in of_time]
            if is_changed and schedule.text is not None:
                self.miss_overdue(schedule)
            schedule.text, schedule.lines, schedule.body, schedule.tube = (
                text,
                lines,
                body,
                lines.get("tube", "default"),
            )
            schedule.spread = crc32(name.encode()) * int(lines.get("spread", 0)) * SECOND >> 32
            schedule.times = moments_of(lines)
            if is_changed:
                self.go_on(schedule, max(self.wall, schedule.last))
        return f"SCHEDULED {seconds(schedule.next)}"

    def drop_schedule(self, session: Thing, name: str) -> str:
        return "DROPPED" if self.schedules.pop(name, None) else "NOT_FOUND"

    def pause_schedule(self, session: Thing, name: str, switch: str) -> str:
        schedule = self.schedules.get(name)
        if schedule is None:
            return "NOT_FOUND"
        if schedule.paused != (switch == "on"):
            self.miss_overdue(schedule)
            schedule.paused = switch == "on"
            if schedule.next and not schedule.paused:
                self.go_on(schedule, max(self.wall, schedule.last))
        return "PAUSED"

    def fire_schedule(self, session: Thing, name: str, options: dict[str, float]) -> str:
        if self.draining:
            return "DRAINING"
        schedule = self.schedules.get(name)
        if schedule is None:
            return "NOT_FOUND"
        if holder := self.taken(schedule):
            return f"EXISTS {holder.id}"
        at = int(options["at"] * SECOND) if "at" in options else self.wall
        return f"INSERTED {self.put_for(schedule, at, 0).id}"

    def get_schedule(self, session: Thing, name: str) -> str:
        return self.schedule_frame(self.schedules[name], NEVER) if name in self.schedules else "NOT_FOUND"

    def list_schedules(self, session: Thing, options: dict[str, Any]) -> str:
        limit = options.get("limit", 1000)
        behind = sorted(name for name in self.schedules if name > options.get("after", ""))
        shown, more = [self.schedules[name] for name in behind[:limit]], len(behind) > limit
        if "order" in options:
            active = [each for each in self.schedules.values() if self.due(each) < NEVER]
            shown, more = sorted(active, key=self.turn)[:limit], False
        first = f"SCHEDULES {len(shown)}" + (f" next={shown[-1].name}" if more else "")
        return "\r\n".join([first, *(self.schedule_frame(each, options.get("bodies", 0)) for each in shown)])

    def schedule_frame(self, schedule: Thing, size: int) -> str:
        shown = schedule.text[:size]
        state = "paused" if schedule.paused else "active" if schedule.next else "ended"
        line = f"SCHEDULE {schedule.name} {len(shown)} state={state} next={seconds(schedule.next)}"
        line += f" last={seconds(schedule.last)} fires={schedule.fires} skips={schedule.skips}"
        line += f" misses={schedule.misses} size={len(schedule.text)}"
        line += f" due={seconds(schedule.next + schedule.spread)}" if schedule.next and schedule.spread else ""
        return line + (f" job={schedule.job}" if schedule.job else "") + f"\r\n{shown}"

    def put_by(self, job: Thing) -> str:
        """What the frame of a job says of its schedule."""
        if not job.put_by:
            return ""
        name, at, fire = job.put_by
        return f" schedule={name} scheduled={seconds(at)}" + (f" fire={fire}" if fire else "")

    def count_schedules(self) -> dict[str, int]:
        """What stats says of them."""
        there = list(self.schedules.values())
        due = sum(self.due(each) <= self.wall for each in there)
        return {"schedules": len(there), "schedules-paused": sum(each.paused for each in there), "schedules-due": due}

    # --- what was promised ---

    def check_promises(self) -> None:
        """Each time was something, once, and what was put has its number. Raises AssertionError."""
        for schedule in self.schedules.values():
            put = [each for each in schedule.put if each]
            assert [fire for _, fire in put] == list(range(1, schedule.fires + 1)), f"{schedule}: fires have gaps"
            pairs = zip(schedule.put, schedule.put[1:], strict=False)
            backward = [pair for pair in pairs if all(pair) and pair[0][0] >= pair[1][0]]
            assert not backward, f"{schedule}: its times go back, {backward}"
            passed = max(schedule.times.count(schedule.last) - schedule.times.count(schedule.since), 0)
            became = self.counted(schedule) - schedule.before + schedule.uncounted
            assert passed == became, f"{schedule}: {passed} times have passed, {became} have become something"
            if not schedule.paused and not self.draining and schedule.next:
                first = schedule.times.after(max(schedule.last, schedule.since))
                assert schedule.next == first, f"{schedule}: {first} is left out"
