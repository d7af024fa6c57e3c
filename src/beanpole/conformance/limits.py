"""Every limit of the conformance kit, each with its unit and its reason."""

PATIENCE_S = 5.0
"""Seconds that a server may take to answer: far more than it needs, as the kit plays several scripts at a time."""

SETTLE_S = 0.1
"""Seconds that a server is given to send what it must not send, or to notice a FIN: a round trip between continents."""

SCRIPT_SECONDS_MAX = 6.0
"""Seconds that may pass in a script that is played against a server."""

AT_ONCE = 8
"""Scripts that are played at a time: most of their time is waiting."""

TRIES = 3
"""How often a script in which time passes is played until it goes as written: a machine may stall."""

BEANSTALKD_TRIES = 10
"""How often one is played that beanstalkd, by a mistake of its own, fails in about one of four runs."""

BODY_BYTES_SENT_MAX = 1 << 20
"""Bytes of the largest body that is sent to find out what a server says to one that is too big."""

JOBS_LEFT_MAX = 20_000
"""Jobs that are deleted behind a script; the largest puts some thousands."""
