"""The extensions: the commands that beanstalkd does not know, in one table, and what their lines are made of.

A line is a verb, words by their place, then options as ``name=value``. Each word and option is of a kind, which says
where its value goes in ``Arguments`` and how it is read.
"""

import cython
from cython.cimports.libc.stdint import uint64_t

from beanpole.protocol.rules import RULES


def bit(kind):
    return cython.cast(uint64_t, 1) << cython.cast(cython.int, kind)


KIND_NAMES = {
    Kind.BYTES: b"bytes",
    Kind.TEXT_BYTES: b"bytes",
    Kind.RULES_BYTES: b"bytes",
    Kind.DOCUMENT_BYTES: b"bytes",
    Kind.ID: b"id",
    Kind.IDS: b"ids",
    Kind.TUBE: b"tube",
    Kind.TO: b"to",
    Kind.SCHEDULE: b"name",
    Kind.PATTERN: b"pattern",
    Kind.STATE: b"state",
    Kind.RESTING_STATE: b"state",
    Kind.RESTING_STATES: b"states",
    Kind.COUNT: b"count",
    Kind.LIMIT: b"limit",
    Kind.BOUND: b"bound",
    Kind.TIMEOUT: b"timeout",
    Kind.SECONDS: b"seconds",
    Kind.PRI: b"pri",
    Kind.DELAY: b"delay",
    Kind.WITHIN: b"within",
    Kind.TTR: b"ttr",
    Kind.EXPIRE: b"expire",
    Kind.KEY: b"key",
    Kind.NAME: b"name",
    Kind.TAKEN: b"taken",
    Kind.UNTIL: b"until",
    Kind.DEAD: b"dead",
    Kind.ORDER: b"order",
    Kind.BODIES: b"bodies",
    Kind.FIELDS: b"fields",
    Kind.AFTER: b"after",
    Kind.AFTER_TUBE: b"after",
    Kind.AFTER_PATTERN: b"after",
    Kind.AFTER_SCHEDULE: b"after",
    Kind.SWITCH: b"switch",
    Kind.AT: b"at",
    Kind.GROUP: b"group",
    Kind.META: b"meta",
    Kind.KEEP: b"seconds",
    Kind.TOKEN: b"token",
    Kind.ENDS: b"ends",
    Kind.SAME: b"group",
    Kind.GROUP_ORDER: b"order",
    Kind.ONCE: b"once",
    Kind.FOR: b"for",
}
"""What clients call each kind of argument."""

FIELD_NAMES = {
    Field.SESSION: b"session",
    Field.PEER: b"peer",
    Field.LEFT: b"left",
    Field.REASON: b"reason",
    Field.HISTORY: b"history",
}
"""What clients call each field that list-jobs has for them."""

EXTENSIONS = (
    (b"list-extensions", (), ()),
    (
        b"put-job",
        (Kind.BYTES,),
        (
            *(Kind.TUBE, Kind.PRI, Kind.DELAY, Kind.AT, Kind.WITHIN, Kind.TTR),
            *(Kind.KEY, Kind.TAKEN, Kind.UNTIL, Kind.EXPIRE, Kind.GROUP, Kind.META, Kind.ONCE, Kind.FOR),
        ),
    ),
    (b"find-job", (Kind.TUBE, Kind.KEY), ()),
    (b"fail-job", (Kind.ID, Kind.TEXT_BYTES), (Kind.PRI, Kind.DELAY, Kind.DEAD)),
    (b"snooze-job", (Kind.ID, Kind.SECONDS), (Kind.PRI,)),
    (b"change-job", (Kind.ID,), (Kind.TUBE, Kind.PRI, Kind.DELAY, Kind.TTR, Kind.EXPIRE)),
    (b"change-body", (Kind.ID, Kind.BYTES), ()),
    (b"reserve-many", (Kind.COUNT, Kind.TIMEOUT), (Kind.SAME,)),
    (b"delete-many", (Kind.IDS,), ()),
    (b"touch-many", (Kind.IDS,), ()),
    (b"cancel-reserve", (), ()),
    (b"cancel-job", (Kind.ID,), ()),
    (b"cancel-key", (Kind.TUBE, Kind.KEY), ()),
    (b"clear-tube", (Kind.TUBE, Kind.RESTING_STATES), (Kind.GROUP,)),
    (
        b"list-jobs",
        (Kind.TUBE, Kind.STATE, Kind.LIMIT),
        (Kind.AFTER, Kind.BODIES, Kind.ORDER, Kind.FIELDS, Kind.GROUP),
    ),
    (b"move-jobs", (Kind.TUBE, Kind.RESTING_STATE, Kind.BOUND), (Kind.TO, Kind.GROUP)),
    (b"stats-tubes", (), (Kind.AFTER_TUBE, Kind.LIMIT)),
    (b"stats-histograms", (), (Kind.AFTER_TUBE, Kind.LIMIT)),
    (b"stats-failures", (), (Kind.TUBE, Kind.LIMIT)),
    (b"pause-group", (Kind.TUBE, Kind.GROUP, Kind.SECONDS), ()),
    (b"stats-groups", (Kind.TUBE,), (Kind.GROUP, Kind.LIMIT, Kind.GROUP_ORDER)),
    (b"list-sessions", (), (Kind.AFTER, Kind.LIMIT)),
    (b"name-session", (Kind.NAME,), ()),
    (b"keep-session", (Kind.KEEP, Kind.TOKEN), (Kind.ENDS,)),
    (b"explain", (Kind.ID,), ()),
    (b"explain-tube", (Kind.TUBE,), ()),
    (b"set-rules", (Kind.PATTERN, Kind.RULES_BYTES), ()),
    (b"get-rules", (Kind.TUBE,), ()),
    (b"list-rules", (), (Kind.AFTER_PATTERN,)),
    (b"drop-rules", (Kind.PATTERN,), ()),
    (b"set-schedule", (Kind.SCHEDULE, Kind.DOCUMENT_BYTES), ()),
    (b"get-schedule", (Kind.SCHEDULE,), ()),
    (b"list-schedules", (), (Kind.AFTER_SCHEDULE, Kind.LIMIT, Kind.BODIES, Kind.ORDER)),
    (b"drop-schedule", (Kind.SCHEDULE,), ()),
    (b"pause-schedule", (Kind.SCHEDULE, Kind.SWITCH), ()),
    (b"fire-schedule", (Kind.SCHEDULE,), (Kind.AT,)),
    (b"auth", (), ()),
    (b"list-rights", (), ()),
)  # fmt: skip
"""Every extension: its verb, the words that must follow it, and the options that may, in any order.

What follows `auth` means something in the first line of a connection alone, which is read before there is a decoder.
The decoder, list-extensions, the counters of stats and what a command shows of itself go by this table.
"""

SCHEDULE_LINES = (
    *(b"cron", b"every", b"at", b"zone", b"weeks", b"except", b"start", b"end", b"spread", b"overlap", b"late"),
    *(b"misfire", b"tube", b"pri", b"delay", b"ttr", b"expire", b"key", b"until"),
)
"""The lines of a schedule's document, for list-extensions; what reads them is loaded with the first schedule."""

FEATURES = (b"fractions", b"reserve-many.0")
"""What list-extensions lists beside commands and options.

Durations with decimals in put, release and pause-tube; a count of 0 for reserve-many, which was once BAD_FORMAT.
"""

ACCESS_FORMATS: dict = {b"list-rights": USERS_SERVED, b"auth": AUTH_SERVED}
"""What is served where connections have users, whatever the format of a cluster's log: a bit for each."""

FEATURE_NAMES: list = sorted(
    [
        *FEATURES,
        *[b"rule." + name.encode() for name in RULES],
        *[b"field." + name for name in FIELD_NAMES.values()],
        *[b"schedule." + name for name in SCHEDULE_LINES],
        *[text for text, _, _ in EXTENSIONS if text not in ACCESS_FORMATS],
        *[text + b"." + KIND_NAMES[kind] for text, _, options in EXTENSIONS for kind in options],
    ]
)
"""What list-extensions lists: `verb`, `verb.option`, `rule.name`, `field.name` and others, in byte order."""


FORMAT_FIRST = 4
"""The format of a cluster's log from which extensions are served: a node that reads less stops at what they write."""

FORMATS: dict = dict.fromkeys(
    (
        *(b"set-schedule", b"get-schedule", b"list-schedules", b"drop-schedule", b"pause-schedule", b"fire-schedule"),
        *(b"schedule", b"put-job.at", b"put-job.within"),
    ),
    5,
)
"""What is served from a later format on, as list-extensions names it; a verb, or a kind of lines, with all of it."""

FORMATS |= dict.fromkeys((b"rule.breaker", *[name for name in FEATURE_NAMES if b"group" in name]), 6)
FORMATS |= dict.fromkeys((b"put-job.once", b"put-job.for"), 7)

FORMAT_NEWEST: int = max(FORMATS.values())


def format_of(name: bytes) -> int:
    """Return the format of a cluster's log from which it serves something, or its bit in ACCESS_FORMATS."""
    return ACCESS_FORMATS.get(name) or FORMATS.get(name, FORMATS.get(name.partition(b".")[0], FORMAT_FIRST))


def named(args):
    """Return the arguments that were given, by name, in the order of Kind; times in nanoseconds."""
    given: uint64_t = args.given
    values = {
        Kind.ID: args.id,
        Kind.STATE: args.states,
        Kind.RESTING_STATE: args.states,
        Kind.RESTING_STATES: args.states,
        Kind.COUNT: args.count,
        Kind.LIMIT: args.count,
        Kind.BOUND: args.count,
        Kind.TIMEOUT: args.timeout_ns,
        Kind.SECONDS: args.delay_ns,
        Kind.PRI: args.pri,
        Kind.DELAY: args.delay_ns,
        Kind.WITHIN: args.within_ns,
        Kind.TTR: args.ttr_s,
        Kind.EXPIRE: args.expire_ns,
        Kind.TAKEN: "replace" if args.replace else "keep",
        Kind.UNTIL: "reserve" if args.until_reserve else "delete",
        Kind.DEAD: "now",
        Kind.ORDER: "next",
        Kind.BODIES: args.bodies,
        Kind.FIELDS: ",".join([FIELD_NAMES[field].decode() for field in FIELD_NAMES if args.fields >> field & 1]),
        Kind.AFTER: args.after,
        Kind.SWITCH: "on" if args.on else "off",
        Kind.AT: args.at_ns,
        Kind.KEEP: args.count,
        Kind.ENDS: "all",
        Kind.SAME: "same",
        Kind.GROUP_ORDER: "held" if args.by_held else "ready",
        Kind.FOR: args.once_s,
    }
    if given & bit(Kind.IDS):
        values[Kind.IDS] = args.ids_at[: args.ids_bytes]
    if given & (bit(Kind.TUBE) | bit(Kind.PATTERN) | bit(Kind.SCHEDULE)):
        values[Kind.TUBE] = values[Kind.PATTERN] = values[Kind.SCHEDULE] = args.tube_at[: args.tube_bytes]
    if given & bit(Kind.TO):
        values[Kind.TO] = args.to_at[: args.to_bytes]
    if given & (bit(Kind.AFTER_TUBE) | bit(Kind.AFTER_PATTERN) | bit(Kind.AFTER_SCHEDULE)):
        after: bytes = args.after_at[: args.after_bytes]
        values[Kind.AFTER_TUBE] = values[Kind.AFTER_PATTERN] = values[Kind.AFTER_SCHEDULE] = after
    if given & bit(Kind.GROUP):
        values[Kind.GROUP] = args.group_at[: args.group_bytes]
    if given & bit(Kind.META):
        values[Kind.META] = args.meta_at[: args.meta_bytes]
    if given & bit(Kind.ONCE):
        values[Kind.ONCE] = args.once_at[: args.once_bytes]
    if given & (bit(Kind.KEY) | bit(Kind.NAME) | bit(Kind.TOKEN)):
        values[Kind.KEY] = values[Kind.NAME] = values[Kind.TOKEN] = args.key_at[: args.key_bytes]
    return {KIND_NAMES[kind].decode(): values[kind] for kind in KIND_NAMES if kind in values and given & bit(kind)}
