"""The style, the script and the pictures of pages. Their addresses have what they hold, so browsers may keep them."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png"}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is served."""

    content: bytes
    kind: str
    version: str


@cache
def files() -> dict[str, File]:
    """All files, by their names."""
    folder = resources.files("beanpole.console.screens").joinpath("static")
    found = {}
    for each in folder.iterdir() if folder.is_dir() else ():
        kind = KINDS.get(each.name.rpartition(".")[2])
        if kind:
            content = each.read_bytes()
            found[each.name] = File(content, kind, hashlib.sha256(content).hexdigest()[:16])
    return found


def address(name: str) -> str:
    """The address of a file, for templates."""
    return f"/static/{name}?v={files()[name].version}"


async def static(request: Request) -> Response:
    """A file."""
    found = files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, f"there is no {request.url.path}")
    is_this = request.query_params.get("v") == found.version
    keeping = "public, max-age=31536000, immutable" if is_this else "no-cache"
    return Response(found.content, media_type=found.kind, headers={"Cache-Control": keeping})


ROUTES = (Route("/static/{name}", static),)
