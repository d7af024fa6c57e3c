"""Every limit of the conformance kit, each with its unit and its reason."""

SETTLE_S = 0.02
"""Seconds that a server on this machine is given to send what it must not send, or to notice a FIN."""

SCRIPT_SECONDS_MAX = 6.0
"""Seconds that may pass in a script that is played against a server."""

AT_ONCE = 4
"""Scripts that are played at a time: most of their time is waiting, but for the starts of servers."""

TRIES = 3
"""How often a script in which time passes is played until it goes as written: a machine may stall."""

BEANSTALKD_TRIES = 10
"""How often one is played that beanstalkd, by a mistake of its own, fails in about one of four runs."""

STOP_S = 5.0
"""Seconds that a server may take to end before it is killed."""
