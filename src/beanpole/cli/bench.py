"""``beanpole bench``: where the benchmark is."""

import click

from beanpole.cli.errors import Failure


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Say where the benchmark is: in a checkout of the repository, where `make bench` compiles and runs it."""
    flags = f" BENCH_FLAGS='{' '.join(arguments)}'" if arguments else ""
    raise Failure(f"the benchmark is in the repository, not in the package: make bench{flags} in a checkout runs it")
