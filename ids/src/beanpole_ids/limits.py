"""Every limit and default of the ID service and its client, each with its unit and its reason."""

PORT_DEFAULT = 11310
"""The UDP port of the ID service."""

REQUEST_BYTES_MAX = 20_459
"""Bytes of a request; a longer datagram is dropped and counted, as by the original."""

COUNT_MAX = 1_000
"""Numbers of one request."""

DEPTH_MAX = 100
"""Levels of lists and objects in a request; it is refused beyond, for each takes a part of the stack."""

FAILURE_LOG_S = 60
"""Seconds after the message that a request has failed in which further failures are only counted."""

REPLY_BYTES_MAX = 65_507
"""Bytes of a reply: what a datagram of IPv4 holds."""

SOCKET_BYTES = 20_971_520
"""Bytes of the socket's buffers that we ask the system for, as the original; and of replies that wait to be sent."""

RECEIVE_COUNT = 64
"""Datagrams that one system call receives or sends: as many cost little more for each than thousands would."""

RECEIVES_MAX = 128
"""Such calls in a turn: a flood is taken from the kernel faster than it comes, so that nobody waits there behind it."""

RECEIVE_US = 2_000
"""Microseconds after which no further call is made, or as many as the loop has taken for other work if that is more:
long datagrams take longer to receive."""

TURN_US = 1_000
"""Microseconds for which datagrams are served before the event loop serves the database and HTTP."""

FAIR_SHARE_US = 200
"""Microseconds for which a source is served when others wait; a fifth of a turn."""

FAIR_DEBT_MS_MAX = 5
"""Milliseconds by which a source can have had more than its share: one request may take longer than that."""

QUEUE_SOURCE_BYTES = 4_194_304
"""Bytes of requests that one source may have waiting, or twice as many from many ports: thousands of requests, which is
more than are served in half a second."""

QUEUE_BYTES = 16_777_216
"""Bytes of waiting requests that sources share; up to four times as much while their number grows."""

QUEUED_BYTES = 256
"""Bytes of memory that a waiting request takes besides its own."""

LATE_MS = 1_000
"""Milliseconds after which a datagram that has waited is dropped: its client waits no longer, and has sent another."""

ORIGINS_MAX = 4_096
"""Clients' addresses of which is remembered how they are written and whether they are trusted."""

OUTBOX_BYTES = 262_144
"""Bytes of replies that are sent by one call: as many as it sends of usual ones, and the longest has room."""

SWITCH_US = 200
"""Microseconds after which the thread of the store yields to the one that answers requests."""

NAME_BYTES_MAX = 255
"""Bytes of the name of a rule, and of an application: two of them are a key that MySQL can index."""

NUMBER_MAX = 2**63 - 1
"""The largest number of a counter: what databases store."""

LUA_NUMBER_MAX = 2**53
"""The largest number of a Lua rule: above it, Lua's numbers are not exact and two become one."""

STEP_MAX = 1_000_000
"""The largest step, so the most nodes."""

PROCESSES_MAX = 64
"""Processes of a node on one port: as many as large machines have cores. Each has a connection to the database."""

BATCH_DEFAULT = 1_000
"""Numbers that are reserved at a time, unless the rule says otherwise; a crash may leave half as many more as a gap."""

BATCH_CYCLE_PERCENT = 1
"""Percent of the numbers of a cycle that a batch has at the most, unless the rule says otherwise: a crash takes no
large part of a small one."""

BATCH_MAX = 1_000_000
"""The largest batch: half a second's numbers at the rate of large requests, so that a slow database holds up none."""

RESERVE_S_DEFAULT = 10
"""Seconds of time that numbers which begin with it reserve at once; and how far they may run ahead of the clock."""

RESERVE_S_MAX = 3_600
"""The most of them: after a crash, numbers show a time that is later than it is by as much."""

CRASH_PERCENT_MAX = 10
"""Percent of a cycle's numbers that a crash may leave as a gap without a warning of `beanpole-ids check`."""

LOW_WATER_PERCENT = 50
"""Percent of a batch that are left when the next one is fetched: time enough for a slow database."""

UNPROVEN_FACTOR = 3
"""How many times as long as its request a reply to an address may be that is not proven, as in QUIC (RFC 9000)."""

COOKIE_S = 3_600
"""Seconds after which a node makes other cookies; the last one of an address is good for as long again."""

SOURCES_CACHED = 4_096
"""Addresses of clients of which it is remembered whether a trusted network has them: looking takes microseconds."""

COMMON_CACHED = 1_000
"""Ranges, records and texts that are remembered, because counters have them in common: else each would make its own."""

LIMIT_RATE_MIN = 0.001
"""The least rate of a limit, in numbers a second; a quota is for less."""

LIMIT_MAX = 1_000_000_000
"""The largest rate and burst of a limit, in numbers: more than a node makes."""

LIMIT_NAMES_MAX = 100_000
"""Names that a limit tells apart at a time; further ones are refused, as a limit that forgot one would give more."""

RELOAD_TURN = 1_000
"""Counters that a reload checks before the event loop serves others: a millisecond."""

COUNTERS_MAX = 100_000
"""Counters in memory, and applications that share some; for further ones those are unloaded that were used longest
ago."""

EVICT_COUNT = 4_096
"""Counters that a search for those that were used longest ago finds: it takes about ten milliseconds, in a thread."""

THRASH_S = 60
"""Seconds after its last number in which a counter should stay in memory: `/health` warns if one did not."""

IDLE_S = 600
"""Seconds after its last number in which a counter stays in memory; then its unused range is given back."""

WAITING_MAX = 10_000
"""Requests that wait for a reservation; further ones are refused."""

WAITING_SOURCE_MAX = 5_000
"""Those of one IP address among them, so that no client takes the places of all."""

NEW_NAMES_PER_S = 100
"""Names a second that an IP address may use first, unless the configuration says otherwise: in `IDLE_S`, and with
what it may do at once, it takes less than two thirds of the memory for counters from others."""

NEW_NAMES_BURST_S = 20
"""Seconds of them that it may use at once, so that thousands of applications can begin together."""

WAITING_TURN = 32
"""Requests that had waited and are served before the event loop does other work: a millisecond or two."""

WAITING_NUMBERS = 100
"""Numbers that take as long as another request."""

ROUND_ROWS = 256
"""Rows of a transaction, some milliseconds: what wants the database next waits for it."""

STOP_ROWS = 8_192
"""Rows of a transaction when a service stops, and nobody waits: a fraction of a second."""

ROUND_ROWS_NEW = 64
"""Those of them that are for counters without a range, however many are in use."""

WINDOW_S = 60
"""Seconds for which a `request_id` gets the same answer again: longer than any client tries."""

WINDOW_COUNT_MAX = 100_000
"""Answers that are kept for that; the oldest goes first."""

WINDOW_NUMBERS_MAX = 1_000_000
"""Numbers in these answers, about 100 MB: an answer may have a thousand. A long number counts as several."""

CLOCK_AHEAD_S_MAX = 3_600
"""Seconds that the wall clock may jump ahead; further and numbers are refused until an operator reloads."""

ZONES_MAX = 64
"""Time zones whose changes of local time are remembered, so that a reload need not search for them again."""

RECORD_MAX = 255
"""Characters that a row has for what its rule looked like: about ten changes, then the rule needs another name."""

WIDTH_MAX = 64
"""Characters of a counter in a template: the largest has 63 in the smallest alphabet."""

LUA_MS_MAX = 100
"""Milliseconds of CPU for the numbers of a request in Lua; then its process is ended, whatever it does."""

LUA_TURN_MS = 10
"""Milliseconds of CPU after which the process of rules in Lua turns to another rule."""

LUA_AHEAD_MS = 2
"""Milliseconds for numbers in Lua that are made ahead, or together with others: nobody may ask for them."""

LUA_AHEAD_MAX = 1_000
"""Texts of a rule in Lua that are made ahead at a time; they are lost when the second is over."""

LUA_CALLS_MAX = 16
"""Counters of a rule in Lua for which numbers are made at a time, and requests of each of them."""

LUA_WAIT_MS = 1_000
"""Milliseconds that a request waits for a rule in Lua: its client waits no longer."""

LUA_TIMEOUT_S = 5
"""Seconds after which the process of rules in Lua is ended if it does not answer, as one that is frozen."""

LUA_START_TIMEOUT_S = 60
"""Seconds that a configuration which is read waits for that process, which may have to start on a busy machine."""

LUA_TRIED_CALLS = 256
"""Calls of a rule in Lua in a message while it is tried."""

LUA_START_MS = 200
"""Milliseconds between two starts of the process of rules in Lua, at least: a rule that it is ended for again and again
must not take all of a core."""

LUA_CODE_BYTES_MAX = 65_536
"""Bytes of the code of a rule in Lua, which is sent to the process in one piece."""

LUA_REPLY_BYTES_MAX = 131_072
"""Bytes of a reply of that process: the largest numbers, and as many again for what JSON escapes."""

LUA_SOCKET_BYTES = 1_048_576
"""Bytes of the largest message to it or from it that is received."""

LUA_MEMORY_BYTES_MAX = 4_194_304
"""Bytes of memory of one Lua rule, half of which it may keep. One instruction of Lua may copy all of it."""

SALT_BYTES_MAX = 255
"""Bytes of the salt of a request: it becomes a part of a number, and rules in Lua may search it."""

AUDIT_WAITING_MAX = 1_000
"""Transactions whose lines wait for the disk of the audit log; those of further ones are lost."""

AUDIT_STOP_S = 2
"""Seconds that a stop waits for the disk of the audit log."""

STORE_RETRY_MS = 500
"""Milliseconds after a failed reservation in which requests are refused before the store is tried again."""

DESCRIPTORS = 4_096
"""Open files that are asked for: connections over HTTP, those that wait to be let in, and some more."""

HTTP_PORT_DEFAULT = 11311
"""The TCP port of the ID service's HTTP, if it is served."""

HTTP_BACKLOG = 1024
"""HTTP connections that the kernel queues before they are accepted."""

HTTP_HEAD_BYTES_MAX = 16_384
"""Bytes of the first line and the fields of an HTTP request, and of its body."""

HTTP_CONNECTIONS_MAX = 500
"""HTTP connections at a time; for a further one that is closed which has waited longest for its client. Half of the
usual limit of descriptors."""

HTTP_CONNECTIONS_PER_SOURCE_DEFAULT = 100
"""Connections of one client's address at a time, unless the configuration says otherwise; a proxy is one, too."""

HTTP_EXTRA_MAX = 20
"""Connections above these limits at a time, which get an answer only from /health and /metrics."""

HTTP_HEAD_MS = 5_000
"""Milliseconds from the first byte of an HTTP request, or from a new connection, to the end of the request's head."""

HTTP_TIMEOUT_MS = 30_000
"""Milliseconds in which a body must have come whole, a request be answered, and an idle connection be used again."""

HTTP_STOP_MS = 2_000
"""Milliseconds that HTTP clients have at a stop to take their last answer."""

HTTP_PAGE_DEFAULT = 100
"""Counters of a page of a list, unless the client asks for another number."""

HTTP_PAGE_MAX = 1_000
"""The most of them."""

HTTP_PAGES_WAITING_MAX = 128
"""Requests for metrics and lists that wait: they are answered one at a time."""

HTTP_HANDOVER_MAX = 1_000
"""Requests over HTTP that wait for the loop of the service: more than there are connections."""

HEALTH_MS = 1_000
"""Milliseconds for which a health check speaks for later ones: many can't load the database."""

STORE_TIMEOUT_S = 5
"""Seconds that a database may take for an answer; then it counts as lost, and what waits is refused."""

STORE_START_WAIT_S = 300
"""Seconds in which a start waits for a database that is away: as long as one needs to recover from a crash."""

STORE_START_RETRY_S = 2
"""Seconds between two attempts of such a start."""

STORE_LOCK_WAIT_S = 1
"""Seconds in which a start waits for a node's lock: a database needs a moment to see that a process has ended."""

SEMI_SYNC_TIMEOUT_MS_MIN = 86_400_000
"""Milliseconds that a commit of MariaDB or MySQL waits for its replica, at least: a day, in which somebody looks."""

STORE_BEAT_S = 2
"""Seconds between two questions whether the node is still ours."""

STORE_IDLE_S = 20
"""Seconds of silence after which a database gives the lock up of a node whose machine is gone: ten beats."""

CLIENT_TIMEOUT_MS = 500
"""Milliseconds that a client waits for one node, by default."""

CLIENT_ROUNDS = 3
"""How often a client asks each node, by default."""

COOKIE_CHARACTERS_MAX = 64
"""Characters of a cookie that a client sends back: those of a node have 16."""

RANGE_SIZE = 1_000
"""Numbers that a local range fetches at a time, by default: one request."""

RANGE_LOW_PERCENT = 25
"""Percent of a local range that are left when the next is fetched."""

COMMAND_TIMEOUT_S = 30
"""Seconds that a node may take to answer a command over HTTP: a reload reads every rule."""

COMMAND_PAGE = 500
"""Counters that a command asks a node for at a time: it answers others in between."""

PROCESS_STEADY_S = 10
"""Seconds after which the end of one of several processes is no failure to start: another begins at once."""

PROCESS_RESTART_S_MAX = 30
"""Seconds between the end of a process that fails again and again and its next start; the first pause is 1."""
