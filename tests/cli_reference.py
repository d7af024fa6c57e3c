"""Writes the reference of the command line into docs/cli.md, from the commands themselves.

``python -m tests.cli_reference docs/cli.md`` replaces what stands below the marker; a test fails when it is not what
this writes.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from beanpole.cli.common import EXIT_CODES
from beanpole.cli.main import cli

MARKER = "<!-- Below is written by python -m tests.cli_reference docs/cli.md -->\n"


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
    """Return what the page says of a command."""
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    records = [each.get_help_record(context) for each in command.get_params(context) if "--help" not in each.opts]
    options = [f"- `{record[0]}`: {' '.join(record[1].split())}" for record in records if record and record[1]]
    parts = [f"### {context.command_path}", block(usage), paragraphs(command.help or "")]
    parts += ["\n".join(options)]
    if command.epilog and command.epilog != EXIT_CODES:
        parts.append(block(command.epilog.replace("\b\n", "")))
    return "\n\n".join(each for each in parts if each) + "\n"


def block(text: str) -> str:
    """Return a text that is not to be wrapped."""
    return f"```text\n{text.rstrip()}\n```"


def paragraphs(text: str) -> str:
    """Return the paragraphs of a help text; click marks with a backspace those that are not to be wrapped."""
    return "\n\n".join(
        block(each.removeprefix("\b\n")) if each.startswith("\b\n") else each
        for each in inspect.cleandoc(text).split("\n\n")
    )


def reference() -> str:
    """Return the reference of all verbs."""
    return "\n".join(section(context) for context in commands(cli, "beanpole"))


def main(path: Path) -> None:
    """Write the reference into a page, below the marker."""
    written, marker, _ = path.read_text().partition(MARKER)
    assert marker, f"{path} has no line {MARKER!r}"
    path.write_text(f"{written}{marker}\n{reference()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
