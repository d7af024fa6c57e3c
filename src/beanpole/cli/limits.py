"""The limits of the command line, each with its unit and its reason."""

WORKER_RELOAD_MS = 500
"""Milliseconds between two checks of the files of a worker that runs with ``--reload``."""

WORKER_STEADY_S = 10
"""Seconds after which the end of one of several worker processes is no failure to start: another begins at once."""

WORKER_RESTART_S_MAX = 30
"""Seconds between the end of a worker process that fails again and again and its next start; the first pause is 1."""

SCAN_IDS_DEFAULT = 1_000_000
"""Ids that a command tries in order to find the jobs of a tube, by default: that takes a few seconds."""
