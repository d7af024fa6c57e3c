"""What a log holds and what is wrong with it: the logic of ``beanpole wal check``, ``stat`` and ``dump``.

A segment is read twice, for two questions. :func:`survey` asks what it holds: runs of good records, and bytes between
them that are none; behind damage it searches for the next good record. :func:`start_in_vain` asks what the server would
do: it runs the server's recovery on a :class:`~beanpole.log.tools.snapshot.Snapshot`.

Nothing is changed on disk here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from beanpole.engine.check import check as check_engine
from beanpole.engine.engine import Engine
from beanpole.log.encoder import Encoder
from beanpole.log.errors import DamageError, NoLogError, OtherVersionError, VersionError
from beanpole.log.files.names import segment_name
from beanpole.log.files.recovery import recover
from beanpole.log.format import Kind
from beanpole.log.reader import Header, describe, durable_beyond, read_header
from beanpole.log.replay import Replay
from beanpole.log.tools.scan import find_salt, next_record
from beanpole.log.tools.snapshot import Snapshot

Fields = dict[str, Any]
"""What :func:`beanpole.log.reader.describe` returns of a record."""

KIND_NAMES: dict[int, str] = {kind: name.lower() for name, kind in Kind.__members__.items()}
"""What the tools call the kinds of records."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a log."""

    file: str
    offset: int
    """Byte of the file."""

    what: str

    start: str
    """What a start of the server does about it."""

    lost_bytes: int = 0
    """Bytes from `offset` on in which no good record is."""

    damage: bool = True
    """False: a crash leaves this, or a server that is writing."""


@dataclass(slots=True)
class SegmentSurvey:
    """What a segment holds."""

    number: int
    size_bytes: int
    header: Header
    """Its header; where that is damaged, what is known of it."""

    counts: list[int] = field(default_factory=lambda: [0] * 256)
    """Good records, by the number of their kind."""

    ended: bool = False
    """Whether it has an END record."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    """Where good records lie: from a byte up to another."""

    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Where bytes lie that are no good record."""

    @property
    def name(self) -> str:
        return segment_name(self.number)

    @property
    def records(self) -> dict[str, int]:
        """Good records, by the name of their kind."""
        return {name: self.counts[kind] for kind, name in KIND_NAMES.items()}

    @property
    def used_bytes(self) -> int:
        """Bytes up to the end of the last good record."""
        return self.runs[-1][1] if self.runs else 0


@dataclass(slots=True)
class Survey:
    """What a log holds."""

    segments: list[SegmentSurvey] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    growing: bool = False
    """Whether a server is writing the last segment."""

    newer: str | None = None
    """What is known of a segment that another version of the program wrote; None: there is none."""

    @property
    def damaged(self) -> bool:
        """Whether something is wrong that no crash explains."""
        return any(each.damage for each in self.findings)


Visit = Callable[[SegmentSurvey, bytes], None]
"""A function that is given each segment, with its bytes, when it was read."""


def survey(
    snapshot: Snapshot,
    visit: Visit = lambda _segment, _data: None,
    replay: Replay | None = None,
    *,
    as_one_segment: bool = False,
) -> Survey:
    """Read every segment of a log, the oldest first.

    A `replay` with an engine gets all good records, whatever lies between them. Its segments count from 1; all of them
    count as segment 0 for salvage, which moves what is alive in that.

    Raises:
        NoLogError: there is none.
        OSError: the disk can't be read.
    """
    result = Survey(growing=snapshot.holder is not None)
    replay = Replay() if replay is None else replay
    numbers = snapshot.numbers
    if not numbers:
        raise NoLogError(f"{snapshot.path} holds no log: no file is called {segment_name(1)} or the like")
    for i, number in enumerate(numbers):
        if i and number != numbers[i - 1] + 1:
            result.findings.append(missing(numbers[i - 1] + 1, number))
        data = snapshot.read(segment_name(number))
        replay_as = 0 if as_one_segment else i + 1
        segment = survey_segment(number, data, result, replay, replay_as, is_last=i == len(numbers) - 1)
        result.segments.append(segment)
        visit(segment, data)
    if 0 < replay.first_segment < numbers[0]:
        result.findings.append(missing(replay.first_segment, numbers[0]))
    if replay.next_segment > numbers[-1]:
        result.findings.append(missing(numbers[-1] + 1, numbers[-1] + 2))
    return result


def missing(first: int, behind: int) -> Finding:
    """Return the finding that segments are not there."""
    last = f" to {segment_name(behind - 1)}" if behind - 1 > first else ""
    return Finding(segment_name(first), 0, f"it is missing{last}", "refuses")


def survey_segment(  # noqa: PLR0913 - one step of a survey
    number: int, data: bytes, result: Survey, replay: Replay, replay_as: int, *, is_last: bool
) -> SegmentSurvey:
    """Read one segment; add what is wrong with it to the findings."""
    name = segment_name(number)
    lost, harmless = 0, False
    try:
        header = read_header(data)
        if header.number != number:
            what = f"its header says that it is segment {header.number}"
            result.findings.append(Finding(name, 16, what, "refuses"))
    except ValueError as error:
        if isinstance(error, VersionError):
            result.newer = f"{name}: {error}"
        was_durable = replay.next_segment == number or durable_beyond(data, number, 0, None)
        harmless = is_last and result.newer is None and not was_durable
        before = result.segments[-1].header if result.segments else Header()
        lost = min(before.size, len(data))
        start = "nothing: the server is about to write it" if result.growing else "makes the file a spare"
        result.findings.append(
            Finding(name, 0, str(error), start if harmless else "refuses", lost, damage=not harmless)
        )
        header = Header(version=before.version, size=before.size, salt=0 if harmless else find_salt(data, before))
    segment = SegmentSurvey(number, len(data), header, gaps=[(0, lost)] if lost else [])
    if harmless:
        return segment
    at = header.size
    replay.segment(data, replay_as, header)
    while at >= 0:
        stop = replay.good_bytes
        if replay.unknown:
            result.newer = f"{name}: {replay.problem}"
            record = describe(data, stop, header)
            stop += record[0] if record is not None else 0
        if stop > at:
            segment.runs.append((at, stop))
        if replay.ended:
            break
        at = stop if replay.unknown else next_start(segment, data, stop, result, is_last=is_last)
        if at >= 0:
            replay.resume(data, replay_as, header.version, at)
    segment.counts, segment.ended = replay.kinds, replay.ended
    return segment


def next_start(segment: SegmentSurvey, data: bytes, stop: int, result: Survey, *, is_last: bool) -> int:
    """Add what is wrong at `stop`, where no good record is; return where the next one begins, or -1."""
    end = stop + len(data[stop:].rstrip(b"\0"))
    if is_last and len(data) < segment.header.file_bytes:
        what = f"it is cut: the file had {segment.header.file_bytes} bytes"
        result.findings.append(Finding(segment.name, len(data), what, "refuses"))
        if next_record(data, stop, segment.header) < 0:
            return -1
    elif is_last and not durable_beyond(data, segment.number, stop, segment.header.salt):
        if result.growing:
            return -1
        torn = end - stop
        start = f"cuts the file here; nothing of the {torn} bytes was durable" if torn else "seals the file here"
        what = f"its end is torn: {torn} bytes are no whole record" if torn else "it has no end: the server was killed"
        result.findings.append(Finding(segment.name, stop, what, start, torn, damage=False))
        if torn:
            segment.gaps.append((stop, end))
        return -1
    after = next_record(data, stop, segment.header)
    end = after if after >= 0 else end
    if end > stop:
        what = f"{end - stop} bytes are no good record: a wrong length, checksum, kind or state"
        segment.gaps.append((stop, end))
    else:
        what = "what was durable is gone from here" if is_last else "it has no end, though another segment follows"
    result.findings.append(Finding(segment.name, stop, what, "refuses", end - stop))
    return after


def empty_replay() -> Replay:
    """Return a replay into an engine of its own."""
    records = Encoder()
    return Replay(Engine(0, 0, dict, records), records)


def schedule_count(engine: Engine) -> int:
    return 0 if engine.schedules is None else engine.schedules.count


def text_of(name: bytes) -> str:
    """Return a name as the tools show it."""
    return name.decode("ascii", "backslashreplace")


# --- check ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Check:
    """What ``beanpole wal check`` reports."""

    survey: Survey
    holder: int | None
    """The process that has the directory; None: nobody."""

    outcome: Literal["starts", "repairs", "refuses"] = "starts"
    reason: str = ""
    """Why a start would refuse."""

    record_count: int = 0
    job_count: int = 0
    schedule_count: int = 0
    notes: list[str] = field(default_factory=list)
    """What a start would repair, in its own words."""


def check(snapshot: Snapshot) -> Check:
    """Read every segment, then run the server's recovery without its repairs.

    Raises:
        NoLogError: there is no log.
        OSError: the disk can't be read.
    """
    result = Check(survey(snapshot), snapshot.holder)
    start_in_vain(snapshot, result)
    return result


def start_in_vain(snapshot: Snapshot, result: Check) -> None:
    """Recover a log into an empty engine, without repairs; add what comes of it to the result."""
    findings = result.survey.findings
    records = Encoder()
    engine = Engine(0, 0, dict, records)
    try:
        recovered = recover(snapshot, engine, records, now_ns=0, wall_ns=0)
    except DamageError as error:
        result.outcome = "refuses"
        result.reason = f"{error.name} at byte {error.offset}: {error.what}"
        if not result.survey.damaged:
            findings.append(Finding(error.name, error.offset, error.what, "refuses"))
        return
    except OtherVersionError as error:
        result.outcome, result.reason = "refuses", str(error)
        return
    result.record_count = recovered.record_count
    result.job_count = engine.jobs.count
    result.schedule_count = schedule_count(engine)
    if snapshot.holder is None:
        result.notes = recovered.notes
        result.outcome = "repairs" if recovered.notes or findings else "starts"
    try:
        check_engine(engine)
    except AssertionError as error:
        findings.append(Finding("", 0, f"the jobs contradict each other: {error}", "starts; report this"))
    findings.extend(
        Finding("", 0, f"job {id} is changed, but no record holds it whole or deletes it", "starts without the job")
        for id in recovered.lost_ids
    )
    for name in recovered.lost_schedules:
        what = f"schedule {text_of(name)} has fired, but no record holds its document or drops it"
        findings.append(Finding("", 0, what, "starts without the schedule"))


# --- dump -------------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """One record, or bytes that are none."""

    segment: SegmentSurvey
    offset: int
    size: int
    """Bytes from `offset` on."""

    kind: int | None
    """A :class:`~beanpole.log.format.Kind`; None: damage."""

    fields: Fields
    body: bytes | None = None
    """Of a job that it holds whole; the document of a schedule."""


def lines(segment: SegmentSurvey, data: bytes) -> Iterator[Line]:
    """Return the records of a segment that was surveyed, with a line for each damaged place."""
    for start, end in sorted(segment.runs + segment.gaps):
        at = start
        if (start, end) in segment.gaps:
            yield Line(segment, start, end - start, None, {})
            continue
        while at < end:
            record = describe(data, at, segment.header)
            assert record is not None, f"{segment.name} has no record at byte {at}, where one was read"
            size, kind, fields = record
            end_of_record = at + size
            body_bytes = fields.get("body_bytes", fields.get("document_bytes"))
            body = None if body_bytes is None else data[end_of_record - body_bytes : end_of_record]
            yield Line(segment, at, size, kind, fields, body)
            at = end_of_record


class Filter:
    """Lets the records of one job or one tube pass."""

    def __init__(self, job: int | None = None, tube: bytes | None = None) -> None:
        self.job = job
        self.tube = tube
        self.ids: set[int] = set()
        """Jobs that are known to be in the tube."""

    def __call__(self, line: Line) -> bool:
        """Whether a line passes. Damage always does: it may be about anything."""
        if line.kind is None or (self.job is None and self.tube is None):
            return True
        id = line.fields.get("job")
        if id is None:
            return self.job is None and line.kind in {Kind.TUBE, Kind.GROUP} and line.fields["tube"] == self.tube
        if line.fields.get("tube") == self.tube:
            self.ids.add(id)
        return (self.job is None or id == self.job) and (self.tube is None or id in self.ids)
