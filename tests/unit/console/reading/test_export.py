"""Lists as JSON lines."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, MutableMapping
from typing import Any

import pytest

from beanpole.client import JobInfo
from beanpole.console.single_flight import AwayError
from beanpole.console.streams import Record, exported, lines_of, record_of
from beanpole.errors import NoReplyError

Message = MutableMapping[str, Any]


class Source:
    """A list in pieces that says how far it was read."""

    def __init__(self, *pieces: Iterable[Record], error: Exception | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.read = 0
        self.is_closed = False

    async def walk(self) -> AsyncGenerator[Iterable[Record], None]:
        try:
            for piece in self.pieces:
                self.read += 1
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.is_closed = True


def sent(source: Source, takes: int | None = None) -> list[Message]:
    """What a client gets; one that takes so many messages goes then."""
    messages: list[Message] = []
    gone = asyncio.Event()

    async def send(message: Message) -> None:
        messages.append(message)
        if takes is not None and len(messages) == takes:
            gone.set()
            await asyncio.Event().wait()  # whoever sends to it waits

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def ask() -> None:
        answer = await exported(source.walk(), "jobs.jsonl")
        await answer({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)

    asyncio.run(ask())
    return messages


def text_of(messages: list[Message]) -> list[Any]:
    lines = b"".join(message.get("body", b"") for message in messages).split(b"\n")
    assert lines.pop() == b"", "the last line is whole"
    return [json.loads(line) for line in lines]


def test_each_record_is_a_line() -> None:
    source = Source([{"id": 1}, {"id": 2}], [], [{"id": 3, "text": "a\nb\u2028\udcff<"}])
    messages = sent(source)
    assert text_of(messages) == [{"id": 1}, {"id": 2}, {"id": 3, "text": "a\nb\u2028\udcff<"}]
    headers = dict(messages[0]["headers"])
    assert headers[b"content-type"] == b"application/x-ndjson"
    assert headers[b"content-disposition"] == b'attachment; filename="jobs.jsonl"'
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert source.is_closed


def test_list_without_records_is_an_empty_file() -> None:
    for source in (Source(), Source([], [])):
        assert b"".join(message.get("body", b"") for message in sent(source)) == b""


@pytest.mark.parametrize("error", [AwayError("no route"), NoReplyError("silent"), TimeoutError("late")])
def test_list_that_breaks_says_so_in_its_last_line(error: Exception) -> None:
    assert text_of(sent(Source([{"id": 1}], error=error))) == [{"id": 1}, {"error": f"the list ends here: {error}"}]


def test_what_is_wrong_before_the_first_line_is_raised() -> None:
    with pytest.raises(AwayError):
        sent(Source(error=AwayError("no route")))


def test_walk_ends_when_the_client_is_gone() -> None:
    source = Source(*([{"id": number}] for number in range(100)))
    sent(source, takes=3)
    assert source.read == 2
    assert source.is_closed


def test_pieces_are_read_when_the_last_is_sent() -> None:
    source = Source(*([{"id": number}] for number in range(100)))
    sent(source, takes=1)
    assert source.read == 1


def test_record_of_a_job_has_what_is_known() -> None:
    job = JobInfo(7, "mail", "buried", pri=3, key="k", body=b"caf\xc3\xa9", size=5)
    record = record_of(job, body=True)
    assert record["body"] == "café"
    assert {"id": 7, "tube": "mail", "state": "buried", "pri": 3, "key": "k", "size": 5}.items() <= record.items()
    assert "died" not in record
    assert "body" not in record_of(job, body=False)
    assert record_of(JobInfo(7, body=b"\xff"), body=True)["body_base64"] == "/w=="
    assert lines_of([record]).isascii()
