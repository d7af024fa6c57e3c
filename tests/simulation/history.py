"""What one process was asked and what became true by it, step by step, to judge what a crash leaves.

A step is a command, a tick or the end of a connection that told the log something. Each job has versions: what it was
from a step on. What recovery brings back must be the state after one and the same step, for all jobs and pauses: a
prefix of what happened. That step must not lie before the last one whose reply a client has seen.

Not every change is told to the log: a reservation is not, nor is the end of a delay. So a version says what the log was
told, and :meth:`History.matches` what may have become of it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter

from beanpole.engine.engine import Engine
from beanpole.engine.state.job import Job, JobCount, State
from beanpole.engine.state.tags import KeyBit, Tag
from beanpole.log.compaction import schedules_in
from beanpole.log.encoder import Encoder
from beanpole.log.format import RULES_FIXED, SCHEDULE_FIXED
from tests.simulation.runner import NS_PER_S
from tests.simulation.said import SCHEDULE, Said, schedules_of

ONCE_RECORD = 41
"""Bytes of the record of a token, without the job of its put."""

CHANGING = (JobCount.RELEASES, JobCount.BURIES, JobCount.KICKS, JobCount.TIMEOUTS)
"""What tells one version from another: each recorded change counts one of them up."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as it is."""

    numbers: tuple[int, ...]
    state: int
    until_ns: int
    """When the delay ends; 0: there is none."""

    reserve_count: int
    bury_number: int = 0
    """Later buried jobs have higher ones; 0: it is not buried."""

    texts: tuple[bytes, ...] = ()
    """Its tube, its body and its tags but that of attempts."""

    attempt: int = 0
    """The last attempt that has begun; 0: none is counted."""


def see(job: Job, bury_number: int = 0) -> Seen:
    """What a job is, where a reserved one counts as ready, and so does one that failed and is not settled yet."""
    attempt, under_way, _ = attempts(job)
    state = State.READY if job.state == State.RESERVED or under_way else State(job.state)
    until_ns = job.deadline_at_ns if state == State.DELAYED else 0
    number = bury_number if state == State.BURIED else 0
    numbers = (job.pri, job.delay_s, job.ttr_s, *[job.count(what) for what in CHANGING])
    return Seen(numbers, state, until_ns, job.count(JobCount.RESERVES), number, texts(job), attempt)


def attempts(job: Job) -> tuple[int, bool, bytes]:
    """Which attempt was the last one to begin, whether it is under way, and the tags but that which says so."""
    tags = job.tags
    for tag, at, end in split(tags):
        if tag == Tag.ATTEMPTS:
            return int.from_bytes(tags[at + 3 : at + 7], "little"), bool(tags[at + 7]), tags[:at] + tags[end:]
    return 0, False, tags


def split(tags: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield each tag's number, and where it begins and ends."""
    at = 0
    while at < len(tags):
        end = at + 3 + int.from_bytes(tags[at + 1 : at + 3], "little")
        yield tags[at], at, end
        at = end


def fire_of(job: Job) -> tuple[bytes, int, int]:
    """Which schedule has put a job, for which time, and which of its fires that was; no name: none has."""
    for tag, at, end in split(job.tags):
        if tag == Tag.SCHEDULED:
            said = job.tags[at + 3 : end]
            return said[16:], int.from_bytes(said[:8], "little"), int.from_bytes(said[8:16], "little")
    return b"", 0, 0


def texts(job: Job) -> tuple[bytes, ...]:
    """The tube, the body and the tags of a job, but that of attempts: it changes without a reply that waits for it."""
    return (job.tube.name, job.text, attempts(job)[2])


def without_key(version: Seen) -> tuple[bytes, ...]:
    """What it says where a later job has the key, and a crash lost the record in which this one gave it up."""
    tube, body, tags = version.texts
    if tags[:1] == bytes([Tag.KEY]):
        tags = tags[:3] + bytes([tags[3] | KeyBit.FREED]) + tags[4:]
    return (tube, body, tags)


def see_change(job: Job, bury_number: int) -> Seen:
    """What the log was told of a job that has just changed: it may have been handed out since then."""
    seen = see(job, bury_number)
    if job.state != State.RESERVED:
        return seen
    return replace(seen, reserve_count=seen.reserve_count - 1, attempt=max(seen.attempt - 1, 0))


def before_hand_out(last: Seen | None, version: Seen, job: Job) -> Seen | None:
    """What a job was before it was handed out in the step that put or changed it, if that freed its key.

    The key is freed by a record of its own, behind the first one. A crash can keep the first alone: no reply
    about either was sent then, and the job has its key.
    """
    tube, body, tags = version.texts
    freed = KeyBit.UNTIL_RESERVE | KeyBit.FREED
    if job.state != State.RESERVED or tags[:1] != bytes([Tag.KEY]) or tags[3] & freed != freed:
        return None
    if last is not None and last.texts[2][:1] == tags[:1] and last.texts[2][3] & KeyBit.FREED:
        return None
    if any(tag == Tag.DEATH for tag, _, _ in split(tags)):
        return None  # its death has freed the key, in the first record
    return replace(version, texts=(tube, body, tags[:3] + bytes([tags[3] & ~KeyBit.FREED]) + tags[4:]))


def taken(last: Seen, job: Job, now_ns: int) -> bool:
    """Whether a job that was not ready was reserved by its id."""
    waited = last.state == State.BURIED or (last.state == State.DELAYED and last.until_ns > now_ns)
    return waited and job.state == State.RESERVED


@dataclass(slots=True)
class JobHistory:
    """One job's versions, each with the step that made it; None: it is not there."""

    created_at_ns: int
    versions: list[tuple[int, Seen | None]]
    job: Job | None = None
    """The job itself, as long as the process lives; it knows how often it was reserved even when it is deleted."""

    attempts_max: list[int] = field(default_factory=list)
    """Of each version the last attempt that has begun as it was true."""

    def note_attempt(self, attempt: int) -> None:
        """Takes note of the last attempt that has begun."""
        self.attempts_max += [0] * (len(self.versions) - len(self.attempts_max))
        self.attempts_max[-1] = max(self.attempts_max[-1], attempt)

    @property
    def reserve_count(self) -> int:
        return 0 if self.job is None else self.job.count(JobCount.RESERVES)


Pause = tuple[int, int] | None
"""Seconds, and the moment when it ends."""


@dataclass(slots=True)
class Rules:
    """What a run can't be held to."""

    clock_jumps: bool = False
    """The wall clock was set, so a delay only can't be longer than it was asked to be, in seconds begun."""

    disk_full: bool = False
    """Timeouts need not be counted."""


@dataclass(slots=True)
class Recovered:
    """What is there after a crash."""

    jobs: dict[int, Seen]
    pauses: dict[bytes, Pause]
    now_ns: int
    texts: dict[bytes, bytes]
    """Of :func:`texts_of`."""

    held: set[int] = field(default_factory=set)
    """The jobs that wait for who has a token: they count as ready, whatever the log says of them."""


@dataclass(slots=True)
class History:
    """One process's life."""

    rules: Rules
    step: int = 0
    steps_of_many: set[int] = field(default_factory=set)
    """Steps that told the log more than one thing: a crash can keep some of that."""

    indexes: list[int] = field(default_factory=lambda: [0])
    """What the log had been told after each step."""

    jobs: dict[int, JobHistory] = field(default_factory=dict)
    pauses: dict[bytes, list[tuple[int, Pause]]] = field(default_factory=dict)
    texts: dict[bytes, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    """Of each name of :func:`texts_of` what it was from a step on; None: it was not there."""

    seen_step: int = 0
    """The last step that told the log something and whose reply a client has seen."""

    bury_count: int = 0

    def begin(self, before: "History | None", found: Recovered, engine: Engine) -> None:
        """Begins with what recovery brought back."""
        if before is not None:
            self.bury_count = before.bury_count
            self.pauses = {tube: [(0, pause)] for tube, pause in found.pauses.items()}
            self.texts = {name: [(0, text)] for name, text in found.texts.items()}
            for id, seen in found.jobs.items():
                old = before.jobs[id]
                self.jobs[id] = JobHistory(old.created_at_ns, [(0, seen)])
        for job in engine.jobs.jobs():
            self.jobs[job.id].job = job

    @property
    def compared(self) -> int:
        """How many of a job's numbers must agree: all but, where the disk was full, the time-outs."""
        return 6 if self.rules.disk_full else 7

    def put(self, id: int, created_at_ns: int) -> None:
        """Takes note of a new job, in the step that follows."""
        self.jobs[id] = JobHistory(created_at_ns, [(0, None)])

    def next_step(self, engine: Engine, index: int, now_ns: int, *, many: bool) -> None:
        """Takes note of what a step has changed."""
        self.note_attempts(engine)
        self.step += 1
        self.indexes.append(index)
        if many:
            self.steps_of_many.add(self.step)
        there = set()
        for job in sorted(engine.jobs.jobs(), key=attrgetter("id")):
            there.add(job.id)
            history = self.jobs[job.id]
            history.job = job
            last, now = history.versions[-1][1], see(job)
            if (
                last is None
                or last.numbers[: self.compared] != now.numbers[: self.compared]
                or last.texts != now.texts
                or last.attempt > now.attempt
                or (now.state == State.DELAYED and last.until_ns != now.until_ns)
                or (now.state == State.READY and last.until_ns > now_ns)
                or taken(last, job, now_ns)
            ):
                stays = last is not None and last.state == State.BURIED and last.texts[0] == job.tube.name
                number = last.bury_number if last is not None and stays else self.bury_count + 1
                version = see_change(job, number)
                between = before_hand_out(last, version, job)
                if between is not None:
                    history.versions.append((self.step, between))
                    history.note_attempt(attempts(job)[0])
                history.versions.append((self.step, version))
        self.bury_count += 1  # those that are buried in one step share a number: jobs that die together
        for id, history in self.jobs.items():
            if id not in there and history.versions[-1][1] is not None:
                history.versions.append((self.step, None))
        self.note_attempts(engine)
        now_there = texts_of(engine)
        for name in self.texts.keys() | now_there.keys():
            texts = self.texts.setdefault(name, [(0, None)])
            if texts[-1][1] != now_there.get(name):
                texts.append((self.step, now_there.get(name)))

    def note_attempts(self, engine: Engine) -> None:
        """Takes note of attempts that have begun: the log is told of them beside the steps."""
        for job in engine.jobs.jobs():
            self.jobs[job.id].note_attempt(attempts(job)[0])

    def set_pause(self, tube: bytes, pause: Pause) -> None:
        """Takes note of a pause in the step that was noted last."""
        self.pauses.setdefault(tube, [(0, None)]).append((self.step, pause))

    def paused(self) -> list[bytes]:
        """The tubes whose pause was not ended by a command."""
        return [tube for tube, versions in self.pauses.items() if versions[-1][1] is not None]

    def durable_step(self, index: int) -> int:
        """The last step of which the log was told no more than the records up to `index`."""
        step = self.step
        while step and self.indexes[step] > index:
            step -= 1
        return step

    # --- the judgement ------------------------------------------------------------------------------------------------

    def judge(self, found: Recovered, least_step: int) -> Recovered:
        """Raises AssertionError unless `found` is what was true after a step, `least_step` or a later one.

        Returns `found` with the order in which its jobs were buried.
        """
        unknown = found.jobs.keys() - self.jobs.keys()
        assert not unknown, f"jobs came back that were not there before: {sorted(unknown)}"
        possible = (1 << (self.step + 1)) - (1 << least_step)
        jobs: dict[int, Seen] = {}
        for id, history in self.jobs.items():
            mask, seen = self.job_steps(history, found.jobs.get(id), found.now_ns, least_step, is_held=id in found.held)
            assert mask & possible, (
                f"job {id} is {found.jobs.get(id)}, but its versions were {history.versions}, and those after step "
                f"{self.step} or one from {least_step} on that suits the others are possible (mask {possible:b})"
            )
            possible &= mask
            if seen is not None:
                jobs[id] = seen
        tubes_there = {seen.texts[0] for seen in found.jobs.values()} | {b"default"}
        for tube, versions in self.pauses.items():
            mask = self.pause_steps(versions, found.pauses.get(tube), found.now_ns, is_there=tube in tubes_there)
            assert mask & possible, (
                f"the pause of {tube!r} is {found.pauses.get(tube)} at {found.now_ns}, but its versions were "
                f"{versions}, and of {self.step} steps only these suit (mask {possible:b})"
            )
            possible &= mask
        for name in self.texts.keys() | found.texts.keys():
            texts = self.texts.get(name, [(0, None)])
            mask = self.text_steps(texts, found.texts.get(name))
            assert mask & possible, f"{name!r} is {found.texts.get(name)!r}, but was {texts} (mask {possible:b})"
            possible &= mask
        for tube in found.pauses.keys() - self.pauses.keys():
            assert found.pauses[tube] is None, f"tube {tube!r} is paused, but never was"
        pauses = found.pauses | self.ended_pauses(found.pauses, possible)
        return Recovered(jobs, pauses, found.now_ns, found.texts, found.held)

    def ended_pauses(self, found: dict[bytes, Pause], possible: int) -> dict[bytes, Pause]:
        """The pauses that are over by a clock that can be set back: then the log still holds them."""
        pauses: dict[bytes, Pause] = {}
        for tube, versions in self.pauses.items():
            steps = [step for step, _ in versions]
            for i, (_, version) in enumerate(versions):
                if self.rules.clock_jumps and found.get(tube) is None and self.steps_of(steps, i) & possible:
                    pauses[tube] = version
        return pauses

    def job_steps(
        self, history: JobHistory, found: Seen | None, now_ns: int, least_step: int, *, is_held: bool
    ) -> tuple[int, Seen | None]:
        """The steps after which a job was what was found, as bits; and what was found, with its bury number.

        What it was within a step counts as that step, unless the whole step must be there.
        """
        mask = 0
        seen = found
        steps = [step for step, _ in history.versions]
        for i, (step, version) in enumerate(history.versions):
            if step <= least_step and steps[i + 1 : i + 2] == [step]:
                continue
            if version is None or found is None:
                suits = version is found
            else:
                most = history.attempts_max[i] if i < len(history.attempts_max) else version.attempt
                suits = self.matches(version, found, history.reserve_count, now_ns)
                suits = suits and version.attempt <= found.attempt <= max(version.attempt, most)
            if suits:
                mask |= self.steps_of(steps, i)
                if version is not None and found is not None:
                    seen = replace(found, bury_number=version.bury_number if found.state == State.BURIED else 0)
                    if is_held:
                        seen = replace(seen, state=version.state, until_ns=version.until_ns)
        return mask, seen

    def text_steps(self, texts: list[tuple[int, bytes | None]], found: bytes | None) -> int:
        """The steps after which a text was what was found, as bits.

        A schedule can fire more than once in a tick, and a crash keep some of that.
        """
        steps = [step for step, _ in texts]
        mask = 0
        for i, (_, version) in enumerate(texts):
            if version == found:
                mask |= self.steps_of(steps, i)
            after = texts[i + 1][1] if i + 1 < len(texts) else None
            if version and after and found and found.startswith(b"SCHEDULE ") and steps[i + 1] in self.steps_of_many:
                least, said, most = Said(version), Said(found), Said(after)
                between = zip(least.progress, said.progress, most.progress, strict=True)
                if said.document == least.document == most.document and all(a <= b <= c for a, b, c in between):
                    mask |= 1 << steps[i + 1]
        return mask

    def pause_steps(self, versions: list[tuple[int, Pause]], found: Pause, now_ns: int, *, is_there: bool) -> int:
        """The steps after which a tube was paused as was found, as bits."""
        mask = 0
        for i, (_, version) in enumerate(versions):
            over = version is None or version[1] <= now_ns or not is_there
            if self.rules.clock_jumps and version is not None and is_there:
                suits = found is None or (found[0] == version[0] and found[1] < now_ns + (version[0] + 1) * NS_PER_S)
            else:
                suits = found is None if over else found == version
            if suits:
                mask |= self.steps_of([step for step, _ in versions], i)
        return mask

    def steps_of(self, starts: list[int], i: int) -> int:
        """The steps after which version `i` held, as bits."""
        end = starts[i + 1] if i + 1 < len(starts) else self.step + 1
        if end in self.steps_of_many:
            end += 1
        return (1 << max(end, starts[i])) - (1 << starts[i])

    def matches(self, version: Seen, found: Seen, reserve_count: int, now_ns: int) -> bool:
        """Whether a job that the log was told to be `version` may be `found` after a restart."""
        if found.numbers[: self.compared] != version.numbers[: self.compared] or (
            found.texts != version.texts and found.texts != without_key(version)
        ):
            return False
        if not version.reserve_count <= found.reserve_count <= max(reserve_count, version.reserve_count):
            return False
        if found.state != State.DELAYED:
            is_over = self.rules.clock_jumps or version.until_ns <= now_ns
            became_ready = version.state == State.DELAYED and found.state == State.READY and is_over
            return found.state == version.state or became_ready
        if self.rules.clock_jumps:
            return version.state == State.DELAYED and found.until_ns - now_ns < (found.numbers[1] + 1) * NS_PER_S
        return version.state == State.DELAYED and found.until_ns == version.until_ns


def texts_of(engine: Engine) -> dict[bytes, bytes]:
    """The rules of each pattern, and of each schedule what is said of it, by a name that no pattern has."""
    rules = {} if engine.rules is None else {each.pattern: each.text for each in engine.rules.all()}
    return rules | {SCHEDULE + name: said.text for name, said in schedules_of(engine).items()}


def recount(engine: Engine, segments: range = range(0)) -> tuple[int, dict[int, int]]:
    """The bytes of the records of all jobs, pauses, rules and schedules, over all and by segment."""
    by_segment: Counter[int] = Counter()
    segment_of = attrgetter("segment")
    for job in engine.jobs.jobs():
        by_segment[segment_of(job)] += 77 + len(job.tube.name) + len(job.text) + len(job.tags)
    for tube in engine.tube_list:
        assert (tube.segment == 0) == (tube.paused_until_ns == 0), f"a pause of {tube.name!r} lies nowhere"
        if tube.segment:
            by_segment[tube.segment] += 22 + len(tube.name)
    table = attrgetter("rules")(engine)
    for rules in [] if table is None else table.all():
        by_segment[segment_of(rules)] += RULES_FIXED + len(rules.pattern) + 1 + len(rules.text)
    schedules = schedules_of(engine)
    for segment in segments if schedules else ():
        for name in schedules_in(engine, segment, b"")[0]:
            by_segment[segment] += SCHEDULE_FIXED + len(name) + len(schedules.pop(name).document)
    assert not schedules, f"the records of {list(schedules)} lie nowhere"
    return by_segment.total(), by_segment


def check_accounts(engine: Engine, records: Encoder, newest: int = 0) -> None:
    """Asserts that what is counted as alive equals a recount; `newest` is the last segment that was read."""
    accounts = records.accounts
    segments = range(accounts.first_segment, max(records.segment, newest) + 1)
    total, by_segment = recount(engine, segments)
    tokens = engine.once.count if engine.once else 0
    total += tokens * ONCE_RECORD
    assert total == accounts.live_bytes, f"{accounts.live_bytes} bytes live by count, {total} in truth"
    assert accounts.live_count == engine.jobs.count, "live jobs are not counted right"
    found = 0
    for number in segments:
        live = accounts.live_in(number) - by_segment.get(number, 0)
        assert live >= 0, f"segment {number}: {live} live bytes too many beside {by_segment}"
        assert live % ONCE_RECORD == 0, f"segment {number}: {live} live bytes too many beside {by_segment}"
        found += live // ONCE_RECORD
    assert found == tokens, f"{tokens} tokens, of which {found} have a record"
