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

BACKLOG = 1024
"""Connections that the kernel queues before we accept them; clients that all connect at once need it."""

EVENTS_PER_TURN = 512
"""Sockets that one turn serves; with more ready, the rest waits for the next turn."""

ACCEPTS_PER_TURN = 256
"""Connections accepted in one turn, so that a flood of them can't starve those that are there."""

RECEIVE_BYTES_PER_TURN = 131_072
"""Bytes read from one connection in one turn: two bodies of the default limit, so bulk does not delay the others."""

COMMANDS_PER_TURN = 1_024
"""Commands that one connection may run in one turn; its other commands wait for the next."""

TUBES_PER_COMMAND = 64
"""Watched tubes that a reserve looks at in the time of one command; it uses up its turn accordingly."""

JOBS_PER_COMMAND = 10
"""Jobs that a kick moves in the time of one command."""

OUTPUT_BYTES_PAUSE = 1_048_576
"""Unsent bytes at which a connection's commands stop running: a client that never reads can't fill our memory."""

OUTPUT_BYTES_KEPT = 16_384
"""Capacity of a reply buffer that a connection keeps when it is empty; a larger one is given back."""

INPUT_BYTES_KEPT = 4_096
"""Capacity of an input buffer that a connection keeps when it is empty; a larger one is given back."""

ACCEPT_TELL_NS = 60_000_000_000
"""How long a log line about paused accepting keeps others like it away, so that clients can't flood the log."""

HEAP_BLOCK_BYTES_MAX = 4_194_304
"""Bytes up to which a block of memory is taken from the heap; a larger one is mapped and faults in page by page."""

HEAP_BYTES_KEPT = 33_554_432
"""Free bytes at the heap's end that stay with the process, so that buffers for large bodies don't come and go."""

ACCEPT_RETRY_NS = 1_000_000_000
"""How long accepting pauses when the process is out of file descriptors, unless a connection closes earlier."""

DESCRIPTORS_RESERVED = 16
"""File descriptors kept free for log segments, the console and the like when connections take all others."""

# --- The engine -------------------------------------------------------------------------------------------------------

JOBS_PER_TICK = 10_000
"""Jobs that become ready by time in one tick, a few milliseconds; if more are due, the next turn goes on."""

KICKS_PER_TURN = 10_000
"""Jobs that one kick moves before other connections have their turn."""

# --- The log ----------------------------------------------------------------------------------------------------------

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

# --- The client -------------------------------------------------------------------------------------------------------

CLIENT_PRI_DEFAULT = 65_536
"""The priority of jobs unless the caller says otherwise, as in greenstalk."""

CLIENT_TTR_S_DEFAULT = 60
"""Seconds a worker may take for a job unless the caller says otherwise, as in greenstalk."""

CLIENT_TIMEOUT_MS = 20_000
"""Milliseconds of silence after which a client that waits for a reply gives up, unless told otherwise."""

CLIENT_CONNECT_TIMEOUT_MS = 5_000
"""Milliseconds that one attempt to connect may take, unless told otherwise."""

CLIENT_CONNECT_ATTEMPTS = 5
"""Attempts to connect until a call fails, unless told otherwise: with the pauses between, a restart's time."""

CLIENT_BACKOFF_FIRST_MS = 50
"""Milliseconds of the pause after the first failed attempt; each later pause is twice as long."""

CLIENT_BACKOFF_MAX_MS = 5_000
"""Milliseconds of the longest pause between two attempts."""

CLIENT_BATCH_BYTES = 262_144
"""Bytes of commands after which a batch waits for its replies: enough to hide the way, not too many to lose."""

CLIENT_BATCH_COMMANDS = 4_096
"""Commands after which a batch waits for its replies."""

CLIENT_SEND_AT_ONCE_BYTES = 16_384
"""Bytes that the kernel takes without waiting for the server; more are sent while replies are read."""

CLIENT_RECEIVE_BYTES = 65_536
"""Bytes that a client asks the kernel for at a time, and of its empty input buffer that it keeps."""

REPLY_LINE_BYTES_MAX = 512
"""Bytes of a reply's line with its CRLF; the longest that servers send has 210: USING and a tube."""

POOL_IDLE_CLIENTS_MAX = 16
"""Idle connections to one server that a pool keeps, unless told otherwise."""

POOL_SKIPS_MAX = 64
"""Choices of a server for which a pool leaves out one that failed again and again; after the first failure it is 1."""

# --- The worker -------------------------------------------------------------------------------------------------------

WORKER_CONCURRENCY = 10
"""Jobs that a worker runs at a time, and so its connections, unless told otherwise."""

WORKER_ATTEMPTS = 5
"""Attempts at a job until it is buried, unless its handler says otherwise."""

WORKER_BACKOFF_FIRST_S = 1
"""Seconds between the first two attempts at a job at the most; then twice as long each time."""

WORKER_BACKOFF_MAX_S = 3_600
"""Seconds between two attempts at a job at the most, unless its handler says otherwise."""

WORKER_GRACE_S = 25
"""Seconds that running handlers have when a worker stops: below the 30 after which Kubernetes kills a process."""

WORKER_STUCK_S = 60
"""Seconds for which handlers that hang may occupy all slots of a worker until it ends, unless told otherwise."""

WORKER_CANCEL_MS = 1_000
"""Milliseconds that a cancelled or killed handler has for its end until its job is given back."""

WORKER_RELOAD_MS = 500
"""Milliseconds between two looks at the files of a worker that runs with ``--reload``."""

WORKER_RESERVE_S = 30
"""Seconds of a worker's reserve; then it asks again, so that a server that is gone without a word is noticed."""

SCAN_IDS_DEFAULT = 1_000_000
"""Ids that a verb of the command line looks at to find the jobs of a tube, unless told otherwise: some seconds."""

# --- The ID service ---------------------------------------------------------------------------------------------------

IDS_PORT_DEFAULT = 11310
"""The UDP port of the ID service."""

IDS_REQUEST_BYTES_MAX = 20_459
"""Bytes of a request; a longer datagram is dropped and counted, as by the original."""

IDS_DEPTH_MAX = 100
"""Levels of lists and objects in a request; it is refused beyond, for each takes a part of the stack."""

IDS_FAILURE_LOG_S = 60
"""Seconds after the message that a request has failed in which further failures are only counted."""

IDS_REPLY_BYTES_MAX = 65_507
"""Bytes of a reply: what a datagram of IPv4 holds."""

IDS_COUNT_MAX = 1_000
"""Numbers of one request."""

IDS_SOCKET_BYTES = 20_971_520
"""Bytes of the socket's buffers that we ask the system for, as the original; and of replies that wait to be sent."""

IDS_TURN_DATAGRAMS_MAX = 64
"""Datagrams that are read before the event loop sees to the database and to HTTP: a millisecond or less."""

IDS_SWITCH_US = 200
"""Microseconds after which the thread of the store lets the one run that answers requests."""

IDS_NAME_BYTES_MAX = 255
"""Bytes of the name of a rule, and of an application: two of them are a key that MySQL can index."""

IDS_NUMBER_MAX = 2**63 - 1
"""The largest number of a counter: what databases store."""

IDS_LUA_NUMBER_MAX = 2**53
"""The largest number of a Lua rule: above it, Lua's numbers are not exact and two become one."""

IDS_STEP_MAX = 1_000_000
"""The largest step, so the most nodes."""

IDS_BATCH_DEFAULT = 1_000
"""Numbers that are reserved at a time, unless the rule says otherwise; a crash may leave half as many more as a gap."""

IDS_BATCH_MAX = 1_000_000
"""The largest batch: half a second's numbers at the rate of large requests, so that a slow database holds up none."""

IDS_RESERVE_S_DEFAULT = 10
"""Seconds of time that numbers which begin with it reserve at once; and how far they may run ahead of the clock."""

IDS_RESERVE_S_MAX = 3_600
"""The most of them: after a crash, numbers show a time that is later than it is by as much."""

IDS_LOW_WATER_PERCENT = 50
"""Percent of a batch that are left when the next one is fetched: time enough for a slow database."""

IDS_COUNTERS_MAX = 100_000
"""Counters in memory; further names are refused, so that a stranger can't fill it with them."""

IDS_IDLE_S = 600
"""Seconds after its last number in which a counter stays in memory; then its unused range is given back."""

IDS_WAITING_MAX = 10_000
"""Requests that wait for a reservation; further ones are refused."""

IDS_WINDOW_S = 60
"""Seconds for which a `request_id` gets the same answer again: longer than any client tries."""

IDS_WINDOW_COUNT_MAX = 100_000
"""Answers that are kept for that; the oldest goes first."""

IDS_WINDOW_NUMBERS_MAX = 1_000_000
"""Numbers in these answers, about 100 MB: an answer may have a thousand. A long number counts as several."""

IDS_CLOCK_AHEAD_S_MAX = 3_600
"""Seconds that the wall clock may jump ahead; further and numbers are refused until an operator reloads."""

IDS_ZONES_MAX = 64
"""Time zones whose changes of local time are remembered, so that a reload needs not look for them again."""

IDS_RECORD_MAX = 255
"""Characters that a row has for what its rule looked like: about ten changes, then the rule needs another name."""

IDS_WIDTH_MAX = 64
"""Characters of a counter in a template: the largest has 63 in the smallest alphabet."""

IDS_LUA_INSTRUCTIONS_MAX = 1_000_000
"""Instructions of Lua for one number, some milliseconds: a rule without end can't stop the service."""

IDS_LUA_MEMORY_BYTES_MAX = 16_777_216
"""Bytes of memory of one Lua rule."""

IDS_STORE_RETRY_MS = 500
"""Milliseconds after a failed reservation in which requests are refused before the store is tried again."""

IDS_HTTP_PORT_DEFAULT = 11311
"""The TCP port of the ID service's HTTP, if it is served."""

IDS_HTTP_HEAD_BYTES_MAX = 16_384
"""Bytes of the first line and the fields of an HTTP request, and of its body."""

IDS_HTTP_CONNECTIONS_MAX = 500
"""HTTP connections at a time; further ones are told so and closed. Half of the usual limit of descriptors."""

IDS_HTTP_TIMEOUT_MS = 30_000
"""Milliseconds in which an HTTP request must have come whole, an idle connection included, and then be answered."""

IDS_HTTP_STOP_MS = 2_000
"""Milliseconds that HTTP clients have at a stop to take their last answer."""

IDS_HEALTH_MS = 1_000
"""Milliseconds for which a health check speaks for later ones: many can't load the database."""

IDS_CLIENT_TIMEOUT_MS = 500
"""Milliseconds that a client of the ID service waits for one node, unless told otherwise."""

IDS_CLIENT_ROUNDS = 3
"""How often a client of the ID service asks each node, unless told otherwise."""

IDS_RANGE_SIZE = 1_000
"""Numbers that a local range fetches at a time, unless told otherwise: one request."""

IDS_RANGE_LOW_PERCENT = 25
"""Percent of a local range that are left when the next is fetched."""

IDS_STORE_TIMEOUT_S = 5
"""Seconds that a database may take for an answer; then it counts as lost, and what waits is refused."""

IDS_STORE_LOCK_WAIT_S = 1
"""Seconds in which a start waits for a node's lock: a database needs a moment to see that a process has ended."""

IDS_STORE_BEAT_S = 2
"""Seconds between two questions whether the node is still ours."""

IDS_STORE_IDLE_S = 20
"""Seconds of silence after which a database gives the lock up of a node whose machine is gone: ten beats."""
