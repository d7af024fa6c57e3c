"""Salvage: a log that the server starts with, made of what is good in a damaged one.

What is good is replayed, and what is alive then is written as a new log. The damaged files are kept as they are, in a
folder ``damaged.N`` beside. The order of the steps decides what a crash in the middle leaves:

1. The new segments are written and synced in the folder ``salvage.unfinished``. Until then nothing else has changed.
2. They are renamed into the directory. Their numbers leave a gap behind the old ones, so from the first rename on a
   server refuses to start: a segment is missing.
3. The old segments are renamed into ``damaged.N``, the oldest first, each for certain before the next. What is left of
   them is always the newer part, in which no job can come back: its delete is at least as new as the job. So salvage
   can begin again at any point and comes to the same jobs.
4. When the last old segment is gone, so is the gap.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log import limits
from beanpole.log.errors import SalvageError
from beanpole.log.files.bulk import BulkWriter
from beanpole.log.files.disk import DiskDirectory
from beanpole.log.files.names import segment_name
from beanpole.log.format import WHOLE_FIXED
from beanpole.log.tools.inspect import Survey, empty_replay, schedule_count, survey
from beanpole.log.tools.snapshot import Snapshot

UNFINISHED = "salvage.unfinished"
"""The folder in which the new log is written."""


@dataclass(slots=True)
class Salvaged:
    """What salvage did, and what it kept and lost."""

    survey: Survey
    needed: bool
    """Whether something is damaged: if not, nothing is done."""

    job_count: int = 0
    live_bytes: int = 0
    lost_ids: list[int] = field(default_factory=list)
    """Jobs of which only changes are left."""

    schedule_count: int = 0
    lost_schedules: list[bytes] = field(default_factory=list)
    """Schedules of which only fires are left."""

    next_job_id: int = 1
    segments: list[str] = field(default_factory=list)
    """The files of the new log."""

    kept_in: Path | None = None
    """Where the damaged files are now."""

    @property
    def lost_bytes(self) -> int:
        """Bytes in which no good record was found."""
        return sum(each.lost_bytes for each in self.survey.findings if each.damage)


def salvage(
    directory: DiskDirectory,
    *,
    dry_run: bool,
    segment_bytes: int = limits.SEGMENT_BYTES_DEFAULT,
    reading: Callable[[Snapshot], AbstractContextManager[None]] = lambda _snapshot: nullcontext(),
    rename: Callable[[Path, Path], object] = Path.rename,
) -> Salvaged:
    """Make a log that the server starts with. The caller holds the directory's lock, unless this is a dry run.

    `reading` is entered while a snapshot is read; `rename` is how a file gets another name.

    Raises:
        NoLogError: there is no log.
        SalvageError: a newer program wrote the log.
        OSError: the disk can't be read or written; the log is as it was, or salvage can be called again.
    """
    if not dry_run:
        with suppress(FileNotFoundError):
            shutil.rmtree(directory.path / UNFINISHED)
    replay = empty_replay()
    engine = replay.restore.engine
    with closing(Snapshot(directory.path, is_ours=True)) as snapshot, reading(snapshot):
        found = survey(snapshot, replay=replay, as_one_segment=True)
    if found.newer is not None:
        raise SalvageError(f"{found.newer}; salvage with the program that wrote it")
    replay.finish(replay.restore.clock_ns + replay.lead_ns)
    result = Salvaged(found, found.damaged, lost_ids=sorted(replay.orphans))
    result.lost_schedules = sorted(replay.lost_schedules)
    result.needed = found.damaged or bool(result.lost_ids or result.lost_schedules)
    result.job_count = engine.jobs.count
    result.schedule_count = schedule_count(engine)
    result.live_bytes = replay.records.accounts.live_bytes
    result.next_job_id = next_id(result, engine.next_job_id)
    check(engine)
    if result.needed and not dry_run:
        first = snapshot.numbers[-1] + 2
        clock = (replay.restore.clock_ns, replay.lead_ns)
        header = {"next_job_id": result.next_job_id, "shard": engine.shard, "clock": clock}
        try:
            writer = write_new(directory.path, engine, first, segment_bytes=segment_bytes, **header)
        except OSError:
            shutil.rmtree(directory.path / UNFINISHED, ignore_errors=True)
            raise
        result.segments = writer.names
        result.kept_in = swap(directory, writer, [segment_name(number) for number in snapshot.numbers], rename)
    return result


def next_id(result: Salvaged, next_job_id: int) -> int:
    """Return an id that no job can have had: each lost byte may have been part of a put."""
    known = max(next_job_id, max(result.lost_ids, default=0) + 1)
    return known + (result.lost_bytes + WHOLE_FIXED - 1) // WHOLE_FIXED


def write_new(parent: Path, engine: Engine, first_number: int, **header: Any) -> BulkWriter:  # noqa: ANN401 - what a BulkWriter takes
    """Write what an engine holds as a log of its own, in a folder of its own, and sync it."""
    path = parent / UNFINISHED
    path.mkdir(mode=0o700)
    writer = BulkWriter(DiskDirectory(path), "segment", first_number, **header)
    writer.write_all(engine)
    for each in (path, *path.iterdir()):
        give_to_owner(parent, each)
    writer.directory.sync()
    return writer


def swap(directory: DiskDirectory, writer: BulkWriter, old: list[str], rename: Callable[[Path, Path], object]) -> Path:
    """Put the new segments in place of the old ones; return where those are."""
    path = directory.path
    kept_in = next(each for i in range(1, 1_000_000) if not (each := path / f"damaged.{i}").exists())
    kept_in.mkdir(mode=0o700)
    give_to_owner(path, kept_in)
    directory.sync()
    for name in writer.names:
        rename(writer.directory.path / name, path / name)
    writer.directory.sync()
    directory.sync()
    keeping = DiskDirectory(kept_in)
    for name in old:
        rename(path / name, kept_in / name)
        keeping.sync()
        directory.sync()
    writer.directory.path.rmdir()
    directory.sync()
    os.close(keeping.fd)
    os.close(writer.directory.fd)
    return kept_in


def give_to_owner(parent: Path, path: Path) -> None:
    """Let root leave no file behind that the server can't open: what is new belongs to whom the directory belongs."""
    if os.geteuid() == 0:
        owner = parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)
