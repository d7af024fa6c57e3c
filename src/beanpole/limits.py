"""The limits and defaults that several packages share, each with its unit and its reason.

A package has those that several of its modules need in its own `limits`; one that a single module needs is a constant
of that. docs/limits.md has what users meet. The compiled modules copy what they need into C variables when they are
imported, so a limit that a user can change is a constructor argument, and only its default stands here.
"""

# --- The protocol (doc/protocol.txt of beanstalkd, and what its server does) ------------------------------------------

TUBE_NAME_BYTES_MAX = 200
"""Bytes of a tube name."""

PRI_MAX = 2**32 - 1
"""The least urgent priority; also the largest delay, TTR and pause in seconds."""

MOMENT_S_MAX = 2**33 - 1
"""The last moment that ``at=`` can say, in seconds since 1970: in 2106 no delay leads any further."""

RESERVE_TIMEOUT_S_MAX = 2**31 - 1
"""Seconds of ``reserve-with-timeout``; a larger number is ``BAD_FORMAT``, as in beanstalkd 1.13."""

BODY_BYTES_MAX_DEFAULT = 65535
"""Bytes of a job's body unless ``--body-bytes-max`` says otherwise, as in beanstalkd."""

BODY_BYTES_MAX_CEILING = 1_073_741_824
"""Bytes above which ``--body-bytes-max`` is capped with a warning, as in beanstalkd."""

# --- The server -------------------------------------------------------------------------------------------------------

PORT_DEFAULT = 11300
"""The TCP port of the beanstalkd protocol."""

TLS_PORT_DEFAULT = 11400
"""The same over TLS, as other clients have it that know ``beanstalks://``."""

HTTP_PORT_DEFAULT = 11380
"""The TCP port of an address for HTTP that names none: beanstalkd's, and 80 for HTTP."""

TUBES_MAX = 2**31 - 1
"""Tubes that there may be, unless ``--tubes-max`` says fewer: as many as memory holds."""

SCHEDULES_MAX = 100_000
"""Schedules that there may be, unless ``--schedules-max`` says otherwise: they outlive who has set them."""

ONCE_MAX = 1_000_000
"""Tokens of puts that are done once, unless ``--once-max`` says otherwise: at 40 bytes each."""

SCHEDULE_LEVEL = 1
"""The documents of schedules that this program understands; a log that has one of a greater level is refused."""

SHARDS_MAX = 1_024
"""Numbers that shards can be given: with the bits below, ids stay under 2^53, which doubles hold exactly."""

SHARD_ID_BITS = 43
"""The bits of an id below the number of its shard: its ids are number * 2^43 + 1 and up."""

# --- The client -------------------------------------------------------------------------------------------------------

CLIENT_RECEIVE_BYTES = 65_536
"""Bytes that a client asks the kernel for at a time, and of its empty input buffer that it keeps."""
