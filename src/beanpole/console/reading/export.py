"""Lists as JSON lines: streamed piece by piece, as fast as the client reads.

What is wrong before the first line is an answer of its own; what ends a list in its middle is its last line, with an
`error` alone in it.
"""

import base64
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from beanpole.client import JobInfo
from beanpole.console.answers import HEADERS, Streamed
from beanpole.console.errors import AwayError
from beanpole.errors import ConnectionLostError

Record = Mapping[str, object]

Pieces = AsyncGenerator[Iterable[Record], None]
"""The lines of a list, some at a time: a piece is what takes a few milliseconds to write."""

MEDIA_TYPE = "application/x-ndjson"


async def exported(pieces: Pieces, name: str) -> Streamed:
    """Answers with a list as the file `name`. Raises what its first piece does."""
    start = await anext(pieces, None) or []
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Streamed(written(start, pieces), headers=headers, media_type=MEDIA_TYPE)


async def written(start: Iterable[Record], pieces: Pieces) -> AsyncGenerator[bytes, None]:
    """The lines of the first piece, and of those that follow."""
    async with aclosing(pieces):
        yield lines_of(start)
        try:
            async for piece in pieces:
                yield lines_of(piece)
        except (AwayError, ConnectionLostError, OSError) as error:
            yield lines_of([{"error": f"the list ends here: {error}"}])


def lines_of(records: Iterable[Record]) -> bytes:
    """Records as lines; all that is not ASCII is escaped, so that half characters are no trouble."""
    return "".join(json.dumps(each) + "\n" for each in records).encode()


def record_of(job: JobInfo, *, body: bool) -> dict[str, Any]:
    """What is known of a job, as `beanpole list --json` and `beanpole export` have it."""
    known = {name: value for name, value in job.as_dict().items() if value is not None and name != "body"}
    return known | (body_fields(job.body) if body else {})


def body_fields(body: bytes) -> dict[str, str]:
    """A body for JSON: as `body` if it is UTF-8, else as `body_base64`."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
