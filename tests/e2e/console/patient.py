"""``beanpole console`` with patience: `python -m tests.e2e.console.patient console --http ...`.

What is bounded in time so that people do not wait is not reached here however busy the machine is: no list ends early,
no server counts as away while it is only slow, and an action is over when it is answered.
"""

import functools
import pkgutil
import sys

from beanpole.__main__ import main as run
from beanpole.console.streams import Pace

LONG_S = 600

PATIENCE = {
    "beanpole.console.single_flight.ANSWER_MS": LONG_S * 1_000,
    "beanpole.console.single_flight.SCRAPE_MS": LONG_S * 1_000,
    "beanpole.console.single_flight.LOOK_MS": LONG_S * 1_000,
    "beanpole.console.reading.jobs.SEARCH_MS": LONG_S * 1_000,
    "beanpole.console.sampler.SILENCE_S": LONG_S,
    "beanpole.console.sampler.CONNECT_S": LONG_S,
    "beanpole.console.actions.dry.ACTION_LOOK_S": LONG_S,
    "beanpole.console.streams.STREAM_PATIENCE_S": LONG_S,
    "beanpole.console.screens.table.Pace": functools.partial(Pace, life_s=LONG_S),
    "beanpole.console.serving.Connection.request_s": LONG_S,
}
"""Limits of the console, by where they are."""


def prepare() -> None:
    for path, value in (PATIENCE | {"beanpole.console.api.actions.DONE_WITHIN_S": LONG_S}).items():
        where, _, name = path.rpartition(".")
        owner = pkgutil.resolve_name(where)
        assert hasattr(owner, name), path
        setattr(owner, name, value)


def main() -> int:
    prepare()
    return run()


if __name__ == "__main__":
    sys.exit(main())
