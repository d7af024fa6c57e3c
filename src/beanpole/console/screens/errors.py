"""What is answered when a request can't be: a page for people, a problem for programs, else a line."""

from http import HTTPStatus

from jinja2 import TemplateNotFound
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from beanpole.console.answers import line
from beanpole.console.problems import problem
from beanpole.console.screens import render
from beanpole.console.screens.screen import Screen, View, nothing
from beanpole.console.security.guard import is_api
from beanpole.console.security.visitors import visitor_of

ERROR = Screen("", "error.html", nothing, title="")
AWAY = Screen("", "away.html", nothing, title="")


async def answer(request: Request, error: Exception) -> Response:
    """Says what is wrong."""
    if isinstance(error, HTTPException):
        screen, status, sentence, headers = ERROR, error.status_code, error.detail, dict(error.headers or {})
    elif isinstance(error, TemplateNotFound):  # it is an OSError, of all things
        raise error
    else:
        screen, status, sentence, headers = AWAY, HTTPStatus.SERVICE_UNAVAILABLE, str(error) or type(error).__name__, {}
    if status < HTTPStatus.BAD_REQUEST:
        return Response(status_code=status, headers=headers)
    if is_api(request):
        return problem(status, sentence, headers)
    if "text/html" not in request.headers.get("accept", ""):
        return line(sentence, status, headers)
    shown = {"status": status, "phrase": HTTPStatus(status).phrase, "sentence": sentence}
    try:
        made = render.page(View(request, request.app.state.console, visitor_of(request)), screen, shown, status)
    except HTTPException:  # the address names a server that there is not, so the page has no navigation
        return line(sentence, status, headers)
    made.headers.update(headers)
    return made
