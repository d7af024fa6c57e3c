"""Storage in a directory: a log that the server recovers from.

The order at a start: lock the directory, take over what beanstalkd left there, recover and go on in the last segment,
log the policy. The port opens afterwards. A server without a directory does not import this: it is half
of the time to start.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode, StartError
from beanpole.log.files import disk
from beanpole.log.files.filelog import FileLog
from beanpole.log.files.runner import LoopRunner
from beanpole.log.log import Policy, Recovery
from beanpole.log.migration.takeover import TakenOver, take_over
from beanpole.server.eventqueue import now_ns
from beanpole.server.logs import Logger
from beanpole.server.settings import Settings
from beanpole.server.storage import Facts, Storage

LOG_FULL_REPORT_NS = 60_000_000_000
"""How long a log line about a full disk keeps others like it away."""


@dataclass(slots=True)
class DirectoryStorage(Storage):
    """An engine with a log in a directory that is locked."""

    log: FileLog
    clock_offset_ns: int
    opened: ExitStack
    """The threads and the lock."""

    def start(self, on_durable: Callable[[], None], on_failure: Callable[[OSError], None]) -> None:
        """Begin to sync, and to prepare segments."""
        self.log.start(on_durable, on_failure)

    def close(self) -> None:
        """End the threads and unlock the directory."""
        self.opened.close()


class SpaceObserver:
    """Reports to an operator when the disk is full, and when it no longer is."""

    def __init__(self, logger: Logger, clock: Callable[[], int] = now_ns) -> None:
        self.logger = logger
        self.clock = clock
        self.quiet_until_ns = 0
        self.reported = False

    def log_full(self, reason: str) -> None:
        """There is no space for more jobs. A disk that is full again and again is reported once in a while."""
        if self.reported or self.clock() < self.quiet_until_ns:
            return
        self.quiet_until_ns = self.clock() + LOG_FULL_REPORT_NS
        self.reported = True
        self.logger.error("disk full", reason=reason, effect="put is answered with OUT_OF_MEMORY until there is space")

    def log_has_space(self) -> None:
        """There is space again."""
        if not self.reported:
            return
        self.reported = False
        self.logger.info("disk has space", effect="jobs are taken again")


def report_takeover(taken: TakenOver | None, logger: Logger) -> None:
    """Log what became of beanstalkd's log, and what was damaged in it."""
    if taken is None:
        return
    for problem in taken.report.problems:
        logger.warning("beanstalkd's log is damaged", reason=problem)
    logger.info(
        "beanstalkd's log taken over",
        jobs=taken.job_count,
        files=taken.report.files_read,
        records=taken.report.records_read,
        effect="its files are kept as binlog.N.taken-over",
    )


def open_directory(
    path: Path, settings: Settings, facts: Facts, logger: Logger, loop: asyncio.AbstractEventLoop
) -> Storage:
    """Return an engine with the jobs of a directory.

    Raises:
        StartError: the directory is locked, damaged, or can't be used.
    """
    directory = disk.open_directory(path)
    policy = Policy(settings.fsync_ms)
    began = time.monotonic()
    with ExitStack() as opened:
        opened.callback(os.close, disk.lock(directory))
        runner = LoopRunner(loop)
        opened.callback(runner.close)
        log = FileLog(
            directory,
            runner=runner,
            now_ns=now_ns,
            wall_ns=time.time_ns,
            observer=SpaceObserver(logger),
            policy=policy,
            segment_bytes=settings.segment_bytes,
        )
        engine = Engine(settings.body_bytes_max, now_ns(), lambda: {**facts(), **log.facts()}, log.records)
        recovered = recover(directory, log, engine, settings, logger)
        kept = opened.pop_all()
    for note in recovered.notes:
        logger.warning("log repaired", reason=note)
    logger.info(
        "log open",
        directory=str(path),
        durability=str(policy),
        jobs=engine.jobs.count,
        records=recovered.record_count,
        seconds=round(time.monotonic() - began, 3),
    )
    return DirectoryStorage(engine, log, recovered.clock_offset_ns, kept)


def recover(
    directory: disk.DiskDirectory, log: FileLog, engine: Engine, settings: Settings, logger: Logger
) -> Recovery:
    """Bring back the jobs of a directory, and those that beanstalkd left there.

    Raises:
        StartError: the log is damaged, or the disk can't be used.
    """
    try:
        report_takeover(take_over(directory, settings.segment_bytes, time.time_ns()), logger)
        return log.recover(engine, lambda what, done, total: logger.info(what, segments=done, of=total))
    except OSError as error:
        name = f"{Path(error.filename).name}: " if isinstance(error.filename, str | os.PathLike) else ""
        message = f"cannot read the log in {directory.path}: {name}{error.strerror or error}"
        raise StartError(message, ExitCode.FAILED) from error
