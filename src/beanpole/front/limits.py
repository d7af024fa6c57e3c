"""Every limit of a front, with its unit and its reason."""

OUT_BYTES_PAUSE = 262_144  # bytes on their way to the server above which no client is read: they can't fill our memory
OUT_BYTES_KEPT = 1_048_576  # capacity of the buffer for them that is kept when it is empty
YIELD_NS = 5_000_000  # how long new clients are left to the fronts that have fewer, before one is accepted all the same
DESCRIPTORS_RESERVED = 16  # file descriptors of a front that are no clients'
