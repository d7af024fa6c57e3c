"""Every limit of the server's turns, connections and start, with its unit and its reason.

The costs are what commands took on the machine of docs/performance.md, generously: `python -m benchmarks.costs` prints
both. They are weights, not times: nothing reads a
clock to bound a turn, so that the same input makes the same turns everywhere, and a slower machine has longer ones.
"""

BACKLOG = 1024
"""Connections that the kernel queues before we accept them; clients that all connect at once need it."""

EVENTS_PER_TURN = 512
"""Sockets that one turn serves; with more ready, the rest waits for the next turn."""

ACCEPTS_PER_TURN = 256
"""Connections accepted in one turn, so that a flood of them can't starve those that are there."""

RECEIVE_BYTES_PER_TURN = 131_072
"""Bytes read from one connection in one turn: two bodies of the default limit, so bulk does not delay the others."""

RECEIVE_BYTES_FIRST = 66_560
"""Bytes read from one that is served before the others: a body of the default limit, which must not cost two reads."""

OUTPUT_BYTES_PAUSE = 1_048_576
"""Unsent bytes at which a connection's commands stop running: a client that never reads can't fill our memory."""

ACCEPT_REPORT_NS = 60_000_000_000
"""How long a log line about paused accepting keeps others like it away, so that clients can't flood the log."""

HEAP_BLOCK_BYTES_MAX = 4_194_304
"""Bytes up to which a block of memory is taken from the heap; a larger one is mapped and faults in page by page."""

HEAP_BYTES_KEPT = 33_554_432
"""Free bytes at the heap's end that stay with the process, so that buffers for large bodies don't come and go."""

ACCEPT_RETRY_NS = 1_000_000_000
"""How long accepting pauses when the process is out of file descriptors, unless a connection closes earlier."""

CONNECTIONS_MAX = 2**31 - 1
"""Connections at a time, unless ``--connections-max`` says fewer: as many as there are file descriptors for."""

TURN_COST_NS = 4_000_000
"""Nanoseconds that the commands of one turn may cost over all connections: about what a quiet client waits at most."""

SHARE_COST_NS = 300_000
"""Nanoseconds that the commands of one connection may cost in a turn: about a thousand commands in one packet."""

LIGHT_COST_NS = 30_000
"""The share of a connection that is served before those that use more: a new one, or one that used less than this."""

SLOW_TURN_NS = 50_000_000
"""Nanoseconds of a turn that is reported as slow: more than ten times what its commands may cost."""

SERVE_COST_NS = 4_000
"""What it costs to serve a connection at all: one receive and one send."""

WATCH_COST_NS = 20
"""What each watched tube adds to a reserve that looks at them all, with a hundred clients; with one, a third."""

CANCEL_COST_NS = 25
"""What each watched tube adds to a cancel-reserve, which ends what began with its reserve: a place in each line."""

MOVED_COST_NS = 300
"""What each job adds to a command that moves many, such as a kick."""

INPUT_BYTE_COST_NS = 3
"""What a byte of input costs with a hundred clients that send large bodies, by what others wait; with one, a third."""

SEND_BYTE_COST_NS = 1
"""What a byte costs to send: the kernel takes a megabyte in about a millisecond."""

OUTPUT_BYTES_PER_COST_NS = 4
"""Bytes of output that cost a nanosecond: they are copied twice, from memory that is in use."""

FORWARD_BYTES_PER_TURN = 4_194_304
"""Bytes that a follower passes on in a turn: a few milliseconds, which is what a quiet client waits for the others."""

CLUSTER_WAIT_S = 10
"""Seconds that a node of a cluster keeps clients which it can't serve: then they may find a better one."""
