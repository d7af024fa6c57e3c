"""The full grid: connections × in flight × body, and from its middle the sweeps over tubes and over reserved jobs.

The sweeps are not multiplied with the bodies: what a tube or a reservation costs does not depend on what a job carries.
"""

from beanpole.bench.plan import Group, Row, Scenario

CONNECTIONS = (1, 50, 1_000)
IN_FLIGHT = (1, 16, 100)
BODY_BYTES = (8, 100, 1_024, 8_192, 65_000)
TUBES = (1, 1_000, 10_000, 100_000)
HELD = (1, 100, 10_000, 100_000)

BYTES_IN_FLIGHT_MAX = 1 << 30
"""Cells that would have more body bytes than this between client and server at once are left out."""


def plain() -> list[Row]:
    """Connections × in flight × body."""
    return [
        Row(
            f"grid-{connections}x{in_flight}-body-{body}",
            f"put+reserve+delete, {connections} connections, {in_flight} in flight, {body} bytes",
            "cpu_us",
            Scenario(groups=(Group(connections=connections, in_flight=in_flight, body_bytes=body),)),
            table="grid",
        )
        for connections in CONNECTIONS
        for in_flight in IN_FLIGHT
        for body in BODY_BYTES
        if connections * in_flight * body <= BYTES_IN_FLIGHT_MAX
    ]


def tubes() -> list[Row]:
    """50 connections that use and watch so many tubes between them: each names the next tube before a batch of puts."""
    return [
        Row(
            f"grid-tubes-{count}x{in_flight}",
            f"put+reserve+delete over {count} tubes, 50 connections, {in_flight} in flight",
            "cpu_us",
            Scenario(groups=(Group(connections=50, in_flight=in_flight, tubes=count),)),
            table="grid",
        )
        for count in TUBES
        for in_flight in IN_FLIGHT
    ]


def held() -> list[Row]:
    """One connection that holds so many reserved jobs and deletes the oldest."""
    return [
        Row(
            f"grid-held-{count}x{in_flight}",
            f"put+reserve+delete with {count} reserved, 1 connection, {in_flight} in flight",
            "cpu_delete_us",
            Scenario(groups=(Group(connections=1, in_flight=in_flight, held=count),)),
            table="grid",
        )
        for count in HELD
        for in_flight in IN_FLIGHT
    ]


ROWS = (*plain(), *tubes(), *held())
