"""A request as the rest of this package sees it: read whole from ASGI, its target as the client has written it."""

from dataclasses import dataclass

from starlette.requests import Request

from beanpole_ids import limits
from beanpole_ids.http.response import CLOSE, ProblemError

ONCE = ("host", "content-type", "origin")
"""Fields that no request may have twice; those about the length of a body the parser looks after."""

FORWARDING = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
"""Fields by which a proxy says that somebody else asks."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """A request, whole."""

    method: str = "GET"
    path: str
    """Not decoded: a name may have a slash in it as %2F."""

    query: str = ""
    body: bytes = b""
    source: str = ""
    """The client's IP address."""

    host: str = ""
    """The field Host; "" if there is none."""

    origin: str = ""
    """Whose page asks, if a browser does; "" if no field says so."""

    kind: str = ""
    """The media type of the body, without parameters."""

    is_marked: bool = False
    """Whether there is a field X-Beanpole, which no page of another site can send."""

    is_forwarded: bool = False
    """Whether a proxy has passed the request on."""


async def read(request: Request) -> Asked:
    """Return a request when its body has come.

    Raises ProblemError: it is too large, or its head makes no sense; ClientDisconnect: the client is gone.
    """
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    fields, version = request.headers, request.scope["http_version"]
    head = len(path) + len(query) + sum(len(name) + len(value) + 4 for name, value in fields.raw)
    if head > limits.HTTP_HEAD_BYTES_MAX:
        raise ProblemError("long-head", "the first line and the fields are too large", CLOSE)
    for name in ONCE:
        if len(fields.getlist(name)) > 1:
            raise ProblemError("bad-request", f"the field {name} is there twice", CLOSE)
    if "host" not in fields and version == "1.1":
        raise ProblemError("bad-request", "the field host is missing", CLOSE)
    if version not in {"1.0", "1.1"} or (version == "1.0" and "transfer-encoding" in fields):
        raise ProblemError("bad-request", "this is no request of HTTP/1.1 or HTTP/1.0", CLOSE)
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > limits.HTTP_HEAD_BYTES_MAX:
            raise ProblemError("too-large", "the body is too large", CLOSE)
    return Asked(
        method=request.method,
        path=path.decode("latin-1"),
        query=query.decode("latin-1"),
        body=body,
        source=request.client.host if request.client else "",
        host=fields.get("host", ""),
        origin=fields.get("origin", ""),
        kind=fields.get("content-type", "").partition(";")[0].strip().lower(),
        is_marked="x-beanpole" in fields,
        is_forwarded=any(name in fields for name in FORWARDING),
    )
