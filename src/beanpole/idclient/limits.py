"""Every limit and default of the client of the ID service, each with its unit and its reason."""

TIMEOUT_MS = 500
"""Milliseconds that a client of the ID service waits for one node, by default."""

ROUNDS = 3
"""How often a client of the ID service asks each node, by default."""

COOKIE_CHARACTERS_MAX = 64
"""Characters of a cookie that a client of the ID service sends back: those of a node have 16."""

RANGE_SIZE = 1_000
"""Numbers that a local range fetches at a time, by default: one request."""

RANGE_LOW_PERCENT = 25
"""Percent of a local range that are left when the next is fetched."""
