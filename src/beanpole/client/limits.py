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
