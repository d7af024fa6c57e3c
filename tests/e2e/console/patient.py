"""``beanpole console`` with patience: `python -m tests.e2e.console.patient console --http ...`.

What is bounded in milliseconds so that people do not wait is not reached here however busy the machine is: no list ends
early, no server counts as away while it is only slow, and an action is over when it is answered.
"""

import sys

from beanpole.console import limits

LONG_S = 600

PATIENCE = {
    "ANSWER_MS": LONG_S * 1_000,
    "SCRAPE_MS": LONG_S * 1_000,
    "SEARCH_MS": LONG_S * 1_000,
    "LOOK_MS": LONG_S * 1_000,
    "SILENCE_S": LONG_S,
    "CONNECT_S": LONG_S,
    "ACTION_LOOK_S": LONG_S,
    "STREAM_PATIENCE_S": LONG_S,
    "STREAM_LIFE_S": LONG_S,
    "HTTP_REQUEST_S": LONG_S,
}
"""Limits of the console, by name."""


def prepare() -> None:
    """Set the limits, before anything that reads them is imported."""
    for name, value in PATIENCE.items():
        assert isinstance(getattr(limits, name), int), name
        setattr(limits, name, value)


def main() -> int:
    """Run the command line; return the exit code."""
    prepare()
    from beanpole.__main__ import main as run  # noqa: PLC0415 - some limits are read when a module is imported
    from beanpole.console.api import actions  # noqa: PLC0415 - see above

    assert actions.DONE_WITHIN_S < LONG_S
    actions.DONE_WITHIN_S = LONG_S
    return run()


if __name__ == "__main__":
    sys.exit(main())
