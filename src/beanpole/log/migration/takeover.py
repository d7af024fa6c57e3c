"""Takeover: a directory of beanstalkd's becomes one of ours at start; the old files are kept under another name.

The jobs are written into segments named ``import.N``. When all of them are on disk, the file ``import.commit`` says so;
from then on only names change: ``import.N`` to ``segment.N``, and ``binlog.N`` to ``binlog.N.taken-over``. A crash
before the commit leaves beanstalkd's files as they were, and the next start begins again; after a crash behind it, the
next start goes on with the renaming. At no point is there only half of the jobs.
"""

from dataclasses import asdict, dataclass, field

from beanpole import limits
from beanpole.engine.engine import Engine
from beanpole.engine.restore import Restore
from beanpole.errors import ExitCode, StartError
from beanpole.log.files.bulk import BulkWriter
from beanpole.log.files.disk import DiskDirectory
from beanpole.log.files.names import IMPORT, segment_name, segment_number
from beanpole.log.migration.beanstalkd_binlog import BinlogReport, is_binlog, read_directory
from beanpole.log.reader import STATES
from beanpole.log.replay import import_job

COMMIT_NAME = "import.commit"
TAKEN_OVER = ".taken-over"
STATE_NUMBERS = {name: number for number, name in STATES.items()}


@dataclass(slots=True)
class TakenOver:
    """What was found and what became of it."""

    job_count: int = 0
    report: BinlogReport = field(default_factory=BinlogReport)


def take_over(
    directory: DiskDirectory, segment_bytes: int, wall_ns: int, shard: tuple[int, ...] = ()
) -> TakenOver | None:
    """Take over what beanstalkd left in a directory, or finish a takeover; None: there is nothing of beanstalkd's.

    Raises:
        StartError: the directory holds a log of ours as well, or the server is to be a shard whose ids are others.
        OSError: the disk can't be read or written; beanstalkd's files are as they were.
    """
    names = directory.names()
    if COMMIT_NAME in names:
        rename_all(directory)
        return None
    for name in names:
        if segment_number(name, IMPORT) is not None:
            directory.unlink(name)
    if not any(is_binlog(name) for name in names):
        return None
    if any(segment_number(name) is not None for name in names):
        raise StartError(
            f"{directory.path} holds both a log of Beanpole (segment.*) and one of beanstalkd (binlog.*); "
            "move the files that you don't want into another directory",
            ExitCode.FAILED,
        )
    if shard and shard[0]:
        raise StartError(
            f"{directory.path} holds a log of beanstalkd, whose ids are those of shard 0: start with --shard 0, or "
            "without",
            ExitCode.USAGE,
        )
    jobs, report = read_directory(directory.path)
    segments = BulkWriter(
        directory, IMPORT, 1, next_job_id=report.next_id, clock=(wall_ns, 0), segment_bytes=segment_bytes
    )
    restore = Restore(Engine(limits.BODY_BYTES_MAX_CEILING))
    for job in jobs.values():
        numbers = asdict(job) | {"state": STATE_NUMBERS[job.state]}
        import_job(restore, segments.records, job.tube, job.body, numbers)
        segments.flush()
    segments.seal()
    directory.sync()
    directory.create(COMMIT_NAME, 0).close()
    directory.sync()
    rename_all(directory)
    return TakenOver(len(jobs), report)


def rename_all(directory: DiskDirectory) -> None:
    """Give all files their final names; everything is on disk already."""
    for name in directory.names():
        number = segment_number(name, IMPORT)
        if number is not None:
            directory.rename(name, segment_name(number))
        elif is_binlog(name):
            directory.rename(name, name + TAKEN_OVER)
    directory.sync()
    directory.unlink(COMMIT_NAME)
    directory.sync()
