"""What a server keeps its jobs in: nothing, or a log in a directory that it recovers from.

The order at a start with a directory: lock it, take over what beanstalkd left there, recover, begin a new segment, tell
the policy. The port opens afterwards.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode, StartError
from beanpole.log import limits
from beanpole.log.encoder import Encoder
from beanpole.log.files import disk
from beanpole.log.files.filelog import FileLog
from beanpole.log.files.recovery import recover
from beanpole.log.files.runner import LoopRunner
from beanpole.log.log import Log, NullLog, Policy
from beanpole.log.migration.takeover import TakenOver, take_over
from beanpole.server.eventqueue import now_ns
from beanpole.server.logs import Logger
from beanpole.server.settings import Settings

Facts = Callable[[], Mapping[str, str]]


@dataclass(slots=True)
class Kept:
    """An engine with its log."""

    engine: Engine
    log: Log
    runner: LoopRunner | None = None
    lock_fd: int = -1
    clock_offset_ns: int = 0
    """The engine's clock minus the monotonic one: the engine of a log lives by the log's."""

    def start(self, on_durable: Callable[[], None], on_failure: Callable[[OSError], None]) -> None:
        """Begin what the log does by itself."""
        if isinstance(self.log, FileLog):
            self.log.on_durable = on_durable
            self.log.on_failure = on_failure
            self.log.start()

    def close(self) -> None:
        """Let go of the directory."""
        if self.runner is not None:
            self.runner.close()
            os.close(self.lock_fd)


class SpaceObserver:
    """Tells an operator when the disk is full, and when it no longer is."""

    def __init__(self, logger: Logger) -> None:
        self.logger = logger
        self.quiet_until_ns = 0
        self.told = False

    def log_full(self, reason: str) -> None:
        """There is no space for more jobs. A disk that is full again and again is told of once in a while."""
        if self.told or now_ns() < self.quiet_until_ns:
            return
        self.quiet_until_ns = now_ns() + limits.LOG_FULL_TELL_NS
        self.told = True
        self.logger.error("disk full", reason=reason, effect="put is answered with OUT_OF_MEMORY until there is space")

    def log_has_space(self) -> None:
        """There is space again."""
        if not self.told:
            return
        self.told = False
        self.logger.info("disk has space", effect="jobs are taken again")


def tell_takeover(taken: TakenOver | None, logger: Logger) -> None:
    """Tell what became of beanstalkd's log, and what was damaged in it."""
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


def keep_nothing(body_bytes_max: int, facts: Facts) -> Kept:
    """Return an engine that lives in memory only."""
    log = NullLog()
    engine = Engine(body_bytes_max, now_ns(), lambda: {**facts(), **log.facts()}, log.records)
    return Kept(engine, log)


def keep_in(path: Path, settings: Settings, facts: Facts, logger: Logger, loop: asyncio.AbstractEventLoop) -> Kept:
    """Return an engine with the jobs of a directory.

    Raises:
        StartError: the directory is locked, damaged, or can't be used.
    """
    directory = disk.open_directory(path)
    lock_fd = disk.lock(directory)
    records = Encoder()
    log: FileLog | None = None
    engine = Engine(
        settings.body_bytes_max, now_ns(), lambda: {**facts(), **(log.facts() if log is not None else {})}, records
    )
    began = time.monotonic()
    try:
        tell_takeover(take_over(directory, settings.segment_bytes, time.time_ns()), logger)
        recovered = recover(
            directory,
            engine,
            records,
            now_ns=now_ns(),
            wall_ns=time.time_ns(),
            tell=lambda what, done, total: logger.info(what, segments=done, of=total),
        )
    except OSError as error:
        name = f"{Path(error.filename).name}: " if isinstance(error.filename, str | os.PathLike) else ""
        message = f"cannot read the log in {path}: {name}{error.strerror or error}"
        raise StartError(message, ExitCode.FAILED) from error
    for note in recovered.notes:
        logger.warning("log repaired", reason=note)
    policy = Policy(settings.fsync_ms)
    runner = LoopRunner(loop)
    log = FileLog(
        directory,
        engine,
        records,
        recovered.sealed,
        runner=runner,
        clock=lambda: recovered.clock.read(now_ns(), time.time_ns()),
        observer=SpaceObserver(logger),
        policy=policy,
        segment_bytes=settings.segment_bytes,
    )
    logger.info(
        "log open",
        directory=str(path),
        durability=str(policy),
        jobs=engine.jobs.count,
        records=recovered.record_count,
        seconds=round(time.monotonic() - began, 3),
    )
    return Kept(engine, log, runner, lock_fd, recovered.clock.offset_ns)
