"""``beanpole``: the verbs, each in a file of its own that is imported when it is used, so that a server starts fast."""

import importlib
import sys

import click

import beanpole
from beanpole.errors import ExitCode, StartError

VERBS = {
    "bench": "Measure a server beside beanstalkd.",
    "ids": "Make unique, readable numbers.",
    "serve": "Run the server.",
    "wal": "Look into a data directory, and repair what damage left.",
}
"""The verbs and what they are for; ``beanpole.cli.<verb>`` holds the click command of the same name."""


class Verbs(click.Group):
    """The group of verbs, imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(f"beanpole.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(sorted(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(beanpole.__version__, "-v", "--version", message="beanpole %(version)s")
def cli() -> None:
    """Beanpole, a work queue server that speaks the beanstalkd protocol."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code. An error is one line on standard error."""
    try:
        return int(cli.main(arguments, prog_name="beanpole", standalone_mode=False) or ExitCode.OK)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "beanpole"
        click.echo(f"{where}: {error.format_message()} (see {where} --help)", err=True)
        return ExitCode.USAGE
    except click.ClickException as error:
        click.echo(f"beanpole: {error.format_message()}", err=True)
        return ExitCode.FAILED
    except StartError as error:
        click.echo(f"beanpole: {error}", err=True)
        return error.exit_code
    except click.Abort:
        return 128 + 2


if __name__ == "__main__":
    sys.exit(main())
