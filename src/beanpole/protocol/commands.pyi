from enum import IntFlag
from typing import final

class Verb(IntFlag):
    NONE = 0
    PUT = 1
    PEEK = 2
    PEEK_READY = 3
    PEEK_DELAYED = 4
    PEEK_BURIED = 5
    RESERVE = 6
    RESERVE_WITH_TIMEOUT = 7
    RESERVE_JOB = 8
    DELETE = 9
    RELEASE = 10
    BURY = 11
    KICK = 12
    KICK_JOB = 13
    TOUCH = 14
    STATS_JOB = 15
    STATS_TUBE = 16
    STATS = 17
    USE = 18
    WATCH = 19
    IGNORE = 20
    LIST_TUBES_WATCHED = 21
    LIST_TUBE_USED = 22
    LIST_TUBES = 23
    QUIT = 24
    PAUSE_TUBE = 25
    UNKNOWN_COMMAND = 26
    BAD_FORMAT = 27
    JOB_TOO_BIG = 28
    EXPECTED_CRLF = 29
    VERB_COUNT = 30

FIELDS: dict[Verb, tuple[str, ...]]

@final
class Command:
    @property
    def verb(self) -> Verb: ...
    @property
    def counted(self) -> Verb: ...
    @property
    def id(self) -> int: ...
    @property
    def pri(self) -> int: ...
    @property
    def delay_s(self) -> int: ...
    @property
    def ttr_s(self) -> int: ...
    @property
    def timeout_s(self) -> int: ...
    @property
    def bound(self) -> int: ...
    @property
    def tube_bytes(self) -> int: ...
    @property
    def body_bytes(self) -> int: ...
    @property
    def tube(self) -> bytes: ...
    @property
    def body(self) -> bytes: ...
