"""The limits and defaults of the ID service and its client that users meet, or that several modules share.

docs/limits.md has those that users meet. One that a single module needs is a constant of that. The compiled modules
copy what they need when they are imported.
"""

# --- Requests ---------------------------------------------------------------------------------------------------------

PORT_DEFAULT = 11310  # UDP
REQUEST_BYTES_MAX = 20_459  # a longer datagram is dropped and counted, as by the original
REPLY_BYTES_MAX = 65_507  # what a datagram of IPv4 holds
COUNT_MAX = 1_000  # numbers of a request
DEPTH_MAX = 100  # levels of lists and objects in a request: each takes a part of the stack
NAME_BYTES_MAX = 255  # of the name of a rule, and of an application: two of them are a key that MySQL can index
SALT_BYTES_MAX = 255  # it becomes a part of a number, and rules in Lua may search it
WINDOW_S = 60  # for which a `request_id` gets the same answer again: longer than any client tries
WINDOW_COUNT_MAX = 100_000  # answers that are kept for that; the oldest goes first
WINDOW_NUMBERS_MAX = 1_000_000  # numbers in these answers, about 100 MB: of many or long ones, 100 bytes count as one

# --- Rules and counters -----------------------------------------------------------------------------------------------

NUMBER_MAX = 2**63 - 1  # of a counter: what databases store
LUA_NUMBER_MAX = 2**53  # of a counter of a rule in Lua: above it two of Lua's numbers become one
WIDTH_MAX = 64  # characters of a counter in a template: the largest has 63 in the smallest alphabet
STEP_MAX = 1_000_000  # so the most nodes
PROCESSES_MAX = 64  # of a node on one port: as many as large machines have cores
BATCH_DEFAULT = 1_000  # numbers that are reserved at a time; a crash may leave half as many more as a gap
BATCH_CYCLE_PERCENT = 1  # of a cycle's numbers in a batch by default: a crash takes no large part of a small cycle
BATCH_MAX = 1_000_000  # half a second's numbers at the rate of large requests, so a slow database holds up none
LOW_WATER_PERCENT = 50  # of a batch left when the next one is fetched: time enough for a slow database
RESERVE_S_DEFAULT = 10  # seconds of time that numbers which begin with it reserve at once, and may run ahead
RESERVE_S_MAX = 3_600  # after a crash numbers show a time that is later than it is by as much
CRASH_PERCENT_MAX = 10  # of a cycle's numbers that a crash may cost without a warning of `beanpole-ids check`
CLOCK_AHEAD_S_MAX = 3_600  # that the wall clock may jump ahead; then an operator must reload
RECORD_MAX = 255  # characters of a row for what its rule looked like
COUNTERS_MAX = 100_000  # counters in memory; for further ones those are unloaded that were used longest ago
IDLE_S = 600  # after its last number, a counter is unloaded and its unused range given back
THRASH_S = 60  # a counter that is unloaded sooner to make room makes `/health` warn
COMMON_CACHED = 1_000  # ranges, records and texts that many counters share in memory

LUA_MS_MAX = 100  # of CPU for the numbers of a request in Lua; then its process is ended, whatever it does
LUA_WAIT_MS = 1_000  # that a request waits for a rule in Lua: its client waits no longer
LUA_CALLS_MAX = 16  # counters of a rule for which Lua makes numbers at a time, and requests of each of them
LUA_CODE_BYTES_MAX = 65_536  # of a rule in Lua, which is sent to the process in one piece
LUA_MEMORY_BYTES_MAX = 4_194_304  # of one rule, half of which it may keep; one instruction may copy all of it
LUA_SOCKET_BYTES = 1_048_576  # of the largest message to or from the process of rules in Lua

# --- Crowds -----------------------------------------------------------------------------------------------------------

SOCKET_BYTES = 20_971_520  # of the socket's buffers, as the original, and of replies that wait to be sent
RECEIVE_COUNT = 64  # datagrams of one system call: as many cost little more for each than thousands would
TURN_US = 1_000  # for which datagrams are served before the event loop serves the database and HTTP
QUEUE_SOURCE_BYTES = 4_194_304  # waiting requests of a source (thousands, half a second); twice as many from many ports
QUEUE_BYTES = 16_777_216  # of waiting requests of all sources; up to four times as much while their number grows
LATE_MS = 1_000  # after which a datagram that has waited is dropped: its client has sent another
WAITING_MAX = 10_000  # requests that wait for a reservation; further ones are refused
WAITING_SOURCE_MAX = 5_000  # those of one IP address among them, so that no client takes the places of all
RELOAD_TURN = 1_000  # counters that a reload checks before the event loop serves others: a millisecond
UNPROVEN_FACTOR = 3  # how many times as long as its request a reply to an unproven address may be (as QUIC, RFC 9000)
COOKIE_S = 3_600  # after which a node makes other cookies; the last one of an address is good for as long again
NEW_NAMES_PER_S = 100  # that an IP address may use first: in `IDLE_S` less than two thirds of the counters in memory
NEW_NAMES_BURST_S = 20  # of them at once, so that thousands of applications can begin together
LIMIT_RATE_MIN = 0.001  # numbers a second; a quota is for less
LIMIT_MAX = 1_000_000_000  # the largest rate and burst of a limit, in numbers: more than a node makes
LIMIT_NAMES_MAX = 100_000  # that a limit tells apart; further ones are refused, as a limit that forgot gives more

# --- The database, and files ------------------------------------------------------------------------------------------

ROUND_ROWS = 256  # of a transaction, some milliseconds: what wants the database next waits for it
STORE_RETRY_MS = 500  # after a failed reservation, in which requests are refused
STORE_TIMEOUT_S = 5  # for an answer of a database; then it counts as lost
STORE_BEAT_S = 2  # between two questions whether the node is still ours
STORE_IDLE_S = 20  # of silence after which a database gives up the lock of a lost machine: ten beats
STORE_LOCK_WAIT_S = 1  # for a node's lock: a database needs a moment to see that a process has ended
STORE_START_WAIT_S = 300  # that a start waits for a database that is away, as one that recovers from a crash
SEMI_SYNC_TIMEOUT_MS_MIN = 86_400_000  # that a commit of MariaDB or MySQL waits for its replica: a day
AUDIT_WAITING_MAX = 1_000  # transactions that wait for the disk of the audit log; lines of further ones are lost
AUDIT_STOP_S = 2  # that a stop waits for that disk

# --- HTTP -------------------------------------------------------------------------------------------------------------

HTTP_PORT_DEFAULT = 11311  # TCP
HTTP_HEAD_BYTES_MAX = 16_384  # of the first line and the fields of a request, and of its body
HTTP_CONNECTIONS_MAX = 500  # half of the usual limit of descriptors; a further one takes the place of the idlest
HTTP_CONNECTIONS_PER_SOURCE_DEFAULT = 100  # of one client's address at a time; a proxy is one, too
HTTP_HEAD_MS = 5_000  # from the first byte of a request, or a new connection, to the end of the request's head
HTTP_TIMEOUT_MS = 30_000  # for a body, for an answer, and for which a connection may be idle
HTTP_PAGE_DEFAULT = 100  # counters of a page of a list
HTTP_PAGE_MAX = 1_000

# --- The client and the commands --------------------------------------------------------------------------------------

CLIENT_TIMEOUT_MS = 500  # that a client waits for one node, by default
CLIENT_ROUNDS = 3  # how often it asks each node, by default
RANGE_SIZE = 1_000  # numbers that a local range fetches at a time, by default: one request
RANGE_LOW_PERCENT = 25  # of a local range that are left when the next is fetched
COMMAND_TIMEOUT_S = 30  # for an answer to a command over HTTP: a reload reads every rule
