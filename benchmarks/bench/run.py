"""Runs a benchmark from start to end: chooses rows, alternates the servers, prints the tables.

For every row and round: our server, then beanstalkd, then another one if asked for, then the floor if the row is of
its table, each freshly started; then the row's baseline in the same way.
What cannot be measured (beanstalkd takes minutes to make 100 000 tubes, say) is named in the table and skipped.
"""

import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from beanpole.errors import UnexpectedReplyError
from benchmarks.bench import floor, guest, machine, report
from benchmarks.bench.dial import SetupError
from benchmarks.bench.load import LoadError
from benchmarks.bench.measure import Contestant, take_sample
from benchmarks.bench.plan import Group, Row
from benchmarks.bench.report import Outcome
from benchmarks.bench.server import OURS, THEIRS, Address, installed
from benchmarks.bench.tables import TABLES

ROUNDS = 3
SECONDS = 2.0
"""Length of a measured load: enough for some hundred thousand commands of a slow server."""
QUICK_ROUNDS = 1
QUICK_SECONDS = 0.5

STANDARD_OUTPUT = Path("-")
"""As a file: what is written goes to standard output."""

INTERRUPTED = 130
"""The shell's exit code for a program that was interrupted."""

HOW_TO_INSTALL = (
    "{program} is not installed, so there is nothing to compare with and only our server is measured.\n"
    "Debian and Ubuntu: apt-get install beanstalkd. Elsewhere: give its command line with --theirs."
)


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    tables: tuple[str, ...] = ("speed",)
    only: tuple[str, ...] = ()
    """Names of rows, or beginnings of names; empty: all rows of the tables."""
    rounds: int | None = None
    seconds: float | None = None
    quick: bool = False
    ours: str = ""
    """Our server's command line as a template (see `server`); empty: the server of this installation."""
    theirs: str = ""
    against: Path | None = None
    """The program of another server, which takes beanstalkd's options or is called `beanpole`, of another installation;
    None: there is no third."""
    data_dir: Path | None = None
    """Where the servers' logs are written; None: the system's temporary directory."""
    json_file: Path | None = None
    markdown: bool = False
    check: bool = False
    """Whether a row that does not meet what is asked is a failure."""

    @property
    def rounds_wanted(self) -> int:
        """Rounds of each row, unless it limits them itself."""
        return self.rounds or (QUICK_ROUNDS if self.quick else ROUNDS)

    @property
    def seconds_wanted(self) -> float:
        """Length of each load, unless its scenario says otherwise."""
        return self.seconds or (QUICK_SECONDS if self.quick else SECONDS)


def choose(options: Options) -> list[Row]:
    """The rows that are asked for. Names are looked for in every table, so that `--only` alone is enough."""
    if not options.only:
        return [row for table in options.tables for row in TABLES[table]]
    every = [row for table in TABLES.values() for row in table]
    for name in options.only:
        if not any(row.name.startswith(name) for row in every):
            raise SetupError(f"no row is called {name!r} or begins like that; --list names them all")
    exact = {row.name for row in every} & set(options.only)
    begin = tuple(name for name in options.only if name not in exact)
    return [row for row in every if row.name in exact or (begin and row.name.startswith(begin))]


def contestants(options: Options, say: Callable[[str], None]) -> list[Contestant]:
    """Who is measured: ours, beanstalkd if it is there, and the server that was asked for besides."""
    theirs = tuple(shlex.split(options.theirs)) or THEIRS
    found = [Contestant("ours", tuple(shlex.split(options.ours)) or OURS, ours=True)]
    if installed(theirs):
        found.append(Contestant("theirs", theirs, ours=False))
    else:
        say(HOW_TO_INSTALL.format(program=theirs[0]))
    if options.against is not None:
        ours = options.against.name.startswith(OURS[2])
        arguments = OURS[3:] if ours else THEIRS[1:]
        found.append(Contestant("against", (str(options.against.absolute()), *arguments), ours=ours))
    if any(row in floor.ROWS for row in choose(options)):
        try:
            found.append(Contestant("floor", floor.command(), ours=False))
        except SetupError as error:
            say(str(error))
    return found


def run_row(outcome: Outcome, players: Sequence[Contestant], options: Options, say: Callable[[str], None]) -> None:
    """All rounds of one row. Who fails once is not measured again."""
    row = outcome.row
    rounds = min(options.rounds_wanted, row.rounds_max)
    parts = {"scenario": row.quick if options.quick and row.quick else row.scenario}
    if row.baseline is not None:
        parts["baseline"] = row.baseline
    for turn in range(rounds):
        for what, scenario in parts.items():
            for player in players:
                if (player.name, what) in outcome.failures or (player.name == "floor" and row not in floor.ROWS):
                    continue
                say(f"{row.name}: round {turn + 1} of {rounds}, {player.name}, {what}")
                try:
                    outcome.add(
                        player.name, what, take_sample(player, scenario, options.seconds_wanted, options.data_dir)
                    )
                except (SetupError, LoadError, UnexpectedReplyError, OSError) as error:
                    outcome.failures[player.name, what] = str(error)
                    say(f"{row.name}: {player.name}: {error}")


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """Lets SIGTERM end a block as Ctrl-C does, so that no server survives it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show(outcomes: Sequence[Outcome], facts: dict[str, str], options: Options) -> str:
    """Everything that is printed at the end."""
    table = report.as_markdown if options.markdown else report.as_text
    asked = [outcome for outcome in outcomes if outcome.row.ask is not None]
    parts = ["\n".join(f"{'- ' if options.markdown else ''}{name}: {value}" for name, value in facts.items())]
    if asked:
        parts.append(table(report.ASKED_HEAD, report.asked_table(asked)))
    parts.append(table(report.FIGURES_HEAD, report.figures_table(outcomes)))
    return "\n\n".join(parts)


def say_on_stderr(text: str) -> None:
    """Progress goes where it does not disturb the tables."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(options: Options, say: Callable[[str], None] = say_on_stderr) -> int:
    """Runs the rows and prints the tables.

    Returns 0 when all was measured, 1 when not (or, if asked, when a row is not met), 2 when nothing was, and 130 when
    it was interrupted.
    """
    try:
        chosen = choose(options)
    except SetupError as error:
        say(str(error))
        return 2
    players = contestants(options, say)
    size = f"median of {options.rounds_wanted} rounds of {options.seconds_wanted:g} s"
    facts = machine.describe([each.command for each in players if each.name in ("theirs", "against")])
    if options.against is not None:
        facts["against"] = options.against.name
    facts |= {"each figure": size + (", smaller set-ups" * options.quick)}
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        with terminate_as_interrupt():
            for row in chosen:
                outcomes.append(Outcome(row))
                run_row(outcomes[-1], players, options, say)
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted: what follows is what was measured until then")
    sys.stdout.write(show(outcomes, facts, options) + "\n")
    if options.json_file is not None:
        options.json_file.write_text(json.dumps(report.as_json(outcomes, facts), indent=1) + "\n")
    if interrupted:
        return INTERRUPTED
    if not any(outcome.samples for outcome in outcomes):
        return 2
    failed = any(outcome.failures or (options.check and outcome.verdict() == "no") for outcome in outcomes)
    return 1 if failed else 0


def drive(address: Address, group: Group, seconds: float, pid: int = 0, json_file: Path | None = None) -> int:
    """Drives one load at a server that runs already, and prints its figures; 2 when that did not work."""
    try:
        with terminate_as_interrupt():
            measured = guest.measure(address, group, seconds, pid)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (SetupError, LoadError, UnexpectedReplyError) as error:
        say_on_stderr(f"bench: {error}")
        return 2
    except OSError as error:
        where = address if isinstance(address, str) else f"{address[0]}:{address[1]}"
        say_on_stderr(f"bench: {where}: {error.strerror or error}")
        return 2
    if json_file is not None:
        text = json.dumps(measured.as_json()) + "\n"
        if json_file == STANDARD_OUTPUT:
            sys.stdout.write(text)
            return 0
        json_file.write_text(text)
    sys.stdout.write(measured.as_text() + "\n")
    return 0


def names() -> str:
    """Every row, a line each."""
    lines = [(row.name, name, row.title, str(row.ask or "")) for name, table in TABLES.items() for row in table]
    return report.as_text(("row", "table", "what", "asked"), lines)
