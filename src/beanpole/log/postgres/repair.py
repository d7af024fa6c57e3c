"""What an operator does about a log that can't be read: let the leader repair it, or write what is left elsewhere."""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from beanpole.errors import BeanpoleError
from beanpole.log import limits
from beanpole.log.format import SEGMENT_HEADER
from beanpole.log.postgres import schema
from beanpole.log.postgres.admin import living_leader
from beanpole.log.postgres.checking import check_segment
from beanpole.log.postgres.hosts import OperatorStore, opened
from beanpole.log.postgres.rows import Row
from beanpole.log.postgres.store import (
    OPERATOR,
    Complaint,
    DamagedError,
    GoneError,
    NoLeaderError,
    RefusedError,
    UnreadableError,
)
from beanpole.log.postgres.transfer import Progress, check_new, check_stopped, write_directory
from beanpole.log.tools.inspect import Survey, empty_replay, survey_segment, text_of

ROWS_AT_ONCE = 64
UNREADABLE_MAX = 1_000
"""Rows one behind the other that PostgreSQL can't read, behind which a table is given up: a page has fewer."""


async def repair(conninfo: str, segment: int, progress: Progress) -> tuple[str, str]:
    """Let the leader write again what lives in segments up to one; return what was wrong with it, and who leads.

    Raises:
        RefusedError: there is no such segment, or it is sound; nothing is changed.
        NoLeaderError: no node leads.
    """
    async with opened(conninfo, writes=True) as store:
        listed = await store.segments()
        if segment not in listed:
            raise RefusedError(
                f"there is no segment {segment}: the log has segments {listed[0]} to {listed[-1]}; nothing is changed"
            )
        leader = await living_leader(store, await store.nodes())
        if leader is None:
            raise NoLeaderError(
                "no node leads that could write the segment again from its memory; start the nodes, or write what can "
                "be read into a directory with `beanpole cluster export --salvage`"
            )
        try:
            await check_segment(store, segment)
        except UnreadableError as error:
            complaint = Complaint(OPERATOR, error.place, str(error))
        else:
            raise RefusedError(f"segment {segment} is sound; nothing is changed")
        await store.complain(complaint)
        try:
            await wait_for_repair(store, complaint, progress)
        finally:
            with contextlib.suppress(BeanpoleError):
                await store.withdraw([OPERATOR])
        return complaint.reason, leader.node


async def wait_for_repair(store: OperatorStore, complaint: Complaint, progress: Progress) -> None:
    """Wait until a segment is dropped.

    Raises:
        RefusedError: the leader can verify it.
    """
    segment, first = complaint.place.segment, 0
    while (oldest := (await store.segments())[0]) <= segment:
        for each in await store.complaints():
            if each.node == OPERATOR and each.verdict:
                raise RefusedError(f"{complaint.reason} for this machine, but {each.verdict}; nothing is changed")
        if oldest > first:
            progress(0 if not first else oldest, segment)
            first = oldest
        await asyncio.sleep(limits.REPAIR_POLL_S)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was exported of a log that can't be read, and what was not."""

    jobs: int
    rows: int
    """Rows that were found."""

    lost_rows: int
    """Rows that are missing, can't be read, or are not what was written."""

    lost_bytes: int
    """Bytes of the rows that were found in which there is no good record."""

    lost_segments: list[int]
    """Segments whose table is gone."""

    lost_ids: list[int]
    """Jobs of which only changes are left."""

    lost_schedules: list[str]
    """Schedules of which only fires are left."""


async def salvage_directory(conninfo: str, path: Path, progress: Progress) -> Salvaged:
    """Close the log, and write what can be read of its jobs into a new directory.

    Raises:
        RefusedError: a node is alive, or the directory is there already.
        OSError: the directory can't be written; the log is closed, and this can be run again.
    """
    check_new(path)
    async with opened(conninfo, writes=True) as store:
        await check_stopped(store)
        await store.execute(schema.CLOSE, [str(path)])
        salvage = Salvage(store)
        listed = await store.segments()
        for i, number in enumerate(listed):
            await salvage.read_segment(number)
            progress(i + 1, len(listed))
        replay, engine = salvage.replay, salvage.replay.restore.engine
        result = salvage.result(engine.jobs.count)
        lost = result.lost_rows or result.lost_bytes or result.lost_segments or result.lost_ids
        next_job_id = max([engine.next_job_id, *(id + 1 for id in result.lost_ids)])
        if lost:
            next_job_id += limits.JOB_IDS_SKIPPED
        await asyncio.to_thread(write_directory, replay, path, next_job_id)
        return replace(result, jobs=engine.jobs.count)


class Salvage:
    """Reads what can be read of a log, as `beanpole wal salvage` does of files: a run of rows is a segment to it."""

    def __init__(self, store: OperatorStore) -> None:
        self.store = store
        self.replay = empty_replay()
        self.replay.restore.engine.set_shard(store.settings.shard)
        self.survey = Survey()
        self.row_count = 0
        self.lost_rows = 0
        self.filled_bytes = 0
        self.lost_segments: list[int] = []

    def result(self, jobs: int) -> Salvaged:
        lost_bytes = sum(each.lost_bytes for each in self.survey.findings) - self.filled_bytes
        ids = sorted(self.replay.orphans)
        names = [text_of(each) for each in sorted(self.replay.lost_schedules)]
        return Salvaged(jobs, self.row_count, self.lost_rows, lost_bytes, self.lost_segments, ids, names)

    async def read_segment(self, segment: int) -> None:
        """Replay what is good in a segment."""
        try:
            rows = await self.read_rows(segment)
        except GoneError:
            self.lost_segments.append(segment)
            return
        self.row_count += len(rows)
        self.lost_rows += (rows[-1].place.row + 1 if rows else 0) - sum(row.is_sound for row in rows)
        run = bytearray()
        for row in rows:
            try:
                _, records = row.unpack()
            except ValueError:
                continue
            if row.has_header and records:
                await self.read_run(segment, run)
                run = bytearray()
            elif records and not run:  # the row with the header is lost
                run += bytes(SEGMENT_HEADER)
                self.filled_bytes += SEGMENT_HEADER
            run += records
        await self.read_run(segment, run)

    async def read_run(self, segment: int, run: bytearray) -> None:
        """Replay what is good in records that begin with a segment's header."""
        if run:
            found = survey_segment(segment, bytes(run), self.survey, self.replay, 0, is_last=False)
            self.survey.segments.append(found)
            await asyncio.sleep(0)

    async def read_rows(self, segment: int) -> list[Row]:
        """Return the rows of a segment that PostgreSQL can read."""
        rows: list[Row] = []
        at = failed = 0
        while failed < UNREADABLE_MAX:
            try:
                found = await self.store.select(segment, f"row >= %s order by row limit {ROWS_AT_ONCE}", [at])
                if not found:
                    break
            except DamagedError:
                found = await self.read_one_by_one(segment, at)
                failed = 0 if found else failed + ROWS_AT_ONCE
                at += ROWS_AT_ONCE
            else:
                failed, at = 0, found[-1].place.row + 1
            rows += found
        return rows

    async def read_one_by_one(self, segment: int, at: int) -> list[Row]:
        """Return those of some rows that PostgreSQL can read."""
        rows: list[Row] = []
        for row in range(at, at + ROWS_AT_ONCE):
            with contextlib.suppress(DamagedError):
                rows += await self.store.select(segment, "row = %s", [row])
        return rows
