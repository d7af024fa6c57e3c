"""``beanpole cluster``: make a cluster, and look after it.

Only options and sentences are here; `beanpole.log.postgres.admin` does the work.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from beanpole.cli.common import Output
from beanpole.cli.errors import Failure, forget_output
from beanpole.errors import BeanpoleError, ExitCode
from beanpole.log import limits

if TYPE_CHECKING:
    from beanpole.log.postgres.admin import Status

EXIT_CODES = """\b
Exit codes:
  0   done
  1   PostgreSQL refused, or something else failed
  2   no node leads
  4   PostgreSQL can't be reached
  5   wrong arguments
"""

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES)
def cluster() -> None:
    """Make a cluster in a PostgreSQL database, and look after it.

    URL is a libpq connection string: postgresql://user@host1,host2/database. Passwords belong into a password file
    (~/.pgpass) or PGPASSWORD, never onto the command line.
    """


def verb(name: str) -> Callable[[Callable[..., Coroutine[Any, Any, ExitCode | None]]], click.Command]:
    """Make a verb of a coroutine: URL and --json belong to each, and what goes wrong is one line."""

    def decorate(function: Callable[..., Coroutine[Any, Any, ExitCode | None]]) -> click.Command:
        @functools.wraps(function)
        def run(*, as_json: bool, **given: Any) -> ExitCode:
            try:
                from beanpole.log.postgres.store import LostError
            except ImportError as error:
                raise Failure("psycopg is missing; install it with: pip install 'beanpole[cluster]'") from error
            out = Output(as_json=as_json)
            try:
                code = asyncio.run(function(out, **given))
                out.flush()
            except BrokenPipeError:
                forget_output()
                return ExitCode.FAILED
            except LostError as error:
                raise Failure(f"PostgreSQL can't be reached: {error}", ExitCode.NO_SERVER) from error
            except (BeanpoleError, OSError) as error:
                raise Failure(str(error)) from error
            return code or ExitCode.OK

        command = cluster.command(name, epilog=EXIT_CODES, context_settings=SETTINGS)
        argument = click.argument("url", metavar="URL")
        return command(argument(click.option("--json", "as_json", is_flag=True, help="Write JSON.")(run)))

    return decorate


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
    type=click.IntRange(limits.SILENCE_MS_MIN),
    default=limits.SILENCE_MS_DEFAULT,
    show_default=True,
    help="Milliseconds without a row after which another node leads.",
)
async def init(out: Output, url: str, durability: str, silence_ms: int) -> None:
    """Make the tables of a cluster; say what is missing, and how to mend it."""
    from beanpole.log.postgres import admin

    made = await admin.init(url, durability=durability, silence_ms=silence_ms)
    record = {"cluster": made.cluster, "durability": made.durability, "names": made.names, "existed": made.existed}
    done = "was there already" if made.existed else "is made"
    out.record(
        record,
        f"Cluster {made.cluster} {done}: durability {made.durability}. Start a node: "
        "beanpole serve --cluster URL --node NAME",
    )


@verb("status")
async def status(out: Output, url: str) -> ExitCode | None:
    """Show who leads, which nodes there are, how far behind they are, and what is wrong."""
    from beanpole.log.postgres import admin

    found = await admin.status(url)
    warnings = list(warnings_of(found))
    if out.as_json:
        out.record(record_of(found, warnings), "")
    else:
        leader = found.leader
        out.line(
            f"cluster {found.settings.cluster}: durability {found.server.durability}, timeline {found.server.timeline}"
        )
        out.line(
            f"leader {leader.node} at {leader.address}, epoch {leader.epoch}" if leader is not None else "no node leads"
        )
        out.line(f"log: segments {found.segments[0]} to {found.segments[-1]}, last row {found.tip.place}")
        out.table(("node", "role", "address", "epoch", "applied", "seen"), [row_of(each) for each in found.nodes])
        for name, state, role in found.standbys:
            out.line(f"standby {name}: {state}, {role}")
        for each in warnings:
            out.line(f"warning: {each}")
    return None if is_led(found) else ExitCode.NOT_FOUND


def is_led(found: "Status") -> bool:
    """Whether a node leads that is alive."""
    return found.leader is not None and any(
        each.name == found.leader.node and each.role == "leader" and each.age_s < limits.REPORT_OLD_S
        for each in found.nodes
    )


def row_of(node: Any) -> dict[str, object]:
    """Return a node as a row of a table."""
    return {
        "node": node.name,
        "role": node.role if node.age_s < limits.REPORT_OLD_S else "gone",
        "address": node.address,
        "epoch": node.epoch,
        "applied": f"{node.applied.segment}/{node.applied.row}",
        "seen": f"{node.age_s:.1f} s ago",
    }


def record_of(found: "Status", warnings: list[str]) -> dict[str, object]:
    """Return a status as JSON."""
    leader = found.leader
    return {
        "cluster": found.settings.cluster,
        "leader": leader.node if leader is not None and is_led(found) else None,
        "address": leader.address if leader is not None else None,
        "epoch": leader.epoch if leader is not None else 0,
        "durability": found.server.durability,
        "timeline": found.server.timeline,
        "silence_ms": found.settings.silence_ms,
        "segments": found.segments,
        "tip": list(found.tip.place),
        "nodes": [
            {
                "node": each.name,
                "role": each.role,
                "alive": each.age_s < limits.REPORT_OLD_S,
                "address": each.address,
                "epoch": each.epoch,
                "applied": list(each.applied),
                "version": each.version,
                "reaches_leader": each.reaches_leader,
                "seconds_ago": round(each.age_s, 3),
            }
            for each in found.nodes
        ],
        "standbys": [{"name": name, "state": state, "role": role} for name, state, role in found.standbys],
        "warnings": warnings,
    }


def warnings_of(found: "Status") -> "list[str]":
    """Return what an operator should know."""
    warnings = []
    if not is_led(found):
        warnings.append("no node that is alive leads")
    alive = [each for each in found.nodes if each.age_s < limits.REPORT_OLD_S]
    if len(alive) < 2:
        warnings.append("no second node is alive: when this one dies nobody leads")
    if found.server.durability == "local":
        warnings.append("durability is local: when PostgreSQL's machine dies, acknowledged jobs are lost")
    return warnings


@verb("leader")
async def leader(out: Output, url: str) -> ExitCode | None:
    """Print the address of the leader; exit with 2 if no node leads, for health checks."""
    from beanpole.log.postgres import admin

    found = await admin.status(url)
    if found.leader is None or not is_led(found):
        return ExitCode.NOT_FOUND
    out.record({"leader": found.leader.node, "address": found.leader.address}, found.leader.address)
    return None


@verb("step-down")
@click.option("--to", "successor", default="", metavar="NODE", help="The node that leads then.  [default: any]")
async def step_down(out: Output, url: str, successor: str) -> ExitCode | None:
    """Let another node lead, as before maintenance of the leader's machine."""
    from beanpole.log.postgres import admin

    before, after = await admin.step_down(url, successor, limits.STEP_DOWN_S)
    if after is None:
        raise Failure(f"{before.node} has not handed over within {limits.STEP_DOWN_S:.0f} s; look at its log")
    out.record(
        {"from": before.node, "to": after.node, "epoch": after.epoch}, f"{after.node} leads, after {before.node}"
    )
    return None
