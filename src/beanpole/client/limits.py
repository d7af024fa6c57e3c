"""The limits and defaults of the client, each with its unit and its reason.

Those that the protocol's reader shares are in `beanpole.limits`.
"""

PRI_DEFAULT = 65_536
"""The priority of jobs unless the caller says otherwise, as in greenstalk."""

TTR_S_DEFAULT = 60
"""Seconds a worker may take for a job unless the caller says otherwise, as in greenstalk."""

TIMEOUT_MS = 20_000
"""Milliseconds of silence after which a client that waits for a reply gives up, by default."""

CONNECT_TIMEOUT_MS = 5_000
"""Milliseconds that one attempt to connect may take, by default."""

CONNECT_ATTEMPTS = 5
"""Attempts to connect until a call fails, by default: with the pauses between, a restart's time."""

BACKOFF_FIRST_MS = 50
"""Milliseconds of the pause after the first failed attempt; each later pause is twice as long."""

BACKOFF_MAX_MS = 5_000
"""Milliseconds of the longest pause between two attempts."""

PATIENCE_S = 60
"""Seconds after the loss of its connection for which a client dials again, by default: a slow restart of the server."""

RECOVERY_PAUSE_MAX_MS = 2_000
"""Milliseconds of the longest pause in that time, so that the return of the server is soon noticed."""

KEEPALIVE_IDLE_S = 60
"""Seconds of silence after which the kernel asks the server's machine whether it is there."""

KEEPALIVE_EVERY_S = 15
"""Seconds between two such questions."""

KEEPALIVE_PROBES = 4
"""Questions without an answer after which the connection is lost: a consumer that waits for ever notices it, too."""

LOST_JOBS_MAX = 10_000
"""Jobs of which a client remembers that they were lost with their connection."""

BATCH_BYTES = 262_144
"""Bytes of commands after which a batch waits for its replies: enough to hide the way, not too many to lose."""

BATCH_COMMANDS = 4_096
"""Commands after which a batch waits for its replies."""

WORK_S = 600
"""Seconds that a server may take for a command that goes through all jobs of a tube."""

SEND_AT_ONCE_BYTES = 16_384
"""Bytes that the kernel takes without waiting for the server; more are sent while replies are read."""

POOL_IDLE_CLIENTS_MAX = 16
"""Idle connections to one server that a pool keeps, by default."""

POOL_SKIPS_MAX = 64
"""Choices of a server for which a pool leaves out one that failed again and again; after the first failure it is 1."""
