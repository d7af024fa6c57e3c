"""Every limit of the engine, with its unit and its reason."""

URGENT_PRI_BELOW = 1024  # a ready job of a smaller priority counts as urgent in the statistics
DEADLINE_MARGIN_NS = 1_000_000_000
"""The safety margin: in the last second of a reservation ``reserve`` answers ``DEADLINE_SOON``."""

TOLD_NS = 1_000_000_000
"""For how long a job is left to a session that was told of it, by ``reserve-many 0``, and says nothing: long enough
for a round trip, and for a server that is busy.
"""

JOBS_PER_TICK = 5_000
"""Jobs that move by themselves in a turn, by time or as connections end, a millisecond or two; the rest follows.

One that expires counts twice, one that dies as more: see FAILED_BYTES_PER_JOB.
"""

LEAST_PER_TICK = 500
"""Jobs that move by themselves in a turn, whatever else is due: schedules that fire without end leave so much."""

TOKENS_PER_TICK = 5_000
"""Tokens of puts that are done once that are looked at each second, whether they have ended: under a millisecond."""

WIDE_WATCHES = 5_000
"""Watched tubes above which a session does not look at each of them, a fraction of a millisecond: see session.py."""

ENDS_PER_TURN = 1_000
"""Jobs that are over and that one command finds in its way; then it is tried again, or left to the next tick.

One that dies counts as more by its bytes: see FAILED_BYTES_PER_JOB.
"""

REPLY_BYTES_PER_TURN = 65_536  # bytes of a long list that are written before others have their turn
KICKS_PER_TURN = 1_000  # jobs that one kick moves before other connections have their turn: a fraction of a millisecond
WALK_IDS_PER_TURN = 10_000
"""Ids that a search for the jobs of a tube passes before others have their turn: a fraction of a millisecond."""

JOBS_PER_PIECE = 1_000
"""Jobs that a command about many changes before others have their turn: a fraction of a millisecond."""

COST_WITH_GROUPS = 3  # as how many of these one counts of a tube with groups: the next job of all is looked for again

BODIES_BYTES_MAX = 262_144
"""Bytes of bodies in a reply with several jobs, and of a page of list-sessions; one job is always given."""

NAMES_PER_TURN = 5_000
"""Names of tubes that a page about tubes looks at before others have their turn: a fraction of a millisecond."""

SESSIONS_PER_TURN = 50
"""Sessions of which list-sessions writes before others have their turn: a fraction of a millisecond."""

MOVES_PER_AUDIT = 8
"""Jobs that are moved in the time in which the audit takes note of a command."""

MOVES_PER_TURN = 2_500
"""Jobs that come back in a turn from sessions that are closed, or tubes that these watch no more, under a millisecond.

What remains goes on in the next turn. A job that dies counts as more: see FAILED_BYTES_PER_JOB.
"""

FAILED_BYTES_PER_JOB = 250
"""Bytes that are recorded of a job that dies in the time in which another becomes ready: JOBS_PER_TICK goes by it."""

ROOM_RETRY_NS = 1_000_000
"""When a job that had no room in the log as its attempt began or failed, or as it died, is looked at again.

The end of the turn has made some by then, or found none.
"""

WALL_LOOK_NS = 1_000_000_000
"""The longest that a server with schedules goes without reading the wall clock: somebody may have set it."""

PATTERNS_MAX = 1_000  # patterns that may have rules: a new tube looks for its own among them
GROUPS_PAUSED_MAX = 10_000  # groups that may be paused, with jobs or without
BUCKETS_MAX = 100_000
"""Buckets of the rules `rate` and `group-rate` that are kept of tubes and groups that are gone, at 0.2 kB each."""

TUBES_TIMED_MAX = 1_000
"""Tubes whose jobs are timed by tube, at 0.75 kB each; those of the others are timed over all tubes only."""

COMMAND_COST_NS = 300
"""Nanoseconds that a command costs which builds no text; for those that do see ``engine/commands/table.py``."""

LOST_SESSIONS_MAX = 100_000
"""Sessions without a connection that keep their jobs, of some 600 bytes each; what ends beyond that keeps nothing."""

KEPT_JOBS_MAX = 400
"""Jobs that wait for a session without a connection: their ids, of 20 digits at most, fit a line of a reply."""
