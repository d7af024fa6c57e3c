"""``beanpole help|version|completion``, and the verbs that say where something else is: ``bench`` and ``ids``."""

import click
from click.shell_completion import get_completion_class

import beanpole
from beanpole.cli.wrapping import SETTINGS

ELSEWHERE = {"help_option_names": ["-h", "--help"], "ignore_unknown_options": True}


@click.command("help", short_help="Explain a verb.")
@click.argument("verb", nargs=-1)
@click.pass_context
def help(ctx: click.Context, verb: tuple[str, ...]) -> None:  # noqa: A001 - the verb's name
    """Explain VERB and its options, as VERB --help does; without VERB, list all verbs."""
    assert ctx.parent is not None, "beanpole is"
    found = ctx.parent
    for name in verb:
        if not isinstance(found.command, click.Group):
            raise click.UsageError(f"{found.command_path} has no verb {name!r}", ctx)
        _, command, _ = found.command.resolve_command(found, [name])
        assert command is not None, "else it raises"
        found = click.Context(command, found, info_name=name, **command.context_settings)
    click.echo(found.get_help())


@click.command("version", short_help="Print the version.")
def version() -> None:
    """Print the version of Beanpole."""
    click.echo(f"beanpole {beanpole.__version__}")


# What to write where.
SHELLS = {
    "bash": 'eval "$(beanpole completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(beanpole completion zsh)"     # in ~/.zshrc',
    "fish": "beanpole completion fish | source     # in ~/.config/fish/config.fish",
}


@click.command(
    "completion",
    context_settings=SETTINGS,
    epilog="\b\n" + "\n".join(f"  {line}" for line in SHELLS.values()),
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete verbs and options."""
    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    click.echo(found(context.find_root().command, {}, "beanpole", "_BEANPOLE_COMPLETE").source())


@click.command(context_settings=ELSEWHERE)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Say where the benchmark is: in a checkout of the repository, where `make bench` compiles and runs it."""
    flags = f" BENCH_FLAGS='{' '.join(arguments)}'" if arguments else ""
    raise click.ClickException(
        f"the benchmark is in the repository, not in the package: make bench{flags} in a checkout runs it"
    )


@click.command(context_settings=ELSEWHERE)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def ids(arguments: tuple[str, ...]) -> None:
    """Say where the ID service is: it is a distribution of its own, beanpole-ids, with a program of that name."""
    verbs = " ".join(["beanpole-ids", *arguments])
    raise click.ClickException(f"the ID service is a program of its own: pip install beanpole-ids, then {verbs}")
