"""Options of verbs that are made of the table of operations, and those that choose among the jobs of a tube."""

from collections.abc import Callable
from typing import Any

import click

from beanpole.cli.common import COUNT, ID, PRIORITY, TUBE
from beanpole.cli.quantities import DURATION, MOMENT, TTR
from beanpole.client.extensions import RESTING
from beanpole.operations.listing import SCAN_IDS
from beanpole.operations.table import OPERATIONS, Option

KINDS: dict[str, click.ParamType[Any]] = {
    "number": COUNT,
    "priority": PRIORITY,
    "seconds": DURATION,
    "moment": MOMENT,
    "ttr": TTR,
    "tube": TUBE,
    "text": click.STRING,
}


def given_options(operation: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(OPERATIONS[operation].options):
            if each.help:
                function = option_of(each)(function)
        return function

    return decorate


def option_of(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    kind = click.Choice([word for word, _ in option.choices if word]) if option.choices else KINDS[option.kind]
    flags = (option.flag or f"--{option.name}").split()
    return click.option(
        *flags, option.name, type=kind, default=option.value, show_default=option.value is not None, help=option.help
    )


def a_reason(context: click.Context, option: click.Parameter, text: str | None) -> str:
    """Return the text of a reason; empty: the option is not there. Raises BadParameter: all jobs have an empty one."""
    if not text and text is not None:
        raise click.BadParameter("an empty text stands in every reason", context, option)
    return text or ""


REASON = click.option(
    "--reason",
    callback=a_reason,
    help="Only jobs that failed or died for a reason with this text, if the server says reasons.",
)


GROUP = click.option("--group", default="", help="Only the jobs of this group. (*)")


def choice_options(function: Callable[..., Any]) -> Callable[..., Any]:
    states = click.option(
        "--state", "states", type=click.Choice(RESTING), multiple=True, help="Only these; may be repeated."
    )
    count = click.option("--count", type=COUNT, help="The most jobs.  [default: all]")
    return states(count(function))


def scan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--from", "first", type=ID, help="The first id to look at."),
        click.option("--to", "last", type=ID, help="The last id to look at."),
        click.option(
            "--scan",
            "id_count_max",
            type=COUNT,
            default=SCAN_IDS,
            show_default=True,
            help="The most ids to look at, on a server that can't list jobs.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function
