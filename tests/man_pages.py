"""Writes the man pages, one for each verb, from the commands themselves: ``python -m tests.man_pages FOLDER``."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import beanpole
from beanpole.cli.main import GROUPS, cli
from tests.cli_reference import PAGES, commands

CODE = re.compile(r"^ *(\d+) {2,}(.*)$")
"""A line of an epilog that says what an exit code means."""


def main(folder: Path) -> None:
    """Write a page for each verb into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """Return the pages: their names without the section, and their text."""
    # Nothing depends on the terminal of whoever calls this.
    for command, name in PAGES.values():
        top = click.Context(command, info_name=name, terminal_width=80, max_content_width=80)
        for context in (top, *commands(command, name)):
            yield page_name(context), page(context)


def page_name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def page(context: click.Context) -> str:
    """Return the page of a command in the language of troff."""
    command = context.command
    title = f'.TH "{page_name(context).upper()}" 1 "" "Beanpole {beanpole.__version__}" "Beanpole"'
    parts = [title, ".SH NAME", f"{escape(page_name(context))} \\- {escape(purpose(command))}"]
    parts += [".SH SYNOPSIS", f".B {escape(context.command_path)}", escape(" ".join(usage(context)))]
    parts += [".SH DESCRIPTION", description(command.help or "")]
    if isinstance(command, click.Group):
        parts += [".SH COMMANDS", *subcommands(command, context)]
    parts += [".SH OPTIONS", *options(context)]
    if variables := [*environment(context)]:
        parts += [".SH ENVIRONMENT", *variables]
    parts += epilog(command.epilog or "")
    parts += see_also(context)
    return "\n".join(parts) + "\n"


def usage(context: click.Context) -> list[str]:
    return context.command.collect_usage_pieces(context)


def purpose(command: click.Command) -> str:
    """Return what a command is for, as the line of whatis(1)."""
    return command.get_short_help_str(limit=200).rstrip(".")


def escape(text: str) -> str:
    """Return a text that troff takes as it is: dashes stay dashes, and no line begins with a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def description(text: str) -> str:
    """Return the paragraphs of a help text; click marks with a backspace those that are not to be wrapped."""
    found = []
    for each in inspect.cleandoc(text).split("\n\n"):
        if each.startswith("\b\n"):
            found.append(literal(each.removeprefix("\b\n")))
        else:
            found.append(f".PP\n{escape(each)}")
    return "\n".join(found)


def literal(text: str) -> str:
    return f".PP\n.nf\n{escape(text.rstrip())}\n.fi"


def entry(term: str, text: str) -> str:
    """Return one entry of a list: a term, and what it means."""
    return f".TP\n\\fB{escape(term)}\\fR\n{escape(' '.join(text.split()))}"


def subcommands(group: click.Group, context: click.Context) -> Iterator[str]:
    """Return the commands of a group, with what they are for; the verbs as they are grouped in the help."""
    if group is cli:
        for title, verbs in GROUPS.items():
            yield f".SS {title}"
            for name, (_, text) in verbs.items():
                yield entry(f"beanpole-{name}(1)", text.rstrip("."))
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield entry(f"{context.command_path} {name}".replace(" ", "-") + "(1)", purpose(command))


def options(context: click.Context) -> Iterator[str]:
    for each in context.command.params:
        record = each.get_help_record(context)
        if record is not None and record[1]:
            yield entry(*record)
    yield entry("-h, --help", "Show the help and exit.")


def environment(context: click.Context) -> Iterator[str]:
    for each in context.command.params:
        if isinstance(each, click.Option) and isinstance(each.envvar, str):
            yield entry(each.envvar, f"the same as {each.opts[-1]}")


def epilog(text: str) -> Iterator[str]:
    """Return what stands below the options: notes, and the exit codes."""
    blocks = text.replace("\b\n", "").strip("\n").split("\n\n") if text else []
    notes = [each for each in blocks if not each.startswith("Exit codes")]
    if notes:
        yield ".SH NOTES"
    for each in notes:
        yield literal(each) if "\n" in each else f".PP\n{escape(each.strip())}"
    for each in blocks:
        if each not in notes:
            yield ".SH EXIT STATUS"
            for line in each.splitlines()[1:]:
                found = CODE.match(line)
                yield entry(*found.groups()) if found else escape(line.strip())


def see_also(context: click.Context) -> Iterator[str]:
    if context.parent is not None:
        yield f".SH SEE ALSO\n.BR {escape(page_name(context.parent))} (1)"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
