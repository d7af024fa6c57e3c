"""The limits and defaults of the worker, each with its unit and its reason."""

CONCURRENCY = 10
"""Jobs that a worker runs at a time, and so its connections, by default."""

ATTEMPTS = 5
"""Attempts at a job until it is dead, unless its handler says otherwise."""

BACKOFF_FIRST_S = 1
"""Seconds between the first two attempts at a job at the most; then twice as long each time."""

BACKOFF_MAX_S = 3_600
"""Seconds between two attempts at a job at the most, unless its handler says otherwise."""

GRACE_S = 25
"""Seconds that running handlers have when a worker stops: below the 30 after which Kubernetes kills a process."""

STUCK_S = 60
"""Seconds for which handlers that hang may occupy all slots of a worker until it ends, by default."""

JOBS_NAMED = 5
"""Jobs that a worker names when it says for whom it waits."""

CANCEL_MS = 1_000
"""Milliseconds that a cancelled or killed handler has for its end until its job is given back."""

RESERVE_S = 30
"""Seconds of a worker's reserve; then it asks again, so that a server that is gone without a word is noticed."""

HTTP_HEAD_BYTES_MAX = 16_384
"""Bytes of the head of a request for the metrics."""

HTTP_CONNECTIONS_MAX = 32
"""Connections for the metrics at a time; a further one is closed at once."""

HTTP_REQUEST_S = 5
"""Seconds from the connection for the metrics to its end: a scraper is a machine nearby."""

METRICS_PORT_DEFAULT = 11381
"""The TCP port of an address for the metrics that names none: the one behind the console's."""

HEADLINE_BYTES_MAX = 512
"""Bytes of what a job keeps of an error's own words: the rest of what there is room for says where it came from."""
