"""``beanpole ids``: where the ID service is."""

import click

from beanpole.cli.errors import Failure


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def ids(arguments: tuple[str, ...]) -> None:
    """Say where the ID service is: it is a distribution of its own, beanpole-ids, with a program of that name."""
    verbs = " ".join(["beanpole-ids", *arguments])
    raise Failure(f"the ID service is a program of its own: pip install beanpole-ids, then {verbs}")
