"""Every limit of the protocol's lines and of the memory for them, with its unit and its reason."""

LINE_BYTES_MAX = 224
"""Bytes of a command line with its CRLF. Longer lines are swallowed and answered with ``BAD_FORMAT``."""

REPLY_LINE_BYTES_MAX = 512
"""Bytes of a reply's line with its CRLF; the longest that servers send has 210: USING and a tube."""

OUTPUT_BYTES_KEPT = 16_384
"""Capacity of a reply buffer that a connection keeps when it is empty; a larger one is given back."""

INPUT_BYTES_KEPT = 4_096
"""Capacity of an input buffer that a connection keeps when it is empty; a larger one is given back."""
