"""Every limit and default of the log, each with its unit and its reason."""

SEGMENT_BYTES_DEFAULT = 10_485_760
"""Bytes of a segment of the log, as beanstalkd's ``-s``. A larger job gets a segment of its own."""

SEGMENT_OVERHEAD_BYTES = 256
"""What a segment needs beside one record: its header, the end of the turn and its own end."""

PAUSE_NS = 1_000_000
"""Nanoseconds that the log must have held up the loop for the report of a slow turn to mention it."""

SHORT_SYNC_NS = 500_000
"""Nanoseconds below which a sync is short: every client waits for one on the loop."""

SHORT_SYNCS = 256
"""Short syncs in a row after which the loop syncs a lone record beside other clients: so many for one that is not."""

ROW_BYTES = 524_288
"""Bytes of records in a row of a cluster's log, unless one record alone has more."""

ROWS_BYTES = 4_194_304
"""Bytes of rows that a follower asks for at once."""

UNCONFIRMED_BYTES_MAX = 8_388_608
"""Bytes of records that wait for their row, above which no command hands out a job or records more than a delete."""

SILENCE_MS_DEFAULT = 1500
"""Milliseconds without a row after which a follower stands for leader; its poll and two beats must fit into it."""

SLOW_S = 2.0
"""Seconds that something may take at the server before the node looks whether another has taken its place."""

OPEN_S = 5.0
"""Seconds in which a server that took a connection must have said what it is; else another is tried."""

HALT_S = 10.0
"""Seconds that a node which stops tries to leave word in PostgreSQL: each silent host before the primary costs two."""

CLUSTER_FORMAT = 9
"""What a node reads and writes: 3, jobs and pauses as in files; 4, keys of jobs and rules of tubes; 5, schedules.

6, groups; 7, tokens of puts that are done once; 9, numbers of a shard. No log has format 8.
"""

JOB_IDS_SKIPPED = 1_000_000
"""Job ids that a leader passes over when rows may be gone: more than were given to jobs in what is lost, one hopes."""

POLL_S = 0.02
"""Seconds between two polls of a follower that has read everything."""

INBOX_BYTES_DEFAULT = 8 * 2**30
"""Bytes of the inbox, above which the statement of an application fails: one role could fill the disk of the log."""

INBOX_ROWS = 1_000
"""Rows of the inbox that are read at once."""

INBOX_ROWS_AT_ONCE = 50
"""Rows of the inbox that become jobs between two looks at clients: a fraction of a millisecond."""

INBOX_RETRY_S = 1.0
"""Seconds until the inbox is read again after that failed."""

INBOX_LOCK_MS = 1_000
"""Milliseconds that the log waits for somebody's lock on rows of the inbox that go with a row of it."""

REPORT_S = 1.0
"""Seconds between two reports of a node of what it is doing."""

REPORT_OLD_S = 3.0
"""Seconds after which a node that has not reported counts as gone."""

REPAIR_POLL_S = 0.25
"""Seconds between two looks of such a node, or of an operator's verb, at how far the leader is."""
