"""Every limit and every default of the server, each with its unit and its reason.

A limit that stands anywhere else is a mistake. The compiled modules copy what they need into C variables when they are
imported, so a limit that a user can change is a constructor argument and only its default stands here.
"""

# --- The protocol (doc/protocol.txt of beanstalkd, and what its server does) ------------------------------------------

LINE_BYTES_MAX = 224
"""Bytes of a command line with its CRLF. Longer lines are swallowed and answered with ``BAD_FORMAT``."""

TUBE_NAME_BYTES_MAX = 200
"""Bytes of a tube name."""

PRI_MAX = 2**32 - 1
"""The least urgent priority; also the largest delay, TTR and pause in seconds."""

RESERVE_TIMEOUT_S_MAX = 2**31 - 1
"""Seconds of ``reserve-with-timeout``; a larger number is ``BAD_FORMAT``, as in beanstalkd 1.13."""

URGENT_PRI_BELOW = 1024
"""A ready job of a smaller priority counts as urgent in the statistics."""

DEADLINE_MARGIN_NS = 1_000_000_000
"""The safety margin: in the last second of a reservation ``reserve`` answers ``DEADLINE_SOON``."""

BODY_BYTES_MAX_DEFAULT = 65535
"""Bytes of a job's body unless ``--body-bytes-max`` says otherwise, as in beanstalkd."""

BODY_BYTES_MAX_CEILING = 1_073_741_824
"""Bytes above which ``--body-bytes-max`` is capped with a warning, as in beanstalkd."""

# --- The server -------------------------------------------------------------------------------------------------------

PORT_DEFAULT = 11300
"""The TCP port of the beanstalkd protocol."""

OUTPUT_BYTES_KEPT = 16_384
"""Capacity of a reply buffer that a connection keeps when it is empty; a larger one is given back."""

INPUT_BYTES_KEPT = 4_096
"""Capacity of an input buffer that a connection keeps when it is empty; a larger one is given back."""

# --- The engine -------------------------------------------------------------------------------------------------------

TUBES_MAX = 2**31 - 1
"""Tubes that there may be, unless ``--tubes-max`` says fewer: as many as memory holds."""

JOBS_PER_TICK = 10_000
"""Jobs that become ready by time in one tick, a few milliseconds; if more are due, the next turn goes on."""

TUBES_PER_BLOCK = 256
"""Names of tubes that list-tubes keeps as one text, so that a change makes it write no more anew: 10 microseconds."""

REPLY_BYTES_PER_TURN = 65_536
"""Bytes of a long list that are written before others have their turn."""

KICKS_PER_TURN = 1_000
"""Jobs that one kick moves before other connections have their turn: a fraction of a millisecond."""

# --- The client -------------------------------------------------------------------------------------------------------

CLIENT_RECEIVE_BYTES = 65_536
"""Bytes that a client asks the kernel for at a time, and of its empty input buffer that it keeps."""

REPLY_LINE_BYTES_MAX = 512
"""Bytes of a reply's line with its CRLF; the longest that servers send has 210: USING and a tube."""

# --- The ID service and its client ------------------------------------------------------------------------------------

IDS_PORT_DEFAULT = 11310
"""The UDP port of the ID service."""

IDS_REQUEST_BYTES_MAX = 20_459
"""Bytes of a request; a longer datagram is dropped and counted, as by the original."""

IDS_COUNT_MAX = 1_000
"""Numbers of one request."""
