"""A command: what one client asked for, decoded.

The decoder fills a command in and the engine reads it; neither keeps it, so one object serves a whole connection. Its
pointers lead into the decoder's input and are good until the decoder is called again, unless :meth:`Command.own` made a
copy. The fields stand in ``commands.pxd``.
"""

import cython


@cython.cclass
class Command:
    """One command. A field that the verb does not use holds whatever an earlier command left."""

    def own(self):
        """Copy what the pointers lead to, so that the command outlives the decoder's input."""
        if self.verb == Verb.PUT:
            self.owned = self.body_at[: self.body_bytes + 2]
            self.body_at = self.owned
        elif self.tube_bytes:
            self.owned = self.tube_at[: self.tube_bytes]
            self.tube_at = self.owned
        return 0

    @property
    def tube(self) -> bytes:
        """The tube that the command names."""
        return self.tube_at[: self.tube_bytes]

    @property
    def body(self) -> bytes:
        """The body of a put, without its CRLF."""
        return self.body_at[: self.body_bytes]

    def __repr__(self) -> str:
        parts = [Verb(self.verb).name]
        fields = FIELDS.get(self.verb, ())
        parts += [f"{name}={getattr(self, name)!r}" for name in fields]
        return f"<{' '.join(parts)}>"


FIELDS = {
    Verb.PUT: ("pri", "delay_s", "ttr_s", "body"),
    Verb.PEEK: ("id",),
    Verb.RESERVE_WITH_TIMEOUT: ("timeout_s",),
    Verb.RESERVE_JOB: ("id",),
    Verb.DELETE: ("id",),
    Verb.RELEASE: ("id", "pri", "delay_s"),
    Verb.BURY: ("id", "pri"),
    Verb.KICK: ("bound",),
    Verb.KICK_JOB: ("id",),
    Verb.TOUCH: ("id",),
    Verb.STATS_JOB: ("id",),
    Verb.STATS_TUBE: ("tube",),
    Verb.USE: ("tube",),
    Verb.WATCH: ("tube",),
    Verb.IGNORE: ("tube",),
    Verb.PAUSE_TUBE: ("tube", "delay_s"),
    Verb.BAD_FORMAT: ("counted",),
}
"""The fields that mean something for a verb; a verb that is missing has none."""
