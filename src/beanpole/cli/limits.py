"""The limits of the command line, each with its unit and its reason."""

WORKER_RELOAD_MS = 500
"""Milliseconds between two checks of the files of a worker that runs with ``--reload``."""

SCAN_IDS_DEFAULT = 1_000_000
"""Ids that a command tries in order to find the jobs of a tube, by default: that takes a few seconds."""
