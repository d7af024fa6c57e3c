"""Recovery: a directory back into an engine at start.

What a crash leaves is repaired, and what it can't have left is refused:

- The last segment may end anywhere: it ends behind its last good record, unless a turn record behind that says that
  the log was durable further. Then it is damage. The log goes on in it, so a start takes no space.
- The last segment may have no good header: nothing in it was ever durable, and its file is a spare again, unless a
  turn record in it says otherwise.
- Every other segment ends with an END record, and numbers have no gap (docs/wal-format.md says why that survives).

Recovery changes nothing that a second recovery would read differently: it may crash at any point and start over.
"""

from dataclasses import dataclass, field

from beanpole.engine.engine import Engine
from beanpole.log.clock import LogClock
from beanpole.log.encoder import Encoder
from beanpole.log.errors import DamageError, OtherVersionError, VersionError
from beanpole.log.files.disk import Directory
from beanpole.log.files.diskfile import File
from beanpole.log.files.names import segment_name, segment_number, spare_number, unfinished_name
from beanpole.log.files.segment import Segment, State
from beanpole.log.format import END_RECORD, VERSION, Kind, number_record
from beanpole.log.log import Progress, Recovery
from beanpole.log.reader import durable_beyond, read_header
from beanpole.log.replay import Replay

RECOVERY_PROGRESS_SEGMENTS = 64
"""Segments between two log lines of a long recovery: with the default size, a second or so."""

MISSING = "it is missing"


@dataclass(slots=True)
class Recovered(Recovery):
    """What recovery found in files."""

    clock: LogClock = field(default_factory=lambda: LogClock(0, 0, 0))
    sealed: list[Segment] = field(default_factory=list)
    open: Segment | None = None
    """The segment to go on in; None: a new one is begun."""

    file: File = field(default_factory=File)
    """Of that one."""

    used_bytes: int = 0
    """Of that one."""

    salt: int = 0
    """What the checksums of its records begin with."""

    lost_ids: list[int] = field(default_factory=list)
    """Jobs that a record changes but none holds whole or deletes. In a log that is whole there are none: what
    compaction drops was written whole again behind its changes, or deleted."""

    lost_schedules: list[bytes] = field(default_factory=list)
    """Schedules that have fired but of which no record holds the document, as with jobs."""


def recover(  # noqa: PLR0913 - everything replaceable is an argument
    directory: Directory,
    engine: Engine,
    records: Encoder,
    *,
    now_ns: int,
    wall_ns: int,
    progress: Progress = lambda _what, _done, _total: None,
) -> Recovered:
    """Bring the jobs of a log back into an empty engine.

    Raises:
        DamageError: something is wrong that a crash can't have done.
        OtherVersionError: another version of this program wrote the log.
        OSError: the disk can't be read or written.
    """
    numbers = sorted(number for name in directory.names() if (number := segment_number(name)) is not None)
    recovered = Recovered(clock=LogClock(wall_ns - now_ns, 0, 0))
    replay = Replay(engine, records)
    for i, number in enumerate(numbers):
        if number != numbers[0] + i:
            raise DamageError(segment_name(numbers[0] + i), 0, MISSING)
        is_last = i == len(numbers) - 1
        read_segment(directory, replay, number, recovered, records.accounts.segment_bytes if is_last else 0)
        if (i + 1) % RECOVERY_PROGRESS_SEGMENTS == 0:
            progress("recovering", i + 1, len(numbers))
    if numbers:
        directory.sync()  # a name that was read must be certain before the next segment's is
    records.next_job_id, records.shard = engine.next_job_id, engine.shard
    log_ns = replay.finish(wall_ns)
    recovered.clock = LogClock(log_ns - now_ns, replay.lead_ns, log_ns - (wall_ns - replay.lead_ns))
    recovered.clock_offset_ns = recovered.clock.offset_ns
    recovered.record_count = replay.record_count
    recovered.lost_ids = sorted(replay.orphans)
    recovered.lost_schedules = sorted(replay.lost_schedules)
    return recovered


def read_segment(directory: Directory, replay: Replay, number: int, recovered: Recovered, segment_bytes: int) -> None:
    """Replay a segment, and repair it if it is the last: then `segment_bytes` is the usual size, and else 0."""
    is_last = segment_bytes > 0
    name = segment_name(number)
    data = directory.read(name)
    try:
        header = read_header(data)
        if header.number != number:
            raise DamageError(name, 16, f"its header says that it is segment {header.number}")
    except VersionError as error:
        raise OtherVersionError(name, str(error)) from error
    except ValueError as error:
        if not is_last or replay.next_segment == number or durable_beyond(data, number, 0, None):
            raise DamageError(name, 0, str(error)) from error
        check_whole(replay, recovered, number - 1)
        put_back(directory, name)
        recovered.notes.append(f"{name} became a spare again: a crash came before anything in it was durable")
        return
    replay.segment(data, number)
    at = replay.good_bytes
    if replay.unknown:
        raise OtherVersionError(name, str(replay.problem))
    if not replay.ended and (not is_last or not replay.torn or durable_beyond(data, number, at, header.salt)):
        raise DamageError(name, at, str(replay.problem))
    if is_last and not replay.ended and len(data) < header.file_bytes:
        raise DamageError(name, len(data), f"it is cut: the file had {header.file_bytes} bytes")
    segment = Segment(number, len(data))
    if is_last:
        check_whole(replay, recovered, number)
        may_go_on = len(data) == segment_bytes and header.version == VERSION
        repair(directory, replay, segment, data, recovered, may_go_on=may_go_on)
    if recovered.open is None:
        recovered.sealed.append(segment)


def check_whole(replay: Replay, recovered: Recovered, last: int) -> None:
    """Refuse a log whose oldest or newest segment is missing, as far as the others know of it."""
    first = recovered.sealed[0].number if recovered.sealed else last
    if 0 < replay.first_segment < first:
        raise DamageError(segment_name(replay.first_segment), 0, MISSING)
    if replay.next_segment > last:
        raise DamageError(segment_name(replay.next_segment), 0, MISSING)


def put_back(directory: Directory, name: str) -> None:
    """Let a file be a spare again; the pool makes it zeros."""
    numbers = [spare_number(each) or 0 for each in directory.names()]
    directory.rename(name, unfinished_name(max(numbers) + 1))
    directory.sync()


def repair(  # noqa: PLR0913 - what was read, and what becomes of it
    directory: Directory, replay: Replay, segment: Segment, data: bytes, recovered: Recovered, *, may_go_on: bool
) -> None:
    """Make the last segment durable as it was read: sealed behind its last good record, or open and zeros behind that.

    Where only the process ended, what was read may be in the system's memory alone, and after a sync that failed the
    system no longer knows that it is: so everything is written again. On disk that changes no byte that was durable.
    """
    name, end = segment_name(segment.number), replay.good_bytes
    torn = 0 if replay.ended else len(data[end:].rstrip(b"\0"))
    if torn:
        recovered.notes.append(
            f"{name} was cut at byte {end}: a crash tore the {torn} bytes behind, none of them durable"
        )
    file = directory.open(name)
    if may_go_on:
        end -= END_RECORD if replay.ended else 0
        file.write(0, data[:end])
        file.zero(end, segment.size)
        segment.state = State.OPEN
        recovered.open, recovered.file, recovered.used_bytes, recovered.salt = segment, file, end, replay.salt
        return
    next_job_id = replay.restore.engine.next_job_id
    whole = data[:end] + (b"" if replay.ended else number_record(Kind.END, next_job_id, replay.salt))
    segment.size = max(len(whole), len(data))
    file.write(0, whole)
    file.zero(len(whole), segment.size)
    file.close()
