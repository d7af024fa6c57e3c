"""``beanpole``: the verbs. The file of a verb is imported when it is used, so that a server starts fast."""

import importlib
import json
import keyword
import sys

import click

import beanpole
from beanpole.errors import ExitCode, StartError

VERBS = {
    "bench": ("bench", "Measure a server beside beanstalkd, or your own."),
    "bury": ("finish", "Bury jobs: set them aside until they are kicked."),
    "change": ("change", "Change jobs: their tube, priority, delay, body."),
    "clear": ("clear", "Delete the jobs of a tube at once."),
    "cluster": ("cluster", "Make a cluster and look after it."),
    "completion": ("completion", "Print the shell code that completes verbs and options."),
    "conformance": ("conformance", "Check that a server speaks the protocol."),
    "console": ("console", "Serve metrics and health checks of servers over HTTP."),
    "delete": ("finish", "Delete jobs."),
    "doctor": ("doctor", "Check the health of a server, and explain what is wrong."),
    "drain": ("move", "Delete the jobs of a tube."),
    "explain": ("explain", "Say why a job is not done."),
    "export": ("transfer", "Write the jobs of a tube as JSON lines."),
    "fail": ("change", "Let an attempt at jobs fail."),
    "ids": ("ids", "Make unique, readable numbers."),
    "import": ("transfer", "Put jobs from the output of export."),
    "jobs": ("jobs", "List the jobs of a tube."),
    "kick": ("finish", "Make buried or delayed jobs ready."),
    "list": ("list", "List the jobs of a tube, page by page."),
    "move": ("move", "Move the jobs of a tube into another."),
    "pause": ("pause", "Keep the jobs of a tube from being reserved."),
    "peek": ("inspect", "Show jobs."),
    "put": ("put", "Put jobs."),
    "redrive": ("redrive", "Move dead jobs back to where they died."),
    "release": ("finish", "Make jobs ready, or delay them."),
    "reserve": ("reserve", "Reserve jobs, and finish them."),
    "resume": ("pause", "End the pause of a tube."),
    "rules": ("rules", "Set rules for tubes: attempts, limits, expiry and so on."),
    "serve": ("serve", "Run the server."),
    "sessions": ("sessions", "Show who is connected to a server."),
    "snooze": ("change", "Put jobs off."),
    "stats": ("inspect", "Show statistics of the server, a tube or a job."),
    "tail": ("tail", "Show jobs as they arrive."),
    "top": ("top", "Watch a server."),
    "touch": ("finish", "Hold a job, so that no worker gets it."),
    "tubes": ("inspect", "Show all tubes."),
    "wal": ("wal", "Inspect a data directory, and salvage a damaged one."),
    "worker": ("worker", "Run the handlers of a program."),
}
"""The verbs: the module of `beanpole.cli` that holds the click command of the same name, and what it is for.

A verb that is a word of Python ends with an underscore there.
"""


class Verbs(click.Group):
    """The group of verbs, imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"beanpole.cli.{VERBS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name + "_" * keyword.iskeyword(cmd_name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, VERBS[name][1]) for name in sorted(VERBS)])


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
        blame_variable(error)
        where = error.ctx.command_path if error.ctx else "beanpole"
        complain(error, f"{where}: {error.format_message()} (see {where} --help)", ExitCode.USAGE, arguments)
        return ExitCode.USAGE
    except click.ClickException as error:
        complain(error, f"beanpole: {error.format_message()}", error.exit_code, arguments)
        return error.exit_code
    except StartError as error:
        click.echo(f"beanpole: {error}", err=True)
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


if __name__ == "__main__":
    sys.exit(main())
