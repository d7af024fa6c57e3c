"""What is done at once: a put, and what is about a tube or the rules of a pattern."""

from collections.abc import Mapping
from typing import Any

from beanpole.operations.plan import Plan, ask

Given = Mapping[str, Any]


def put(tube: str, given: Given) -> Plan[int]:
    """Put a job. What nobody has asked for is not sent, so that any server takes a plain put."""
    options = {name: value for name, value in given.items() if value is not None and name != "body"}
    if (delay := options.get("delay", 0)) % 1 == 0:
        options["delay"] = int(delay)
    id: int = yield from ask(lambda client: client.put(given["body"], tube=tube, **options))
    return id


def pause(tube: str, given: Given) -> Plan[None]:
    """Keep the jobs of a tube from being reserved."""
    yield from ask(lambda client: client.pause_tube(tube, given["seconds"]))


def resume(tube: str, _: Given) -> Plan[None]:
    """End a pause."""
    yield from ask(lambda client: client.pause_tube(tube, 0))


def set_rules(pattern: str, given: Given) -> Plan[None]:
    """Set the rules of a pattern, in place of those that it has."""
    yield from ask(lambda client: client.set_rules(pattern, given["rules"]))


def drop_rules(pattern: str, _: Given) -> Plan[None]:
    """Drop the rules of a pattern."""
    yield from ask(lambda client: client.drop_rules(pattern))
