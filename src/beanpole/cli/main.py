"""``beanpole``: the verbs. The file of a verb is imported when it is used, so that a server starts fast."""

import importlib
import keyword
import sys
from typing import Any

import click

import beanpole
from beanpole.cli.wrapping import json_text, wrapped
from beanpole.errors import ExitCode, StartError

# The verbs by what they are about: the module of `beanpole.cli` that holds the click command of the same name, and what
# it is for. A verb that is a word of Python ends with an underscore there.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Jobs": {
        "put": ("put", "Put jobs."),
        "reserve": ("reserve", "Reserve jobs, and finish them."),
        "delete": ("job_verbs", "Delete jobs."),
        "cancel": ("job_verbs", "Delete jobs, also those that workers have."),
        "release": ("job_verbs", "Make jobs ready, or delay them."),
        "bury": ("job_verbs", "Bury jobs: set them aside until they are kicked."),
        "kick": ("job_verbs", "Make buried or delayed jobs ready."),
        "hold": ("job_verbs", "Hold a job, so that no worker gets it."),
        "change": ("job_verbs", "Change jobs: their tube, priority, delay, body."),
        "snooze": ("job_verbs", "Put jobs off."),
        "fail": ("job_verbs", "Let an attempt at jobs fail."),
    },
    "Tubes": {
        "tubes": ("inspect", "Show all tubes."),
        "groups": ("inspect", "Show the groups of a tube."),
        "pause": ("tube_verbs", "Keep the jobs of a tube from being reserved."),
        "scale": ("scale", "Say how many workers a tube needs."),
        "resume": ("tube_verbs", "End the pause of a tube."),
        "rules": ("rules", "Set rules for tubes: attempts, limits, expiry and so on."),
        "schedule": ("schedule", "Set schedules: jobs that the server puts by itself, at certain times."),
        "move": ("tube_verbs", "Move the jobs of a tube into another."),
        "redrive": ("tube_verbs", "Move dead jobs back to where they died."),
        "clear": ("tube_verbs", "Delete the jobs of a tube."),
        "export": ("transfer", "Write the jobs of a tube as JSON lines."),
        "import": ("transfer", "Put jobs from the output of export."),
    },
    "Look": {
        "peek": ("inspect", "Show jobs."),
        "list": ("list", "List the jobs of a tube."),
        "explain": ("inspect", "Say why a job is not done."),
        "stats": ("inspect", "Show statistics of the server, a tube or a job."),
        "top": ("top", "Watch a server."),
        "tail": ("tail", "Show jobs as they arrive."),
        "sessions": ("inspect", "Show who is connected to a server."),
        "rights": ("access", "Say who this is to a server, and what it may do."),
        "doctor": ("doctor", "Check the health of a server, and explain what is wrong."),
    },
    "Run": {
        "serve": ("serve", "Run the server."),
        "route": ("route", "Carry many clients over one connection to a server or cluster."),
        "worker": ("worker", "Run the handlers of a program."),
        "console": ("console", "Serve pages, an API and metrics of servers over HTTP."),
        "cluster": ("cluster", "Make a cluster and look after it."),
        "shards": ("shards", "Find the server that has a tube, where several share them."),
        "access": ("access", "Check the file of users, and say what each may do."),
        "token": ("access", "Make and remove the tokens of users."),
        "relay": ("relay", "Take jobs from a table of any database to a server."),
        "wal": ("wal", "Inspect a data directory, and salvage a damaged one."),
        "ids": ("about", "Say where the ID service is."),
    },
    "Tools": {
        "bench": ("about", "Say where the benchmark is."),
        "conformance": ("conformance", "Check that a server speaks the protocol."),
        "completion": ("about", "Print the shell code that completes verbs and options."),
        "help": ("about", "Explain a verb."),
        "version": ("about", "Print the version."),
    },
}

VERBS = {name: verb for group in GROUPS.values() for name, verb in group.items()}

RENAMED = {"jobs": "list"}

# The verbs that people look for under words that others use for them.
MEANT = {
    "abort": "cancel",
    "acl": "access",
    "at": "schedule",
    "auth": "token",
    "cron": "schedule",
    "crontab": "schedule",
    "drain": "clear",
    "empty": "clear",
    "flush": "clear",
    "info": "stats",
    "kill": "cancel",
    "log": "wal",
    "outbox": "relay",
    "ls": "tubes",
    "permissions": "rights",
    "ps": "sessions",
    "proxy": "route",
    "purge": "clear",
    "retry": "kick",
    "router": "route",
    "run": "serve",
    "schedules": "schedule",
    "start": "serve",
    "status": "stats",
    "tokens": "token",
    "touch": "hold",
    "unbury": "kick",
    "user": "access",
    "users": "access",
    "watch": "tail",
    "whoami": "rights",
    "why": "explain",
}


class Verbs(click.Group):
    """The group of verbs, imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"beanpole.cli.{VERBS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name + "_" * keyword.iskeyword(cmd_name))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a verb; raise NoSuchCommand that names the likely ones if it is none."""
        name = args[0]
        if name in RENAMED:
            raise click.UsageError(f"{name} is {RENAMED[name]} now: call beanpole {RENAMED[name]}", ctx)
        if name in VERBS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.exceptions.NoSuchCommand(name, possibilities=VERBS, ctx=ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb. An option of it that lacks its value is an error of that verb, which click does not say."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            verb = self.get_command(ctx, ctx.invoked_subcommand or "")
            if error.ctx is None and verb is not None:
                error.ctx = click.Context(verb, parent=ctx, info_name=ctx.invoked_subcommand)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs by group, without importing them."""
        width = max(map(len, VERBS)) + formatter.current_indent
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), verbs[name][1]) for name in verbs])


@click.command(
    cls=Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="beanpole help VERB, or beanpole VERB --help, explains a verb and its options.",
)
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
        complain(error, f"{where}: {sentence_of(error)} (see {where} --help)", ExitCode.USAGE, arguments)
        return ExitCode.USAGE
    except click.ClickException as error:
        complain(error, f"beanpole: {error.format_message()}", error.exit_code, arguments)
        return error.exit_code
    except StartError as error:
        return say_why(error)
    except click.Abort:
        return 128 + 2


def say_why(error: StartError) -> int:
    """Write why a server can't start; return its exit code."""
    click.echo(wrapped(f"beanpole: {error}", sys.stderr), err=True)
    return error.exit_code


def sentence_of(error: click.UsageError) -> str:
    """Return what is wrong, with the words that are likely meant."""
    if not isinstance(error, click.NoSuchOption | click.exceptions.NoSuchCommand):
        return error.format_message().rstrip(".")
    likely = " or ".join(sorted(error.possibilities or ()))
    if isinstance(error, click.NoSuchOption):
        what = f"no option {error.option_name!r}"
    else:
        what = f"no verb {error.command_name!r}"
        if error.ctx is not None and error.ctx.command is cli:
            likely = MEANT.get(error.command_name, likely)
    return f"{what}; did you mean {likely}?" if likely else what


def complain(error: click.ClickException, line: str, code: int, arguments: list[str] | None) -> None:
    """Write an error as a line for people, or as an object if a verb was asked for JSON."""
    context: click.Context | None = getattr(error, "ctx", None)
    knows_json = context is not None and any(each.name == "as_json" for each in context.command.params)
    if knows_json and "--json" in (sys.argv[1:] if arguments is None else arguments):
        line = json_text({"error": error.format_message(), "exit_code": code})
    else:
        line = wrapped(line, sys.stderr)
    click.echo(line, err=True)


def blame_variable(error: click.UsageError) -> None:
    """Name the environment's variable where a wrong value comes from it, beside the flag that it stands for."""
    if not isinstance(error, click.BadParameter) or error.param is None or error.ctx is None:
        return
    if error.ctx.get_parameter_source(str(error.param.name)) == click.core.ParameterSource.ENVIRONMENT:
        error.param_hint = f"{error.param.envvar} (the variable for {error.param.opts[-1]})"


if __name__ == "__main__":
    sys.exit(main())
