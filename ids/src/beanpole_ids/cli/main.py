"""``beanpole-ids``: the verbs. The file of a verb is imported when it is used: most need no database."""

import importlib
import json
import sys

import click

import beanpole_ids
from beanpole_ids.errors import ExitCode, StartError

VERBS = {
    "serve": ("serve", "Serve numbers over UDP, and over HTTP if that is configured."),
    "check": ("check", "Verify rules, show what they make, and how long they last."),
    "get": ("client", "Get numbers."),
    "rules": ("client", "Show the rules of a node."),
    "counters": ("client", "Show the counters of a rule."),
    "reload": ("client", "Have a node read its rules again."),
    "export-counters": ("export", "Print SQL with which id_server goes on above our numbers."),
}
"""The module of `beanpole_ids.cli` that holds each verb, and what it is for."""


class Verbs(click.Group):
    """The group of verbs, imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"beanpole_ids.cli.{VERBS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.command(
    cls=Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(beanpole_ids.__version__, "-v", "--version", message="beanpole-ids %(version)s")
def cli() -> None:
    """Make unique, readable numbers."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code. An error is one line on standard error."""
    try:
        return int(cli.main(arguments, prog_name="beanpole-ids", standalone_mode=False) or ExitCode.OK)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    except click.UsageError as error:
        blame_variable(error)
        where = error.ctx.command_path if error.ctx else "beanpole-ids"
        complain(error, f"{where}: {error.format_message()} (see {where} --help)", ExitCode.USAGE, arguments)
        return ExitCode.USAGE
    except click.ClickException as error:
        complain(error, f"beanpole-ids: {error.format_message()}", error.exit_code, arguments)
        return error.exit_code
    except StartError as error:
        click.echo(f"beanpole-ids: {error}", err=True)
        return error.exit_code
    except click.Abort:
        return 128 + 2


def complain(error: click.ClickException, line: str, code: int, arguments: list[str] | None) -> None:
    """Write an error as a line for people, or as an object if a verb was asked for JSON."""
    context: click.Context | None = getattr(error, "ctx", None)
    knows_json = context is not None and any(each.name == "as_json" for each in context.command.params)
    if knows_json and "--json" in (sys.argv[1:] if arguments is None else arguments):
        line = json.dumps({"error": error.format_message(), "exit_code": code}, ensure_ascii=False)
    click.echo(line, err=True)


def blame_variable(error: click.UsageError) -> None:
    """Name the environment's variable where a wrong value comes from it, beside the flag that it stands for."""
    if not isinstance(error, click.BadParameter) or error.param is None or error.ctx is None:
        return
    if error.ctx.get_parameter_source(str(error.param.name)) == click.core.ParameterSource.ENVIRONMENT:
        error.param_hint = f"{error.param.envvar} (the variable for {error.param.opts[-1]})"
