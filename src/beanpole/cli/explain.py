"""``beanpole explain``: why a job does not run."""

import click

from beanpole.cli.common import TARGET, Output, Server, indented, verb
from beanpole.cli.errors import note
from beanpole.cli.wrapping import wrapped
from beanpole.client import Explanation
from beanpole.errors import ExitCode, NotFoundError

COUNTS = ("ready", "reserved", "delayed", "buried", "watching", "waiting")
"""What a server counts of a tube: its jobs, and the clients that want some."""


@verb("explain")
@click.argument("what", type=TARGET, nargs=-1, required=True, metavar="TUBE|ID...")
def explain(server: Server, out: Output, what: tuple[int | str, ...]) -> ExitCode:
    """Say why the job ID is not being done, or why TUBE hands out no jobs.

    Each reason that holds now is a line; the page "Protocol" lists the words in front of them. A tube whose name is a
    number is written tube:123. The server must know explain.
    """
    client, code = server.client(), ExitCode.OK
    for each in what:
        try:
            found = client.explain(each) if isinstance(each, int) else client.explain_tube(each)
        except NotFoundError:
            out.flush()
            note(f"there is no {'job' if isinstance(each, int) else 'tube'} {each}")
            code = code or ExitCode.NOT_FOUND
        else:
            out.record(record_of(found), wrapped("\n".join(lines_of(found))))
    return code


def record_of(found: Explanation) -> dict[str, object]:
    """Return all that was said, for JSON."""
    known = {key: int(value) if value.isdecimal() and key != "tube" else value for key, value in found.items()}
    reasons = [{"word": each.word, "facts": each.facts, "text": each.text} for each in found.reasons]
    return known | {"reasons": reasons}


def lines_of(found: Explanation) -> list[str]:
    """Return all that was said, for people."""
    if "id" in found:
        place = f", number {found['place']} in the line" if "place" in found else ""
        head = f"job {found['id']} of {found['tube']}: {found['state']}{place}"
    else:
        head = f"tube {found['tube']}: {', '.join(f'{found[key]} {key}' for key in COUNTS if key in found)}"
    reasons = [line for each in found.reasons for line in indented(each.word, each.text)]
    return [head, *(reasons or ["  - nothing is in its way"])]
