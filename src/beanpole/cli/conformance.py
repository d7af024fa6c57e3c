"""`beanpole conformance`: play the golden scripts against a server, and report by clause.

Only options and the report are here; what plays is in `beanpole.conformance.kit`, imported when it is needed.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING

import click

from beanpole.cli.common import Output
from beanpole.cli.errors import Failure, sentence_of
from beanpole.cli.quantities import Duration, notes_of
from beanpole.cli.wrapping import SETTINGS
from beanpole.errors import BeanpoleError, ExitCode

SHOWN_MAX = 600  # characters of what was sent or received

if TYPE_CHECKING:
    from beanpole.conformance.kit import Result
    from beanpole.conformance.replies import Grade

EXAMPLE = """\b
Example:
  beanpole conformance beanstalkd -l 127.0.0.1 -p {port} -z {max-job-size}

"""
EPILOG = """\b
Exit codes:
  0    the server answers as it must, wherever it was asked
  1    it does not: replies are missing, too many or mixed up
  4    the server does not start, or does not answer
  5    wrong arguments
  8    another job comes than the protocol says, or at another time
  9    the same is said in other words, or statistics differ
  130  interrupted
"""


@click.command("conformance", context_settings=SETTINGS | {"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="COMMAND...")
@click.option("--extensions", is_flag=True, help="Also what beanstalkd does not have; docs/protocol.md is the measure.")
@click.option("--patience", default=5, show_default=True, type=Duration(0.1), help="How long a reply may take.")
@click.option("--json", "as_json", is_flag=True, help="An object on a line for each script.")
def conformance(command: tuple[str, ...], *, extensions: bool, patience: float, as_json: bool) -> ExitCode:
    """Check that a server speaks the protocol, by conversations that it must answer as written.

    COMMAND starts the server on 127.0.0.1, at the port that stands in place of {port}. Each conversation has a fresh
    one, which is stopped afterwards. Some need a limit that stands in place of {max-job-size} or {tubes-max}; they
    are skipped and named if COMMAND has no place for it, and with --extensions so is what the server does not list.

    What fails is graded by what it means for clients, as the exit codes say; the worst grade is the verb's. Each
    conversation belongs to a clause, which is a heading of the page "Protocol".
    """
    from beanpole.conformance.kit import PORT, Program, examine
    from beanpole.conformance.replies import Grade

    if not any(PORT in word for word in command):
        raise click.BadParameter(
            f"it starts a server on 127.0.0.1: write {PORT} where its port stands", param_hint="COMMAND"
        )
    try:
        results = examine(Program(command, patience), extensions=extensions, patience_s=patience)
    except (OSError, BeanpoleError) as error:
        raise Failure(sentence_of(error), ExitCode.NO_SERVER) from error
    out = Output(as_json=as_json)
    if as_json:
        for result in results:
            out.record(record_of(result), "")
    else:
        for line in report(results):
            out.line(line)
    grade = next((each for each in Grade if any(is_graded(result, each) for result in results)), None)
    return ExitCode.OK if grade is None else grade.exit_code


conformance.epilog = EXAMPLE + notes_of(conformance) + EPILOG


def record_of(result: "Result") -> Mapping[str, object]:
    record: dict[str, object] = {
        "script": result.script.path.stem,
        "title": result.script.title,
        "clause": result.clause,
        "result": "failed" if result.problem else "skipped" if result.skipped else "passed",
    }
    if result.skipped:
        record["why"] = result.skipped
    if problem := result.problem:
        record |= {"line": problem.line, "why": problem.text, "grade": problem.grade.text}
        record |= {name: shown(getattr(problem, name)) for name in ("sent", "expected", "received")}
    return record


def report(results: "Iterable[Result]") -> list[str]:
    """Return the report: what failed, the worst first, what was skipped and why, a line for each clause and grade."""
    from beanpole.conformance.replies import Grade

    results = list(results)
    lines = []
    for grade, result in product(Grade, results):
        if (problem := result.problem) and is_graded(result, grade):
            lines += [
                f"FAILED  {result.clause}: {result.script.title}",
                f"  script    {problem.script.path}:{problem.line}",
                f"  grade     {grade.text}: {grade.meaning}",
            ]
            if problem.expected:
                said = ("sent", "expected", "received")
                lines += [f"  {name:<9} {shown(getattr(problem, name))}" for name in said]
            else:
                lines += [f"  sent      {shown(problem.sent)}", f"  but       {problem.text}"]
            lines.append("")
    skipped = [result for result in results if result.skipped]
    lines += [f"skipped {result.script.path.stem}: {result.skipped}" for result in skipped]
    lines += [""] if skipped else []
    clauses = sorted({result.clause for result in results})
    width = max(len(clause) for clause in clauses)
    lines += [f"{clause:<{width}}  {counts(each for each in results if each.clause == clause)}" for clause in clauses]
    lines += [f"{'all':<{width}}  {counts(results)}"]
    graded = {grade: sum(is_graded(result, grade) for result in results) for grade in Grade}
    return [*lines, *(f"  {count} {grade.text}: {grade.meaning}" for grade, count in graded.items() if count)]


def is_graded(result: "Result", grade: "Grade") -> bool:
    return result.problem is not None and result.problem.grade is grade


def counts(results: "Iterable[Result]") -> str:
    kinds = [record_of(result)["result"] for result in results]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("passed", "failed", "skipped") if kind in kinds)


def shown(data: bytes) -> str:
    """Return bytes as people read them, on one line and not all of very many."""
    text = repr(data)[2:-1]
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(data)} bytes)"
