"""``beanpole help`` and ``beanpole version``."""

import click

import beanpole


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
