"""``beanpole ids``: run the ID service, and check its rules."""

from pathlib import Path

import click

from beanpole.errors import ExitCode, RuleError, StartError

CONFIG = click.Path(dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def ids() -> None:
    """Make unique, readable numbers."""


@ids.command()
@click.argument("config", type=CONFIG)
@click.option("--ready-file", type=CONFIG, help="Write the bound address into this file when clients are answered.")
@click.option("--log-format", type=click.Choice(["auto", "console", "json"]), default="auto", show_default=True)
def serve(config: Path, ready_file: Path | None, log_format: str) -> int:
    """Serve the rules of CONFIG, a TOML file or a JSON file of the original."""
    need_extra()
    from beanpole.ids import app
    from beanpole.server.app import write_ready_file
    from beanpole.server.logs import open_logger

    def ready(addresses: list[str]) -> None:
        if ready_file is not None:
            write_ready_file(ready_file, addresses)

    return int(app.serve(config, open_logger(log_format), ready))


@ids.command()
@click.argument("config", type=CONFIG)
@click.option(
    "--at", "at_s", type=int, default=0, show_default=True, help="The moment that numbers show, in Unix seconds."
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Numbers a second: tell when the range runs out.")
def check(config: Path, at_s: int, rate: float | None) -> int:
    """Verify the rules of CONFIG; show the first, the next and the last number of each."""
    need_extra()
    from beanpole.ids.rule import preview
    from beanpole.ids.rules import load

    try:
        found = load(config)
    except RuleError as error:
        click.echo(f"refused: {error}", err=True)
        return ExitCode.FAILED
    for name, rule in found.rules.items():
        shape, end_s = rule.counting.shape, rule.cycle.end_s(at_s)
        left = shape.remaining(shape.minimum - 1)
        numbers = "  ".join(f"{which} {number}" for which, number in preview(rule, at_s).items())
        print(f"{name}: {numbers}  ({left} numbers each cycle: {rule.cycle.kind})")
        if rate is not None:
            runs_out_s = left / rate
            enough = end_s is not None and runs_out_s >= end_s - rule.cycle.start_s(at_s)
            print(f"  at {rate:g}/s: {'enough for the cycle' if enough else f'runs out after {runs_out_s:.0f} s'}")
    return ExitCode.OK


def need_extra() -> None:
    """Say what to install if the optional packages are not there.

    Raises:
        StartError: they are not.
    """
    try:
        import lupa  # noqa: F401 - whether it is there is the question
        import sqlalchemy  # noqa: F401 - see above
    except ImportError as error:
        raise StartError(f"{error.name} is not installed: pip install 'beanpole[ids]'", ExitCode.FAILED) from error
