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

TUBES_PER_PAGE = 500
"""Tubes that are asked for at once: reading them takes 12 ms, in which nothing else is answered."""

TUBES_MAX = 1_000
"""Tubes that have metrics of their own; the others are added up."""

HISTOGRAM_TUBES_MAX = 100
"""Tubes that have histograms of their own: each of the three has 31 lines."""

CHARS_PER_SLICE = 65_536
"""Characters that are written before other requests are served: about a millisecond."""

GZIP_LEVEL = 6
"""How hard to compress: a scrape of 1 000 tubes becomes a fifteenth, within 20 ms."""

HTTP_HEAD_BYTES_MAX = 16_384
"""Bytes of a request's head."""

HTTP_CONNECTIONS_MAX = 200
"""Connections for HTTP at a time; a further one is closed at once."""

HTTP_REQUEST_S = 30
"""Seconds in which a connection must have brought its next request and taken the answer."""

HTTP_KEEP_ALIVE_S = 75
"""Seconds without a request after which a connection is closed: longer than most scrape intervals."""

HTTP_STOP_MS = 500
"""Milliseconds for answers that are under way when the console stops."""

HTTP_BACKLOG = 128
"""Connections that may wait to be accepted."""

NICE = 5
"""By how much a console that a server has started gives way to it."""

OOM_SCORE_ADJ = 500
"""What the kernel adds to the score of such a console when it must end a process for want of memory."""

NAME_CHARS_MAX = 100
"""Characters of the name of a server."""
