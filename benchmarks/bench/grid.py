"""The full grid: connections × in flight × body, and from its middle the sweeps over tubes and over reserved jobs.

The sweeps are not multiplied with the bodies: what a tube or a reservation costs does not depend on what a job carries.
"""

from itertools import product

from benchmarks.bench.plan import Figure, Group, Row, Scenario

CONNECTIONS = (1, 50, 1_000)
IN_FLIGHT = (1, 16, 100)
BODY_BYTES = (8, 100, 1_024, 8_192, 65_000)
TUBES = (1, 1_000, 10_000, 100_000)
HELD = (1, 100, 10_000, 100_000)

BYTES_IN_FLIGHT_MAX = 1 << 30
"""Cells that would have more body bytes than this between client and server at once are left out."""


def row(name: str, title: str, group: Group, figure: Figure = "cpu_us") -> Row:
    """A row of one group."""
    return Row(f"grid-{name}", f"put+reserve+delete{title}", figure, Scenario(groups=(group,)))


ROWS = (
    *(
        row(
            f"{connections}x{in_flight}-body-{body}",
            f", {connections} connections, {in_flight} in flight, {body} bytes",
            Group(connections=connections, in_flight=in_flight, body_bytes=body),
        )
        for connections, in_flight, body in product(CONNECTIONS, IN_FLIGHT, BODY_BYTES)
        if connections * in_flight * body <= BYTES_IN_FLIGHT_MAX
    ),
    # 50 connections that use and watch so many tubes between them: each names the next tube before a batch of puts.
    *(
        row(
            f"tubes-{count}x{in_flight}",
            f" over {count} tubes, 50 connections, {in_flight} in flight",
            Group(connections=50, in_flight=in_flight, tubes=count),
        )
        for count, in_flight in product(TUBES, IN_FLIGHT)
    ),
    # One connection that holds so many reserved jobs and deletes the oldest.
    *(
        row(
            f"held-{count}x{in_flight}",
            f" with {count} reserved, 1 connection, {in_flight} in flight",
            Group(connections=1, in_flight=in_flight, held=count),
            "cpu_delete_us",
        )
        for count, in_flight in product(HELD, IN_FLIGHT)
    ),
)
