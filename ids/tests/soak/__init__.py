"""A long run of the ID service against everything that goes wrong: `python -m tests.soak --help`."""
