"""Every limit and default of the log, each with its unit and its reason."""

SEGMENT_BYTES_DEFAULT = 10_485_760
"""Bytes of a segment of the log, as beanstalkd's ``-s``. A larger job gets a segment of its own."""

SEGMENT_BYTES_MIN = 65_536
"""The smallest segment that can be asked for: below, the files' headers and ends would matter."""

SEGMENT_OVERHEAD_BYTES = 256
"""What a segment needs beside one record: its header, the end of the turn and its own end."""

COMPACTION_PERCENT = 175
"""Bytes of sealed segments in percent of live bytes at which the oldest goes: below 200, for what is under way."""

COMPACTION_WORTH_PERCENT = 125
"""Bytes of sealed segments in percent of live bytes up to which a round would move much and gain little."""

COMPACTION_BYTES_PER_TURN = 131_072
"""Bytes of jobs that compaction moves in a turn, and so what it may delay others by: well below a millisecond."""

COMPACTION_BYTES_PER_BYTE = 4
"""Bytes that compaction may move besides for each byte that clients wrote: it must be faster than they are."""

CLOCK_CHECK_MS = 5000
"""Milliseconds between two looks of a log whether somebody has set the wall clock."""

PAUSE_NS = 1_000_000
"""Nanoseconds that the log must have held up the loop for the report of a slow turn to mention it."""

CLOCK_SET_NS = 1_000_000_000
"""Nanoseconds by which the wall clock must have been set for an idle log to take note of it."""

SYNC_HERE_BYTES = 16_384
"""Bytes that the loop may sync itself while there is a single client."""

SPACE_RETRY_MS = 250
"""Milliseconds between two questions to a full disk whether it has space again."""

LOG_FULL_REPORT_NS = 60_000_000_000
"""How long a log line about a full disk keeps others like it away."""

RECOVERY_PROGRESS_SEGMENTS = 64
"""Segments between two log lines of a long recovery: with the default size, a second or so."""

OTHER_HOSTS_S = 0.5
"""Seconds that an operator's verb waits for the other hosts when one has answered: it may be an old primary."""

ROW_BYTES = 524_288
"""Bytes of records in a row of a cluster's log, unless one record alone has more."""

ROWS_BYTES = 4_194_304
"""Bytes of rows that a follower asks for at once."""

UNCONFIRMED_BYTES_MAX = 8_388_608
"""Bytes of records that wait for their row, above which no command hands out a job or records more than a delete."""

SILENCE_MS_DEFAULT = 1500
"""Milliseconds without a row after which a follower stands for leader; its poll and two beats must fit into it."""

SILENCE_MS_MIN = 500
"""The least that can be set: below, a leader that is only slow would be deposed."""

COMPACTION_BYTES_PER_ROW = 65_536
"""Bytes of jobs that compaction moves with each row of a cluster's log: it adds little to the time of a commit."""

SLOW_S = 2.0
"""Seconds that something may take at the server before the node looks whether another has taken its place."""

OPEN_S = 5.0
"""Seconds in which a server that took a connection must have said what it is; else another is tried."""

HALT_S = 10.0
"""Seconds that a node which stops tries to leave word in PostgreSQL: each silent host before the primary costs two."""

BEATS_PER_SILENCE = 5
"""Rows that an idle leader appends in the silence limit."""

CLUSTER_SEGMENT_BYTES = 67_108_864
"""Bytes of a segment of a cluster's log, which is a table."""

CLUSTER_FORMAT = 4
"""What a node reads and writes: 3, jobs and pauses as in files; 4, keys of jobs and rules of tubes besides."""

CLUSTER_FORMAT_EXTENSIONS = 4
"""The format from which the extensions are served: a node that reads less would stop at what they write."""

JOB_IDS_SKIPPED = 1_000_000
"""Job ids that a leader passes over when rows may be gone: more than were given to jobs in what is lost, one hopes."""

CLUSTER_BODY_BYTES_MAX = 8_388_608
"""The largest body in a cluster: a body alone is a row, and a row must be confirmed within the silence limit."""

POLL_S = 0.02
"""Seconds between two polls of a follower that has read everything."""

POLL_NAMED_S = 0.002
"""The same for the node to which the leader handed over."""

RECONNECT_S = 0.1
"""Seconds until a follower that has lost the server tries again."""

RETRY_S_MIN = 0.02
"""Seconds until a leader tries again what the server could not do, the first time."""

RETRY_S_MAX = 0.5
"""The same after many times."""

MAINTENANCE_EVERY_S = 1.0
"""Seconds between two looks at which segments there are."""

MAINTENANCE_RETRY_S = 0.25
"""Seconds until a segment is made or dropped that could not be."""

HANDOVER_NS = 1_000_000_000
"""Nanoseconds that a leader which handed over waits for its successor before it closes its clients."""

HANDED_OVER_S = 1.0
"""Seconds that it leaves the server to its successor before it reads the log again."""

KEEP_LEAD_NS = 60_000_000_000
"""Nanoseconds for which a node that was named by the leader before leads on though the others can't reach it."""

REPORT_S = 1.0
"""Seconds between two reports of a node of what it is doing."""

REPORT_OLD_S = 3.0
"""Seconds after which a node that has not reported counts as gone."""

STEP_DOWN_S = 10.0
"""Seconds that ``beanpole cluster step-down`` waits for the next leader."""

REPAIR_NS = 15_000_000_000
"""How long a node that can't verify a row waits for a leader that comes further with repairing it."""

CONTRADICTED_NS = 20_000_000_000
"""How long two other nodes can't verify what a leader wrote, and it can, until it stops: they have read it again."""

REPAIR_POLL_S = 0.25
"""Seconds between two looks of such a node, or of an operator's verb, at how far the leader is."""

DOUBTS_MAX = 2
"""How often a node that can't verify a row begins again: at once, and when the leader has had time to repair it."""

VERB_S = 60
"""Seconds that a verb of ``beanpole cluster`` waits without coming further, unless it is told otherwise."""

VERB_LONG_S = 600
"""The same for one that reads or writes a whole data directory, which it does in one go."""
