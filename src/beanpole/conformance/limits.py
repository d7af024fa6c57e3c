"""Every limit of the conformance kit, each with its unit and its reason."""

SETTLE_S = 0.015
"""Seconds that a server is given to send what it must not send, or to notice a FIN.

Too short on a slow machine means that a mistake is found at a later line of the script, not a false alarm: servers
handle what happens to them in order.
"""
