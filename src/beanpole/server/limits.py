"""Every limit of the server's turns, connections and start, with its unit and its reason.

The costs are what commands took on the machine of docs/performance.md, generously: `python -m benchmarks.costs` prints
both. They are weights, not times: nothing reads a clock to bound a turn, so that the same input makes the same turns
everywhere, and a slower machine has longer ones.
"""

# --- Connections ------------------------------------------------------------------------------------------------------

CONNECTIONS_MAX = 2**31 - 1  # unless `--connections-max` says fewer: as many as there are file descriptors for
BACKLOG = 1024  # connections that the kernel queues before we accept them; clients that all connect at once need it
ACCEPT_RETRY_NS = 1_000_000_000  # how long accepting pauses without a free descriptor, unless a connection closes
ACCEPT_REPORT_NS = 60_000_000_000  # how long a log line about that keeps others like it away: clients must not flood it
OUTPUT_BYTES_PAUSE = 1_048_576  # unsent bytes at which a connection's commands stop: they can't fill our memory
LINGER_S = 0.05  # a process that was killed has closed all its sockets by then, also where others want the processor
FIRST_LINE_BYTES_MAX = 224  # bytes of the first line of a client that has not shown who it is
STRANGER_S = 10  # seconds in which it has to
STRANGERS_PART = 4  # at most one place for clients in so many is a stranger's
CLOSED_PER_TURN = 40  # of these that are closed in one turn: 1.5 ms
LINES_PER_TURN = 16  # of the log that are written of many: 1 ms
LOOKED_AT_PER_TURN = 250  # connections that are asked in one turn whose they are by new files: 1.5 ms
FRONT_SLOT = 8  # numbers of a front in the memory that fronts share: a line of the processor's cache
FRONTS_MAX = 64  # fronts that have a line of it: what a page has
FRONT_HANDSHAKES = FRONTS_MAX * FRONT_SLOT  # the first of a front's numbers of handshakes there, for each outcome one
FRONT_REREADS = 2_047  # the one of how often certificates were read again
FRONT_MEMORY_BYTES = 16_384  # of all that
CLUSTER_WAIT_S = 10  # seconds that a node keeps clients which it can't serve: then they may find a better one

# Memory is taken from the heap in blocks of up to so many bytes; a larger one is mapped, and faults in page by page.
HEAP_BLOCK_BYTES_MAX = 4_194_304
# Free bytes at the heap's end that stay with the process, so that buffers for large bodies don't come and go.
HEAP_BYTES_KEPT = 33_554_432

# --- A turn -----------------------------------------------------------------------------------------------------------

EVENTS_PER_TURN = 512  # sockets that one turn serves; with more ready, the rest waits for the next turn
ACCEPTS_PER_TURN = 64  # connections accepted in one turn, so that a flood of them can't starve those that are there
RECEIVE_BYTES_PER_TURN = (
    131_072  # of one connection: two bodies of the default limit, so bulk does not delay the others
)
RECEIVE_BYTES_FIRST = 66_560  # of one that is served first: a body of the default limit must not cost two reads
TURN_COST_NS = 4_000_000  # of the commands over all connections: about what a quiet client waits at most
SHARE_COST_NS = 300_000  # of the commands of one connection in a turn: about a thousand commands in one packet
PART_COST_NS = 100_000  # of the commands of one user in a turn, where several have something to run
SHARED_TURNS = 64  # turns that keep such parts after several users had something to run: a waiting client soon has more
LIGHT_COST_NS = 30_000  # the share of a new connection, and of one that used less; it is served before the others
SLOW_TURN_NS = 50_000_000  # a turn that takes so long is reported: more than ten times what its commands may cost

LINK_OUTPUT_BYTES = 262_144  # unsent at which the channels of a link wait: about what the kernel takes at once
LINK_CHANNELS_AHEAD = 1_024  # numbers of channels that a user's link may leave out: each takes memory up to the highest
LINK_STOP_NS = 1_000_000_000  # how long a stop waits at most for a front to take the last replies
LINK_OUTPUT_BYTES_MAX = 67_108_864  # unsent of a link whose front reads nothing: what a million channels need to end

# --- Handshakes of TLS ------------------------------------------------------------------------------------------------

TLS_HANDSHAKE_S = 5  # from accept to the end of a handshake: a client far away needs three times a way of 0.3 s
EXPIRED_PER_TURN = 64  # of these that are closed in one turn: 1 ms
TLS_HANDSHAKES_MAX = 256  # that have begun: each takes some 50 kB until it has ended
TLS_HANDSHAKES_AHEAD = 4  # given to the thread at once: it need not wait for a turn, and a newcomer not long for these
TLS_HELLO_BYTES_MAX = 16_384  # of a ClientHello: today's have up to 2 000
TLS_HELLO_RECORDS_MAX = 8  # in which it comes: one, but for those who cut it to get past what looks at names
TLS_HANDSHAKE_BYTES_MAX = 65_536  # of all that comes before the end of a handshake: a chain of certificates has 10 000
TLS_PATIENCE_NS = 1_000_000_000  # how long a client that was asked keeps others of its own source waiting

# --- What it costs ----------------------------------------------------------------------------------------------------

SERVE_COST_NS = 4_000  # to serve a connection at all: one receive and one send
WATCH_COST_NS = (
    20  # for each watched tube of a reserve that looks at them all, with a hundred clients; with one, a third
)
CANCEL_COST_NS = 25  # for each watched tube of a cancel-reserve: a place in each line ends
MOVED_COST_NS = 300  # for each job of a command that moves many, such as a kick
TLS_RECORD_BYTES_MAX = 5 + 16_384 + 2_048  # its header, and what stands behind that at most (RFC 5246, 6.2.3)
TLS_PIECE_BYTES = 6_144  # that a buffer of OpenSSL is given at once; it takes a third more, twice for a connection
TLS_AHEAD_BYTES_MAX = 65_536  # bytes that are read of a client that waits in reserve, to see whether it has ended
TLS_UNSENT_BYTES_MAX = 131_072  # of ciphertext: replies are half of it at most, the rest answers to KeyUpdates
TLS_RECORD_COST_NS = 4_000  # to decrypt a record, whatever it holds, and as a rule to encrypt one that answers it
LINK_RECORDS_COST_NS = 1_000_000  # of the records of all links that are decrypted in a turn
TLS_UPDATE_COST_NS = 60_000  # to take a KeyUpdate, and to answer it
INPUT_BYTE_COST_NS = 3  # with a hundred clients that send large bodies, by what others wait; with one, a third
SEND_BYTE_COST_NS = 1  # the kernel takes a megabyte in about a millisecond
OUTPUT_COST_SHIFT = 2  # 2^2 bytes of output for a nanosecond: they are copied twice, from memory that is in use
