"""The limits of the console, with their reasons."""

FRESH_MS = 1_000
"""Milliseconds for which a sample serves: two Prometheus servers, and a person who looks, cost no more than one."""

TUBES_PER_SLICE = 500  # tubes that are added up before anything else runs: about a millisecond
TUBES_MAX = 1_000  # tubes that have metrics of their own; the others are added up
HISTOGRAM_TUBES_MAX = 100  # tubes that have histograms of their own: each of the three has 31 lines
BODY_SHOWN_BYTES = 160  # bytes of a body from which a list shows the beginning

JSON_BYTES_MAX = 1_048_576
"""Bytes of a body that is read as JSON: that takes some ten milliseconds, in which nothing else is answered."""

SESSION_S = 12 * 3600  # seconds after which one has to log in again
LOGIN_BYTES_MAX = 4_096  # bytes of the form that logs in: anybody can send it
NAME_CHARS_MAX = 100  # characters of the name of a server
FAILURES_PER_PAGE = 100  # groups, or jobs of a group, that a page shows
SESSIONS_LOOKED = 2_000  # sessions that one look takes: some 60 ms
ACTION_IDS_MAX = 10_000  # jobs that can be chosen one by one: their ids fit into a form
ACTION_DRY_RUNS = 200  # dry runs that are remembered: only of these an action on a filter is begun
ACTION_PIECE = 500  # jobs of a piece: to delete so many takes a server less than a millisecond
