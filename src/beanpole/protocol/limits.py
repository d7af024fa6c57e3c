"""Every limit of the protocol's lines and of the memory for them, with its unit and its reason."""

ALPN = "beanstalk"
"""What the protocol is called in the handshake of TLS, so that neither side takes one of another for it (ALPACA)."""

LINE_BYTES_MAX = 224
"""Bytes of a command line with its CRLF. Longer lines are swallowed and answered with ``BAD_FORMAT``."""

EXTENSION_LINE_BYTES_MAX = 8_192
"""Bytes of the line of an extension with its CRLF: 400 ids of 20 digits."""

KEY_BYTES_MAX = 200
"""Bytes of a job's key, as many as a tube's name may have."""

META_BYTES_MAX = 1_024
"""Bytes of a job's headers as they are written: a trace with its state, and some words more."""

META_PAIRS_MAX = 16
"""Headers of a job."""

SESSION_NAME_BYTES_MAX = 200
"""Bytes of what a session is called, as many as a tube's name may have."""

TEXT_BYTES_MAX = 1_024
"""Bytes of the reason for a failure."""

RULES_BYTES_MAX = 4_096
"""Bytes of the rules of a tube."""

DOCUMENT_BYTES_MAX = 16_384
"""Bytes of the document of a schedule: it goes on firing when who set it is gone, so this bounds what one leaves."""

REPLY_LINE_BYTES_MAX = 8_704
"""Bytes of a reply's line with its CRLF; the longest that servers send is DELETED with the ids of a line of 8 192."""

FRAMES_MAX = 1_000
"""Jobs in one reply: what reserve-many and list-jobs may be asked for."""

OUTPUT_BYTES_KEPT = 16_384
"""Capacity of a reply buffer that a connection keeps when it is empty; a larger one is given back."""

INPUT_BYTES_KEPT = 4_096
"""Capacity of an input buffer that a connection keeps when it is empty; a larger one is given back."""

KEEP_S_MAX = 600  # seconds for which a session that lost its connection may keep its jobs
TOKEN_BYTES = 32  # of a session's token: 128 bits in hex digits

ONCE_BYTES_MAX = 64  # of the token of a put that is done once
ONCE_S_DEFAULT = 300  # for how long it counts
ONCE_S_MAX = 86_400
"""Seconds for which such a token counts: who tries again does so sooner, and each second keeps a put's in memory."""

EXPIRE_S_MIN = 0.001
"""Seconds of a time to wait that are left at least when a job is put late: the rules count one whose time is over."""

LINK_DATA_BYTES_MAX = 65_536  # of a frame of DATA
LINK_OPEN_BYTES_MAX = 1_024  # of what a front says of a client
LINK_LINE_BYTES_MAX = 512  # of a first line with its CRLF; a front's own are shorter
LINK_ROOM_BYTES = 262_144
"""Bytes that a channel may have under way at first: what an end keeps at most for a client that can't go on."""

LINK_ROOM_BYTES_LEAST = 65_536  # bytes that have left an end's hands when it must say so
LINK_ROOM_BYTES_MAX = 2**31 - 1
LINK_CHANNELS_MAX = 1_048_575  # an end's table is as long as the greatest number of a channel
LINK_READ_BYTES = 262_144  # that an end reads of a link at once
LINK_SILENCE_S = 1  # of a link on which nothing comes: then its end is asked for a sign of life
LINK_SILENCES_MAX = 3  # such times without any sign after which a link ends
LINK_UNSENT_MS = 1_000 * LINK_SILENCE_S * LINK_SILENCES_MAX  # that bytes may wait for an answer of the other machine
LINK_FIRST_SILENCES_MAX = 30  # the same before the first line: a front is being started
