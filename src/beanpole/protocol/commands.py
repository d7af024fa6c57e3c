"""A command: what one client asked for, decoded.

The decoder fills a command in and the engine reads it; neither keeps it, so one object serves a whole connection. Its
pointers lead into the decoder's input and are good until the decoder is called again, unless :meth:`Command.own` made a
copy. The fields stand in ``commands.pxd``.
"""

import cython
from cython.cimports.beanpole.protocol.extensions import Kind, bit, named
from cython.cimports.libc.stdint import uint64_t

from beanpole.protocol.extensions import ACCESS_FORMATS, EXTENSIONS


@cython.cclass
class Command:
    """One command. A field that the verb does not use holds whatever an earlier command left."""

    @property
    def tube(self) -> bytes:
        return self.tube_at[: self.tube_bytes]

    @property
    def body(self) -> bytes:
        return self.body_at[: self.body_bytes]

    @property
    def arguments(self) -> dict[str, object]:
        """What stands behind the verb of an extension, by name, in the order of Kind; durations in nanoseconds."""
        values: dict = named(cython.address(self.args))
        return values | {"body": self.body} if self.args.given & BODY_KINDS else values

    def __repr__(self) -> str:
        parts = [Verb(self.verb).name]
        if self.verb > Verb.EXPECTED_CRLF:
            return f"<{' '.join(parts + [f'{name}={value!r}' for name, value in self.arguments.items()])}>"
        fields = FIELDS.get(self.verb, ())
        parts += [f"{name}={getattr(self, name)!r}" for name in fields]
        return f"<{' '.join(parts)}>"


BODY_KINDS = cython.declare(
    uint64_t, bit(Kind.BYTES) | bit(Kind.TEXT_BYTES) | bit(Kind.RULES_BYTES) | bit(Kind.DOCUMENT_BYTES)
)
"""The bits of the sizes of bodies."""

COMMANDS = (
    (b"put ", Verb.PUT, Shape.PRI_DELAY_TTR_BYTES, ("pri", "delay_ns", "ttr_s", "body"), True),
    (b"peek ", Verb.PEEK, Shape.ID, ("id",), True),
    (b"peek-ready", Verb.PEEK_READY, Shape.BARE, (), True),
    (b"peek-delayed", Verb.PEEK_DELAYED, Shape.BARE, (), True),
    (b"peek-buried", Verb.PEEK_BURIED, Shape.BARE, (), True),
    (b"reserve-with-timeout ", Verb.RESERVE_WITH_TIMEOUT, Shape.TIMEOUT, ("timeout_s",), True),
    (b"reserve-job ", Verb.RESERVE_JOB, Shape.ID, ("id",), False),
    (b"reserve", Verb.RESERVE, Shape.BARE, (), True),
    (b"delete ", Verb.DELETE, Shape.ID, ("id",), True),
    (b"release ", Verb.RELEASE, Shape.ID_PRI_DELAY, ("id", "pri", "delay_ns"), True),
    (b"bury ", Verb.BURY, Shape.ID_PRI, ("id", "pri"), True),
    (b"kick ", Verb.KICK, Shape.BOUND, ("bound",), True),
    (b"kick-job ", Verb.KICK_JOB, Shape.ID, ("id",), False),
    (b"touch ", Verb.TOUCH, Shape.ID, ("id",), True),
    (b"stats-job ", Verb.STATS_JOB, Shape.ID, ("id",), True),
    (b"stats-tube ", Verb.STATS_TUBE, Shape.TUBE, ("tube",), True),
    (b"stats", Verb.STATS, Shape.BARE, (), True),
    (b"use ", Verb.USE, Shape.TUBE, ("tube",), True),
    (b"watch ", Verb.WATCH, Shape.TUBE, ("tube",), True),
    (b"ignore ", Verb.IGNORE, Shape.TUBE, ("tube",), True),
    (b"list-tubes-watched", Verb.LIST_TUBES_WATCHED, Shape.BARE, (), True),
    (b"list-tube-used", Verb.LIST_TUBE_USED, Shape.BARE, (), True),
    (b"list-tubes", Verb.LIST_TUBES, Shape.BARE, (), True),
    (b"quit", Verb.QUIT, Shape.ANYTHING, (), False),
    (b"pause-tube", Verb.PAUSE_TUBE, Shape.TUBE_DELAY, ("tube", "delay_ns"), True),
)
"""Every command: how its line starts, what follows, the fields that mean something, and whether it is counted in stats.

In the order in which beanstalkd tries them: the first match decides (``which_cmd``). As in beanstalkd, reserve-job,
kick-job and quit have no counter. The decoder, the counters of stats and what a command shows of itself go by this
table.
"""

FIELDS = {verb: fields for _, verb, _, fields, _ in COMMANDS} | {Verb.BAD_FORMAT: ("counted",)}
"""The fields that mean something for a verb; a verb that is missing has none."""

COMMAND_KEYS = sorted((verb, "cmd-" + text.strip().decode()) for text, verb, _, _, counted in COMMANDS if counted)
"""The verbs that stats counts, with their keys, in its order, which is that of the verbs."""

EXTENSION_VERBS: dict = {text: Verb[text.decode().upper().replace("-", "_")] for text, _, _ in EXTENSIONS}
"""The verb of each extension."""

EXTENSION_KEYS = [
    (verb, "cmd-" + text.decode()) for text, verb in EXTENSION_VERBS.items() if text not in ACCESS_FORMATS
]
"""The extensions with their keys in stats, apart from those that only a server with users serves."""
