"""Recovery: a directory back into an engine at start.

What a crash leaves is repaired, and what it can't have left is refused:

- The last segment may end anywhere: it is cut behind its last good record, unless a turn record behind that says that
  the log was durable further. Then it is damage.
- The last segment may have no good header: nothing in it was ever durable, and it is removed, unless again a turn
  record in it says otherwise.
- Every other segment ends with an END record, and numbers have no gap (docs/wal-format.md says why that survives).

Recovery changes nothing that a second recovery would read differently: it may crash at any point and start over.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from beanpole.engine.engine import Engine
from beanpole.log import limits
from beanpole.log.clock import LogClock
from beanpole.log.encoder import Encoder
from beanpole.log.errors import DamageError, OtherVersionError, VersionError
from beanpole.log.files.disk import Directory
from beanpole.log.files.names import is_spare, segment_name, segment_number
from beanpole.log.format import END_RECORD, Kind, number_record
from beanpole.log.log import Segment
from beanpole.log.reader import durable_beyond, read_header
from beanpole.log.replay import Replay

MISSING = "it is missing"


@dataclass(slots=True)
class Recovered:
    """What recovery found."""

    clock: LogClock
    sealed: list[Segment] = field(default_factory=list)
    record_count: int = 0
    notes: list[str] = field(default_factory=list)
    """What a crash left and how it was repaired, a sentence each."""


def recover(  # noqa: PLR0913 - everything replaceable is an argument
    directory: Directory,
    engine: Engine,
    records: Encoder,
    *,
    now_ns: int,
    wall_ns: int,
    tell: Callable[[str, int, int], None] = lambda _what, _done, _total: None,
) -> Recovered:
    """Bring the jobs of a log back into an empty engine.

    Raises:
        DamageError: something is wrong that a crash can't have done.
        OtherVersionError: another version of this program wrote the log.
        OSError: the disk can't be read or written.
    """
    names = directory.names()
    for name in names:
        if is_spare(name):
            directory.unlink(name)
    numbers = sorted(number for name in names if (number := segment_number(name)) is not None)
    recovered = Recovered(LogClock(wall_ns - now_ns, 0, 0))
    replay = Replay(engine, records)
    for i, number in enumerate(numbers):
        if number != numbers[0] + i:
            raise DamageError(segment_name(numbers[0] + i), 0, MISSING)
        read_segment(directory, replay, number, recovered, is_last=i == len(numbers) - 1)
        if (i + 1) % limits.RECOVERY_PROGRESS_SEGMENTS == 0:
            tell("recovering", i + 1, len(numbers))
    if numbers:
        directory.sync()  # a name that was read must be certain before the next segment's is
    log_ns = replay.finish(wall_ns)
    recovered.clock = LogClock(log_ns - now_ns, replay.lead_ns, log_ns - (wall_ns - replay.lead_ns))
    recovered.record_count = replay.record_count
    return recovered


def read_segment(directory: Directory, replay: Replay, number: int, recovered: Recovered, *, is_last: bool) -> None:
    """Replay a segment, and repair it if it is the last."""
    name = segment_name(number)
    data = directory.read(name)
    try:
        header = read_header(data)
        if header.number != number:
            raise DamageError(name, 16, f"its header says that it is segment {header.number}")
    except VersionError as error:
        raise OtherVersionError(name, str(error)) from error
    except ValueError as error:
        if not is_last or durable_beyond(data, number, 0, None):
            raise DamageError(name, 0, str(error)) from error
        check_whole(replay, recovered, number - 1)
        directory.unlink(name)
        directory.sync()
        recovered.notes.append(f"{name} was removed: a crash came before anything in it was durable")
        return
    replay.segment(data, number)
    at = replay.good_bytes
    if replay.unknown:
        raise OtherVersionError(name, str(replay.problem))
    if not replay.ended and (not is_last or not replay.torn or durable_beyond(data, number, at, header.salt)):
        raise DamageError(name, at, str(replay.problem))
    if is_last and not replay.ended and len(data) < header.file_bytes:
        raise DamageError(name, len(data), f"it is cut: the file had {header.file_bytes} bytes")
    if is_last:
        check_whole(replay, recovered, number)
        settle(directory, replay, name, data, recovered)
    recovered.sealed.append(Segment(number, replay.good_bytes + (0 if replay.ended else END_RECORD)))


def check_whole(replay: Replay, recovered: Recovered, last: int) -> None:
    """Refuse a log whose oldest or newest segment is missing, as far as the others know of it."""
    first = recovered.sealed[0].number if recovered.sealed else last
    if 0 < replay.first_segment < first:
        raise DamageError(segment_name(replay.first_segment), 0, MISSING)
    if replay.next_segment > last:
        raise DamageError(segment_name(replay.next_segment), 0, MISSING)


def settle(directory: Directory, replay: Replay, name: str, data: bytes, recovered: Recovered) -> None:
    """Make the last segment durable as it was read, sealed behind its last good record.

    Where only the process ended, what was read may be in the system's memory alone, and after a sync that failed the
    system no longer knows that it is: so everything is written anew. On disk that changes no byte that was durable.
    """
    end = replay.good_bytes
    torn = 0 if replay.ended else len(data[end:].rstrip(b"\0"))
    if torn:
        recovered.notes.append(
            f"{name} was cut at byte {end}: a crash tore the {torn} bytes behind, none of them durable"
        )
    next_job_id = replay.restore.engine.next_job_id
    whole = data[:end] + (b"" if replay.ended else number_record(Kind.END, next_job_id, replay.salt))
    file = directory.open(name)
    file.write(0, whole)
    file.sync()
    file.truncate(len(whole))  # not before: a segment that is shorter than its header says, and has no end, was cut
    file.sync()
    file.close()
