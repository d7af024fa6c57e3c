"""The limits and defaults of the worker, each with its unit and its reason."""

CANCEL_MS = 1_000
"""Milliseconds that a cancelled or killed handler has for its end until its job is given back."""
