"""The limits of the console, with their reasons."""

FRESH_MS = 1_000
"""Milliseconds for which a sample serves: two Prometheus servers, and a person who looks, cost no more than one."""

ANSWER_MS = 1_000
"""Milliseconds that a server may be silent before it counts as away."""

SCRAPE_MS = 5_000
"""Milliseconds that a scrape waits for a sample, however busily the server answers: half of what Prometheus waits."""

IDLE_MS = 10_000
"""Milliseconds between samples when nobody asks."""

SILENCE_S = 10
"""Seconds after which a connection counts as broken: a server that hangs for less goes on on the same one."""

CONNECT_S = 2
"""Seconds that a connection may take."""

STREAMS_MAX = 100
"""Pages that are live at a time."""

STREAM_BEAT_S = 15
"""Seconds without news after which a live page hears that the console is there: proxies close what is silent for 30."""

STREAM_PATIENCE_S = 2
"""Seconds after which a live page says that the server does not answer; what it has asked goes on."""

STREAM_LIFE_S = 60
"""Seconds after which a live page must ask again, so that one whose token has gone does not go on."""

TUBES_PER_SLICE = 500
"""Tubes that are added up before anything else runs: about a millisecond."""

TUBES_MAX = 1_000
"""Tubes that have metrics of their own; the others are added up."""

HISTOGRAM_TUBES_MAX = 100
"""Tubes that have histograms of their own: each of the three has 31 lines."""

SEARCH_MS = 200
"""Milliseconds for which one request searches: then the page says how far it looked, and offers to go on."""

SEARCH_BYTES = 65_536
"""Bytes of each body that are searched."""

BODY_SHOWN_BYTES = 160
"""Bytes of a body from which a list shows the beginning."""

JOBS_PER_PIECE = 1_000
"""Jobs that are asked for at once where all are needed."""

BODIES_PER_PIECE = 100
"""The same with their bodies."""

BODY_TEXT_CHARS = 49_152
"""Characters of a body that a page shows: escaped, they are no more than 250 kB, and the page no more than 300 kB."""

HEX_BYTES = 8_192
"""Bytes of a body that a page shows as hex, in five times as many characters."""

JSON_BYTES_MAX = 1_048_576
"""Bytes of a body that is read as JSON: that takes some ten milliseconds, in which nothing else is answered."""

JSON_LEVELS = 64
"""Levels of nesting at which a body is no longer read as JSON."""

LIST_ATTEMPTS = 3
"""How often a job is looked for in the state that it had a moment ago."""

DOWNLOAD_BYTES_MAX = 67_108_864
"""Bytes of a body that may be downloaded: it is in memory as a whole, more than once."""

SEARCH_CHARS_MAX = 200
"""Characters of what is searched for."""

EXPORT_BYTES = 16_777_216
"""Bytes of each body in an export: of a longer one the line says that it is cut."""

TUBES_OFFERED = 100
"""Tubes of which one is offered to choose from."""

HIGHEST_STEP = 100
"""Jobs in which the search for the newest one ends."""

CHARS_PER_SLICE = 65_536
"""Characters that are written before other requests are served: about a millisecond."""

GZIP_LEVEL = 6
"""How hard to compress: a scrape of 1 000 tubes becomes a fifteenth, within 20 ms."""

HTTP_HEAD_BYTES_MAX = 16_384
"""Bytes of a request's head."""

HTTP_CONNECTIONS_MAX = 200
"""Connections for HTTP at a time; for a further one that is closed which has been idle for longest, if any is."""

HTTP_REQUEST_S = 30
"""Seconds in which a connection must have brought its next request and taken the answer."""

HTTP_UNREAD_BYTES_MAX = 16_384
"""Bytes that wait for a client to read before more is made for it: it finds the newest state, not those before it."""

HTTP_KEEP_ALIVE_S = 75
"""Seconds without a request after which a connection is closed: longer than most scrape intervals."""

HTTP_STOP_MS = 500
"""Milliseconds for answers that are under way when the console stops."""

HTTP_BACKLOG = 128
"""Connections that may wait to be accepted."""

TOKEN_CHARS_MIN = 16
"""Characters of a token: shorter ones could be guessed."""

TOKEN_CHARS_MAX = 256
"""Characters of a token."""

TOKEN_FILE_BYTES_MAX = 65_536
"""Bytes of the file of tokens."""

WRONG_TOKEN_S = 0.25
"""Seconds that the answer to a first wrong token waits; each further one twice as long."""

WRONG_TOKEN_S_MAX = 5
"""Seconds that it waits at most."""

WRONG_TOKEN_FORGOTTEN_S = 600
"""Seconds after which a wrong token is forgotten."""

WRONG_TOKEN_PEERS_MAX = 1_000
"""Peers whose wrong tokens are counted: the last ones."""

SESSION_S = 12 * 3600
"""Seconds after which one has to log in again."""

ENDED_SESSIONS_MAX = 10_000
"""Sessions of which is kept that they were ended: each takes about 200 bytes, and one needs a token to make one."""

COOKIE_CHARS_MAX = 300
"""Characters of a cookie that is looked at."""

LOGIN_BYTES_MAX = 4_096
"""Bytes of the form that logs in: anybody can send it."""

FORM_BYTES_MAX = 2 * 1024 * 1024
"""Bytes of any other form: a body of a job, escaped, or the IDs of a long list."""

FORM_FIELDS_MAX = 10_000
"""Fields of a form."""

NICE = 5
"""By how much a console that a server has started gives way to it."""

OOM_SCORE_ADJ = 500
"""What the kernel adds to the score of such a console when it must end a process for want of memory."""

NAME_CHARS_MAX = 100
"""Characters of the name of a server."""

LOOK_MS = 150
"""Milliseconds for which a page looks for jobs that failed, for held ones or for sessions: half of what it may take."""

FAILURES_PER_STEP = 1_000
"""Jobs that failed that are asked for at once, with their reasons: about 10 ms."""

ERROR_CHARS = 200
"""Characters of the first line of a reason that make a group."""

SAMPLE_IDS = 10
"""Jobs that a group names."""

FAILURES_PER_PAGE = 100
"""Groups, or jobs of a group, that a page shows."""

SESSIONS_LOOKED = 2_000
"""Sessions that one look takes: some 60 ms."""

SESSIONS_PER_STEP = 250
"""Sessions that are asked for at once: reading them takes 8 ms, in which nothing else is answered."""

HELD_MAX = 500
"""Held jobs that one look takes."""

HELD_IDS_NEAR = 20_000
"""Ids behind the newest one among which a look for held jobs begins: about a millisecond."""

TUBES_AT_ONCE = 20
"""Tubes whose held jobs are asked for at once, at the most."""

QUICK_MS = 10
"""Milliseconds within which such an answer came quickly: then twice as many are asked for at once."""
API_BODY_BYTES_MAX = 2_097_152
"""Bytes of the body of a request for the API: a hundred thousand ids, or the body of a job."""

API_TEXT_CHARS_MAX = 200
"""Characters that a search of the API may look for: as many as a page takes."""

API_BODY_SHOWN_BYTES = 1_048_576
"""Bytes of the body of a job that the API shows: it must fit the memory of the console, several times over."""

HELD_PER_PAGE = 100
"""Held jobs, or workers, that a page shows."""

SESSIONS_PER_PAGE = 100
"""Sessions that a page shows."""

ACTION_SAMPLE = 10
"""Jobs that a dry run shows."""

ACTION_IDS_MAX = 10_000
"""Jobs that can be chosen one by one: their ids fit into a form."""

ACTION_LOOK_S = 10
"""Seconds in which a dry run counts jobs that only a search finds: people wait for it."""

ACTION_TYPED_ABOVE = 1_000
"""Jobs above which an action begins only when their number was typed."""

ACTION_DRY_RUNS = 200
"""Dry runs that are remembered: only of these an action on a filter is begun."""

ACTION_RUNS = 100
"""Actions that are remembered."""

ACTIONS_AT_ONCE = 10
"""Actions that go on at a time."""

ACTION_STOP_S = 0.3
"""Seconds for the pieces that are under way when the console ends."""

ACTION_PIECE = 500
"""Jobs of a piece: to delete so many takes a server less than a millisecond."""

ACTION_RESERVED_PIECE = 100
"""Jobs of a piece whose bodies the server sends, as it does when one is reserved."""

ACTION_BODY_SHOWN_BYTES = 4_096
"""Bytes of a body that stand in a command line: nobody copies more."""

ACTION_BODY_BYTES = 16_777_216
"""Bytes of bodies in the dry runs that are remembered."""
