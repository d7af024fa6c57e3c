"""Every limit of a front, with its unit and its reason."""

OUT_BYTES_PAUSE = 262_144  # bytes on their way to the server above which no client is read: they can't fill our memory
QUEUE_BYTES = 1_048_576  # of those who have sent something new: the more they are, the less is read of each at once
PIECE_BYTES_LEAST = 4_096  # that is read at once of each of very many
OUT_BYTES_KEPT = 1_048_576  # capacity of the buffer for them that is kept when it is empty
YIELD_NS = 5_000_000  # how long new clients are left to the fronts that have fewer, before one is accepted all the same
DESCRIPTORS_RESERVED = 16  # file descriptors of a front that are no clients'

# --- The way to a server ----------------------------------------------------------------------------------------------

LINK_OPEN_S = 2.0  # that connecting and the first lines may take: longer than one lost packet costs
LINK_RETRY_S = 0.025  # from the end of a link, or from an address that has none, to the next try: the first time
LINK_RETRY_S_MAX = 2.0  # and at most, doubled each time; a link that has held for so long begins again with the first
WAIT_S = 10.0  # that a client waits for a server, before it is closed
DRAIN_S = 60.0  # that clients may take to finish when a router stops

# --- A router of several shards ---------------------------------------------------------------------------------------

EMPTY_NS = 10_000_000  # how long a shard that had no job is asked last
KEPT_JOBS_MAX = 400  # ids in a reply to keep-session, as many as of one server: they fit a line
KEPT_WAIT_NS = (
    5_000_000_000  # that keep-session waits for shards that are away, as they may have jobs: a fail-over, a start
)
PAGE_BYTES = 262_144  # of bodies in a list of jobs, and of a list of sessions: a page ends there, as a server's does
MOVES_PER_TURN = 250  # watched tubes that are looked up in a turn after the map has changed: some milliseconds
