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

CLOCK_SET_NS = 1_000_000_000
"""Nanoseconds by which the wall clock must have been set for an idle log to take note of it."""

SYNC_HERE_BYTES = 16_384
"""Bytes that the loop may sync itself while there is a single client."""

SPACE_RETRY_MS = 250
"""Milliseconds between two questions to a full disk whether it has space again."""

LOG_FULL_TELL_NS = 60_000_000_000
"""How long a log line about a full disk keeps others like it away."""

RECOVERY_PROGRESS_SEGMENTS = 64
"""Segments between two log lines of a long recovery: with the default size, a second or so."""
