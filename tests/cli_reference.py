"""Writes the reference of the command lines into docs/cli.md and ids/docs/cli.md, from the commands themselves.

``python -m tests.cli_reference docs/cli.md`` replaces what stands below the marker; a test fails when it is not what
this writes. ``PAGES`` says which program a page is about.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import click

from beanpole.cli.common import EXIT_CODES
from beanpole.cli.main import GROUPS, cli
from beanpole.cli.quantities import DURATION_NOTE, SIZE_NOTE
from beanpole_ids.cli.main import cli as ids_cli

MARKER = "<!-- Below is written by python -m tests.cli_reference {} -->\n"
PAGES = {"docs/cli.md": (cli, "beanpole"), "ids/docs/cli.md": (ids_cli, "beanpole-ids")}
"""The page of each program: its command, and its name."""

EXIT_CODES_HEAD = "Exit codes"


def commands(command: click.Command, path: str, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Return a context for each command below one, itself left out, in the order of their names."""
    context = click.Context(command, parent, info_name=path)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield click.Context(child, context, info_name=name)
                yield from commands(child, name, context)


def section(context: click.Context) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    params = [each for each in command.get_params(context) if "--help" not in each.opts]
    params = [each for each in params if not (each.name or "").startswith("login_")]  # the page says them once
    records = [each.get_help_record(context) for each in params]
    options = [(code(record[0]), cell(record[1])) for record in records if record and record[1]]
    parts = [f"### {context.command_path}", block(usage), paragraphs(command.help or "")]
    parts += [table(("Option", "What it does"), options)] if options else []
    epilog = (command.epilog or "").removesuffix(EXIT_CODES)
    for note in (DURATION_NOTE, SIZE_NOTE):  # the page says it once
        epilog = epilog.replace(f"{note}\n\n", "")
    parts.append(paragraphs(epilog))
    return "\n\n".join(each for each in parts if each) + "\n"


def block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def cell(text: str) -> str:
    """Return a text for a cell of a table, whose borders are bars."""
    return " ".join(text.split()).replace("|", "&#124;")


def code(text: str) -> str:
    """Return what is written as it stands; between backticks a bar would end the cell for some readers of Markdown."""
    return f"<code>{escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"| {left} | {right} |" for left, right in (head, ("---", "---"), *rows))


def as_written(text: str) -> str:
    """Return a paragraph that is not to be wrapped: exit codes as a table, anything else as it stands."""
    head, *lines = text.splitlines()
    if not head.startswith(EXIT_CODES_HEAD):
        return block(text)
    rows: list[list[str]] = []
    for line in lines:
        number, _, meaning = line.strip().partition(" ")
        if number.isdigit():
            rows.append([number, meaning.strip()])
        else:
            rows[-1][1] += f" {line.strip()}"
    about = "" if head == f"{EXIT_CODES_HEAD}:" else f"{head}\n\n"
    return about + table(("Exit code", "Meaning"), [(number, cell(meaning)) for number, meaning in rows])


def paragraphs(text: str) -> str:
    """Return the paragraphs of a help text; click marks with a backspace those that are not to be wrapped."""
    return "\n\n".join(
        as_written(each.removeprefix("\b\n")) if each.startswith("\b\n") else each
        for each in inspect.cleandoc(text).split("\n\n")
    )


def overview() -> str:
    rows = [(group, ", ".join(f"[`{name}`](#beanpole-{name})" for name in verbs)) for group, verbs in GROUPS.items()]
    return table(("About", "Verbs"), rows) + "\n"


def reference(page: str) -> str:
    """Return the reference of all verbs of a page's program."""
    command, name = PAGES[page]
    head = [overview()] if command is cli else []
    return "\n".join([*head, *(section(context) for context in commands(command, name))])


def main(page: str) -> None:
    """Write the reference into a page, below the marker."""
    path = Path(page)
    written, marker, _ = path.read_text().partition(MARKER.format(page))
    assert marker, f"{page} has no line {MARKER.format(page)!r}"
    path.write_text(f"{written}{marker}\n{reference(page)}")


if __name__ == "__main__":
    main(sys.argv[1])
