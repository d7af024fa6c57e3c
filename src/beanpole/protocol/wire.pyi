from collections.abc import Callable
from enum import IntFlag
from typing import Generic, TypeVar, final

_T = TypeVar("_T")

class Word(IntFlag):
    INSERTED = 1
    RESERVED = 2
    DELETED = 3
    TIMED_OUT = 4
    NOT_FOUND = 5
    OK = 6
    USING = 7
    WATCHING = 8
    RELEASED = 9
    TOUCHED = 10
    BURIED = 11
    KICKED = 12
    FOUND = 13
    PAUSED = 14
    NOT_IGNORED = 15
    DEADLINE_SOON = 16
    DRAINING = 17
    JOB_TOO_BIG = 18
    OUT_OF_MEMORY = 19
    INTERNAL_ERROR = 20
    BAD_FORMAT = 21
    UNKNOWN_COMMAND = 22
    EXPECTED_CRLF = 23

WORDS: tuple[tuple[bytes, Word, int], ...]

def fill_rows() -> None: ...

@final
class Reply:
    @property
    def word(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def body(self) -> bytes: ...

@final
class Call(Generic[_T]):
    def __init__(
        self,
        data: bytes,
        expected: int,
        take: Callable[[Reply], _T] | None = None,
        tube: str | None = None,
        uses: str | None = None,
        wait_s: int | None = 0,
    ) -> None: ...
    @property
    def data(self) -> bytes: ...
    @property
    def expected(self) -> int: ...
    @property
    def take(self) -> Callable[[Reply], _T] | None: ...
    @property
    def tube(self) -> str | None: ...
    @property
    def uses(self) -> str | None: ...
    @property
    def wait_s(self) -> int | None: ...

@final
class ReplyReader:
    @property
    def buffered_bytes(self) -> int: ...
    def receive(self, data: bytes) -> None: ...
    def next_reply(self) -> Reply | None: ...
    def read_into(self, replies: list[Reply], count: int) -> bool: ...

def tube_name(name: str) -> bytes: ...
def put(body: bytes, pri: int, delay_s: int, ttr_s: int) -> bytes: ...
def puts(bodies: list[bytes], pri: int, delay_s: int, ttr_s: int) -> bytes: ...
def with_id(verb: bytes, id: int) -> bytes: ...
def with_ids(verb: bytes, ids: list[int]) -> bytes: ...
def release(id: int, pri: int, delay_s: int) -> bytes: ...
def bury(id: int, pri: int) -> bytes: ...
def reserve(timeout_s: int | None) -> bytes: ...
def kick(bound: int) -> bytes: ...
def with_tube(verb: bytes, tube: str) -> bytes: ...
def pause_tube(tube: str, delay_s: int) -> bytes: ...
