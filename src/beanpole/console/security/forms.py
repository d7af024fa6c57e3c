"""What a form has sent. The guard reads it, and lets through no form without the token of its page."""

from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

from beanpole.console.answers import idling

FORM_FIELDS_MAX = 10_000
"""Fields of a form."""

Form = dict[str, list[str]]
"""The fields in their order, each with all its values; empty ones too."""

KIND = "application/x-www-form-urlencoded"


async def form(request: Request) -> Form:
    """The fields of a request that the guard has let through."""
    found: Form = request.scope["state"]["form"]
    return found


async def read(request: Request, bytes_max: int) -> Form:
    """Reads the fields of a form. Raises HTTPException: it is none, or too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != KIND:
        raise HTTPException(415, f"a form is {KIND}")
    pieces, length = [], 0
    with idling(request):
        async for piece in request.stream():
            length += len(piece)
            if length > bytes_max:
                raise HTTPException(413, f"a form has {bytes_max} bytes at most")
            pieces.append(piece)
    try:
        return parse_qs(
            b"".join(pieces).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=FORM_FIELDS_MAX,
        )
    except ValueError:
        raise HTTPException(
            400, f"this is no form, or has more than {FORM_FIELDS_MAX} fields, or is not UTF-8"
        ) from None
