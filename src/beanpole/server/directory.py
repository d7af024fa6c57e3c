"""Storage in a directory: a log that the server recovers from.

The order at a start: lock the directory, take over what beanstalkd left there, recover and go on in the last segment,
log the policy. The port opens afterwards. A server without a directory does not import this: it is half
of the time to start.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode, StartError
from beanpole.log.files import disk
from beanpole.log.files.filelog import FileLog
from beanpole.log.files.runner import LoopRunner
from beanpole.log.log import Log, Policy, Recovery
from beanpole.log.migration.takeover import TakenOver, take_over
from beanpole.server.eventqueue import now_ns
from beanpole.server.logs import Logger
from beanpole.server.observer import Observer
from beanpole.server.settings import Settings
from beanpole.shard_ids import number_of, text_of


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
    path: Path,
    settings: Settings,
    facts: Callable[[], Mapping[str, str]],
    observer: Observer,
    loop: asyncio.AbstractEventLoop,
) -> tuple[Engine, Log, int, ExitStack]:
    """Do what :func:`beanpole.server.roles.open_log` does, with a directory.

    Raises StartError: the directory is locked, damaged, or can't be used.
    """
    logger = observer.logger
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
            observer=observer,
            policy=policy,
            segment_bytes=settings.segment_bytes,
        )
        engine = Engine(settings.body_bytes_max, now_ns(), lambda: {**facts(), **log.facts()}, log.records)
        recovered = recover(directory, log, engine, settings, logger)
        number(engine, log, settings.shard, path)
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
    return engine, log, recovered.clock_offset_ns, kept


def number(engine: Engine, log: FileLog, shard: tuple[int, ...], path: Path) -> None:
    """Let a server be the shard that was asked for, and note its numbers in the log.

    Raises StartError: the log has other numbers or jobs of others, or no room for the note.
    """
    known = engine.shard
    if not shard or shard == known:
        return
    asked = f"--shard {text_of(shard)}: the log in {path}"
    if shard[: len(known)] != known:
        raise StartError(
            f"{asked} is that of shard {text_of(known)}; leave --shard out, or give a further number behind, as in "
            f"{text_of(known)},N",
            ExitCode.USAGE,
        )
    alien = min((job.id for job in engine.jobs.jobs() if number_of(job.id) not in shard), default=None)
    if alien is not None:
        raise StartError(
            f"{asked} has jobs with ids of shard {number_of(alien)}, as {alien}; let workers empty it without "
            "--shard before, or move its jobs into another one by `beanpole export --remove` and `beanpole import`",
            ExitCode.USAGE,
        )
    if not log.records.room_for_shard():
        raise StartError(f"{asked} has no room to note that; free some space on the disk", ExitCode.FAILED)
    engine.set_shard(shard)
    log.records.set_shard(shard)


def recover(
    directory: disk.DiskDirectory, log: FileLog, engine: Engine, settings: Settings, logger: Logger
) -> Recovery:
    """Bring back the jobs of a directory, and those that beanstalkd left there.

    Raises StartError: the log is damaged, or the disk can't be used.
    """
    try:
        taken = take_over(directory, settings.segment_bytes, time.time_ns(), settings.shard)
        report_takeover(taken, logger)
        return log.recover(engine, lambda what, done, total: logger.info(what, segments=done, of=total))
    except OSError as error:
        name = f"{Path(error.filename).name}: " if isinstance(error.filename, str | os.PathLike) else ""
        message = f"cannot read the log in {directory.path}: {name}{error.strerror or error}"
        raise StartError(message, ExitCode.FAILED) from error
