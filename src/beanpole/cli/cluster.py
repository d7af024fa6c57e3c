"""``beanpole cluster``: make a cluster, and look after it.

Only options and sentences are here; `beanpole.log.postgres.admin` does the work.
"""

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beanpole import limits as protocol_limits
from beanpole.cli.clusterstatus import record_of, row_of, time_text, warnings_of
from beanpole.cli.common import Output, jobs_text
from beanpole.cli.errors import Failure, forget_output
from beanpole.cli.quantities import SHARD, Duration, Size, notes_of
from beanpole.cli.serve import check_cluster_url, is_given
from beanpole.cli.wrapping import SETTINGS
from beanpole.errors import BeanpoleError, ExitCode, StartError
from beanpole.log import limits
from beanpole.observe.units import plural
from beanpole.shard_ids import text_of

if TYPE_CHECKING:
    from beanpole.log.postgres.repair import Salvaged

SILENCE_MS_MIN = 500  # below, a leader that is only slow would be deposed
CLUSTER_BODY_BYTES_MAX = 8_388_608  # a body alone is a row, which must be confirmed within the silence limit
STEP_DOWN_S = 10.0  # until the next leader is there

# How long a verb waits without coming further, unless it is told otherwise, and one that reads or writes a whole data
# directory in one go.
VERB_S = 60
VERB_LONG_S = 600

CUT_S = 2.0  # in which what was cut must have ended
ANSWER_SHARE = 0.8  # of the time limit, for the nodes to answer `verify`: those that don't are named

EXIT_CODES = """\b
Exit codes:
  0   done
  1   PostgreSQL refused, or something else failed
  2   no node leads
  3   it came no further for as long as --timeout says
  4   PostgreSQL can't be reached
  5   wrong arguments
  10  a server uses the directory (import only)
"""


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES)
def cluster() -> None:
    """Make a cluster in a PostgreSQL database, and look after it.

    URL is a libpq connection string: postgresql://user@host1,host2/database. Passwords belong into a password file
    (~/.pgpass) or PGPASSWORD, never onto the command line.
    """


def verb(
    name: str, timeout_s: int = VERB_S
) -> Callable[[Callable[..., Coroutine[Any, Any, ExitCode | None]]], click.Command]:
    """Make a verb of a coroutine: URL, --json and --timeout belong to each, and what goes wrong is one line."""

    def decorate(function: Callable[..., Coroutine[Any, Any, ExitCode | None]]) -> click.Command:
        @functools.wraps(function)
        def run(*, as_json: bool, timeout: int, **given: Any) -> ExitCode:
            check_url(given["url"])
            from beanpole.log.postgres.connection import advice_for
            from beanpole.log.postgres.store import DamagedError, LostError, NoLeaderError, UnreadableError

            out = Output(as_json=as_json)
            try:
                code = asyncio.run(limited(function(out, **given), timeout))
                out.flush()
            except BrokenPipeError:
                forget_output()
                return ExitCode.FAILED
            except StartError:
                raise
            except LostError as error:
                text = f"PostgreSQL can't be reached: {error}; {advice_for(str(error))}"
                raise Failure(text, ExitCode.NO_SERVER) from error
            except NoLeaderError as error:
                raise Failure(str(error), ExitCode.NOT_FOUND) from error
            except DamagedError as error:
                text = f"PostgreSQL can't read what it has stored: {error}; `beanpole cluster verify` says where"
                raise Failure(text) from error
            except UnreadableError as error:
                raise Failure(f"{error}; {error.advice}") from error
            except (BeanpoleError, OSError) as error:
                raise Failure(str(error)) from error
            return code or ExitCode.OK

        argument = click.argument("url", metavar="URL")
        timeout = click.option(
            "--timeout",
            type=Duration(1, whole=True),
            default=timeout_s,
            show_default=True,
            help="How long to wait for PostgreSQL, and for nodes, without coming further.",
        )
        as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
        command = cluster.command(name, context_settings=SETTINGS)(argument(timeout(as_json(run))))
        command.epilog = notes_of(command) + EXIT_CODES
        return command

    return decorate


async def limited(work: Coroutine[Any, Any, ExitCode | None], seconds: int) -> ExitCode | None:
    """Do the work of a verb, unless it comes no further for so many seconds (:func:`came_further`).

    What it waits for is not cancelled, as psycopg would ask the server for that: its connections are cut.
    """
    from beanpole.log.postgres.connection import sever_all

    came_further()
    task = asyncio.ensure_future(work)
    loop, meta = asyncio.get_running_loop(), click.get_current_context().meta
    while not task.done():
        left_s = meta[CAME_FURTHER] + seconds - loop.time()
        done, _ = await asyncio.wait([task], timeout=max(left_s, 0))
        if not done and meta[CAME_FURTHER] + seconds <= loop.time():
            sever_all()
            task.add_done_callback(forget_outcome)
            await asyncio.wait([task], timeout=CUT_S)
            raise Failure(
                f"it came no further for {seconds} s; see that PostgreSQL answers and confirms, or give a longer "
                "--timeout",
                ExitCode.TIMED_OUT,
            )
    return task.result()


def forget_outcome(task: "asyncio.Task[ExitCode | None]") -> None:
    """Take what a task that was cut ended with, which asyncio would otherwise write to the terminal."""
    if not task.cancelled():
        task.exception()


CAME_FURTHER = "beanpole.cluster.came_further"
"""Under this name the context of a command has when it came further last, in seconds of the loop's clock."""


def came_further() -> None:
    """Note that the verb came further: its time begins again."""
    click.get_current_context().meta[CAME_FURTHER] = asyncio.get_running_loop().time()


def check_url(url: str) -> None:
    """Refuse what is no connection string, and warn of what is unsafe about it."""
    try:
        warnings = check_cluster_url(url, is_in_argv=any(url in each for each in sys.argv))
    except ImportError as error:
        raise Failure(f"psycopg is missing; install it with: pip install 'beanpole[cluster]' ({error})") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for each in warnings:
        click.echo(f"beanpole cluster: {each}", err=True)


@verb("init")
@click.option(
    "--cluster-durability",
    "durability",
    type=click.Choice(["quorum", "storage", "local"]),
    default="quorum",
    show_default=True,
    help="What a confirmed row has survived: a named synchronous standby has it, the disk is replicated below "
    "PostgreSQL (you vouch for it), or nothing but one machine, for a try.",
)
@click.option(
    "--silence-ms",
    type=Duration(SILENCE_MS_MIN, unit="ms", whole=True),
    default=limits.SILENCE_MS_DEFAULT,
    show_default=True,
    help="How long without a row until another node leads.",
)
@click.option(
    "-z",
    "--body-bytes-max",
    type=Size(0, CLUSTER_BODY_BYTES_MAX),
    default=protocol_limits.BODY_BYTES_MAX_DEFAULT,
    show_default=True,
    help="The largest body of a job, on every node.",
)
@click.option(
    "--shard",
    type=SHARD,
    default="",
    help="The number of the shard that the cluster is, 0 to 1023, by which ids begin; a cluster that is there takes "
    "further ones behind it, as in 3,17.",
)
@click.option(
    "--inbox",
    is_flag=True,
    help="Make the inbox too, also in a cluster that is there: with `select beanpole.put(…)` a job is put in an "
    "application's own transaction.",
)
@click.option(
    "--inbox-bytes",
    type=Size(1),
    default=limits.INBOX_BYTES_DEFAULT,
    show_default=True,
    help="The size of the inbox above which such a put fails.",
)
async def init(out: Output, url: str, **given: Any) -> None:
    """Make the tables of a cluster; say what is missing, and how to mend it. A cluster that is there stays as it is."""
    from beanpole.log.postgres import admin

    made = await admin.init(url, **given)
    context = click.get_current_context()
    facts = (
        f"durability {made.durability}, silence limit {made.silence_ms} ms, bodies up to {made.body_bytes_max} bytes"
        + (f", shard {text_of(made.shard)}" if made.shard else "")
    )
    kept = given.keys() - {"inbox", "inbox_bytes", "shard"}
    if any(is_given(context, name) and given[name] != getattr(made, name) for name in kept):
        raise Failure(f"there is a cluster already, with {facts}; it stays as it is. The guide says how to change that")
    record = {"cluster": made.cluster, "durability": made.durability, "names": made.names, "existed": made.existed}
    record["shard"] = list(made.shard)
    done = "was there already" if made.existed else "is made"
    then = "Start a node: beanpole serve --cluster URL --node NAME"
    if given["shard"] and made.existed:
        then = "The node that leads next goes by the numbers: `beanpole cluster step-down` lets one do so now"
    out.record(record, f"Cluster {made.cluster} {done}: {facts}. {then}")
    if given["inbox"]:
        out.prose(
            "The inbox is made. For each role that puts jobs: grant usage on schema beanpole to ROLE; "
            "grant execute on function beanpole.put to ROLE"
        )


@verb("status")
async def status(out: Output, url: str) -> ExitCode | None:
    """Show who leads, which nodes there are, how far behind they are, and what is wrong."""
    from beanpole.log.postgres import admin

    found = await admin.status(url)
    warnings = warnings_of(found)
    if out.as_json:
        out.record(record_of(found, warnings), "")
        return None if found.is_led else ExitCode.NOT_FOUND
    leader = found.leader
    out.prose(
        f"cluster {found.settings.cluster}: durability {found.server.durability}, silence limit "
        f"{found.settings.silence_ms} ms, format {found.settings.format}, timeline {found.server.timeline}"
        + (f", shard {text_of(found.settings.shard)}" if found.settings.shard else "")
    )
    if leader is not None and found.is_led:
        out.prose(f"{leader.node} leads at {leader.address} since {time_text(leader.since_s)}, epoch {leader.epoch}")
    elif leader is not None and found.hidden:
        out.prose(f"the last to lead was {leader.node} at {leader.address}, epoch {leader.epoch}")
    else:
        out.prose(f"no node leads; the last was {leader.node}, epoch {leader.epoch}" if leader else "no node ever led")
    out.prose(f"log: segments {found.segments[0]} to {found.segments[-1]}, up to {found.tip.place}")
    out.table(
        ("node", "role", "address", "epoch", "applied", "lag", "clock", "zones", "seen"),
        [row_of(each, found) for each in found.nodes],
    )
    if found.inbox is not None:
        out.prose(
            f"inbox: {plural(found.inbox.rows, 'row')}, the oldest {found.inbox.oldest_s:.1f} s old, "
            f"{found.inbox.bytes} bytes"
        )
    for name, state, role in found.standbys:
        out.prose(f"standby {name}: {state}, {role}")
    for each in warnings:
        out.prose(f"warning: {each}")
    return None if found.is_led else ExitCode.NOT_FOUND


@verb("leader")
@click.option("--node", default="", metavar="NODE", help="Exit with 2 unless this node leads.")
async def leader(out: Output, url: str, node: str) -> ExitCode | None:
    """Print the address of the leader; exit with 2 if no node leads, for health checks."""
    from beanpole.log.postgres import admin

    found = await admin.who_leads(url)
    if found is None:
        raise Failure("no node leads", ExitCode.NOT_FOUND)
    out.record({"leader": found.node, "address": found.address, "epoch": found.epoch}, found.address)
    if node in {"", found.node}:
        return None
    click.echo(f"beanpole cluster: {found.node} leads, not {node}", err=True)
    return ExitCode.NOT_FOUND


@verb("step-down")
@click.option("--to", "successor", default="", metavar="NODE", help="The node that leads then.  [default: the warmest]")
@click.option(
    "--force", is_flag=True, help="Stop leading even if no other node is alive; clients wait until one leads."
)
async def step_down(out: Output, url: str, successor: str, *, force: bool) -> ExitCode | None:
    """Let another node lead, as before maintenance of the leader's machine."""
    from beanpole.log.postgres import admin

    before, after = await admin.step_down(url, successor, STEP_DOWN_S, force=force)
    if after is None:
        raise Failure(f"{before.node} has not handed over within {STEP_DOWN_S:.0f} s; look at its log")
    out.record(
        {"from": before.node, "to": after.node, "epoch": after.epoch}, f"{after.node} leads, after {before.node}"
    )
    return None


@verb("accept-loss")
@click.option("--yes", is_flag=True, help="Don't ask.")
async def accept_loss(out: Output, url: str, *, yes: bool) -> ExitCode | None:
    """Let the cluster go on although PostgreSQL has lost what was confirmed.

    A node that saw a confirmed row vanish stops with exit code 7, and none starts: somebody must look first, for a
    server may come back that has the rows. Afterwards acknowledged jobs may be missing, and deleted ones be back.
    """
    from beanpole.log.postgres import admin

    if not yes and (loss := await admin.loss(url)):
        if out.as_json:
            raise click.UsageError("with --json nobody can be asked; give --yes as well")
        click.echo(loss)
        click.confirm("Acknowledged jobs may be missing from now on, and deleted ones be back. Go on?", abort=True)
        came_further()
    lost = await admin.accept_loss(url)
    out.record({"accepted": lost}, f"Accepted: {lost}. Start the nodes.")
    return None


@verb("verify")
async def verify(out: Output, url: str) -> ExitCode | None:
    """Check the whole log, and that every node holds just what the log says. The nodes go on during the check.

    Each node makes a digest of its jobs at a row that it names. Then the log is read as a node does that starts: each
    hash, each record, and at those rows the digest of the jobs that they make. The copy of itself in which a node makes
    its digest may take as much memory again, if many jobs change while it runs.
    """
    from beanpole.log.postgres.verify import verify

    seconds = click.get_current_context().params["timeout"] * ANSWER_SHARE
    with bars("Reading") as progress:
        found = await verify(url, seconds, progress)
    record = {"rows": found.rows, "jobs": found.jobs, "tip": list(found.tip.place), "hash": found.tip.hash.hex()}
    differ = sorted(name for name, equal in found.equal.items() if not equal)
    if out.as_json:
        out.record({**record, "equal": found.equal, "silent": found.silent}, "")
    else:
        out.prose(f"log: {found.rows} rows up to {found.tip.place}, {jobs_text(found.jobs)}: nothing is wrong")
        for name, equal in sorted(found.equal.items()):
            out.prose(f"{name}: {'holds what the log says' if equal else 'DIFFERS FROM THE LOG'}")
        if not found.equal and not found.silent:
            out.prose("no node is alive, so that none was compared")
    if differ:
        raise Failure(f"{', '.join(differ)} differs from the log; restart it, and report this as a bug")
    if found.silent:
        raise Failure(f"no answer from {', '.join(found.silent)}; look at its log, or give a longer --timeout")
    return None


@verb("upgrade")
async def upgrade(out: Output, url: str) -> ExitCode | None:
    """Let leaders write the newest format of the log that every node which is alive can read.

    Run it when all nodes have the new version. Until then a node of the old one can still take over. What the format
    brings is served from the next leader on: restart the node that is named, or run `beanpole cluster step-down`.
    """
    from beanpole.log.postgres import admin

    before, after, behind = await admin.upgrade(url)
    text = f"the log is written in format {after}, as before" if after == before else f"format {after}, after {before}"
    if behind:
        text += f"; {behind}, which leads, must be restarted, or step down, before clients get what that brings"
    out.record({"before": before, "format": after, "restart": [behind] if behind else []}, text)
    return None


@verb("import", VERB_LONG_S)
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False))
async def import_(out: Output, url: str, directory: str) -> ExitCode | None:
    """Fill the log of a new cluster from DIR, a data directory of `serve -b`; start the nodes afterwards.

    Only into an empty log. It happens in one transaction: all or nothing. DIR is left as it is.
    """
    from beanpole.log.postgres import transfer

    with bars("Importing") as progress:
        done = await transfer.import_directory(url, Path(directory), progress)
    out.record({"jobs": done.jobs, "rows": done.rows}, f"{jobs_text(done.jobs)} imported. Start the nodes.")
    return None


@verb("export", VERB_LONG_S)
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option("--salvage", is_flag=True, help="Leave out what can't be read, and say how much that is.")
async def export(out: Output, url: str, directory: str, *, salvage: bool) -> ExitCode | None:
    """Write all jobs into DIR, a new data directory for `serve -b`; stop the nodes before.

    The log is closed first: no node can lead afterwards, or there would be two queues with the same jobs. It may be run
    again, into another directory. Of a log that can't be read it writes nothing, unless with --salvage: then a job of
    which not all is left may be as it was earlier, or be back.
    """
    from beanpole.log.postgres import repair, transfer

    if salvage:
        with bars("Exporting") as progress:
            found = await repair.salvage_directory(url, Path(directory), progress)
        out.record(record_of_salvage(found, directory), salvage_text(found, directory))
        return None
    with bars("Exporting") as progress:
        done = await transfer.export_directory(url, Path(directory), progress)
    out.record(
        {"jobs": done.jobs, "directory": directory},
        f"{jobs_text(done.jobs)} exported. Go on with: beanpole serve -b {directory}",
    )
    return None


def record_of_salvage(found: "Salvaged", directory: str) -> dict[str, object]:
    return {
        "jobs": found.jobs,
        "directory": directory,
        "lost_rows": found.lost_rows,
        "lost_bytes": found.lost_bytes,
        "lost_segments": found.lost_segments,
        "lost_ids": found.lost_ids,
        "lost_schedules": found.lost_schedules,
    }


def salvage_text(found: "Salvaged", directory: str) -> str:
    left_out = [f"{found.lost_rows} of {plural(found.rows, 'row')}", f"{plural(found.lost_bytes, 'byte')} of the rest"]
    if found.lost_segments:
        left_out.append(f"all of segment {', '.join(map(str, found.lost_segments))}")
    if found.lost_ids:
        left_out.append(f"{jobs_text(len(found.lost_ids))} of which only changes are left")
    if found.lost_schedules:
        left_out.append(f"{plural(len(found.lost_schedules), 'schedule')} of which only fires are left")
    return (
        f"{jobs_text(found.jobs)} exported. Left out: {'; '.join(left_out)}. Go on with: beanpole serve -b {directory}"
    )


@verb("repair")
@click.argument("segment", metavar="SEGMENT", type=click.IntRange(1))
async def repair_(out: Output, url: str, segment: int) -> ExitCode | None:
    """Let the node that leads write again what lives in SEGMENT, and in older ones, as a row there can't be read.

    It takes the jobs from its memory, and serves clients as always; the segments are dropped when what it wrote is
    sound. A node that can't read a row asks for this by itself. Nothing is changed where the segment is sound.
    """
    from beanpole.log.postgres import repair

    with bars("Repairing") as progress:
        reason, node = await repair.repair(url, segment, progress)
    record = {"segment": segment, "reason": reason, "node": node}
    out.record(record, f"{reason}: {node} has written the jobs up to segment {segment} again, and dropped it")
    return None


@contextmanager
def bars(label: str) -> "Iterator[Callable[[int, int], None]]":
    """Show a progress bar on a terminal; gives a function to call with how much is done, and of how much."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: came_further()
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            came_further()
            bar.length = max(total, 1)
            bar.update(done - bar.pos)

        yield show
