"""What every answer says to browsers: nothing of it is kept, and it loads, sends and frames nothing from elsewhere."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Nobody else learns of an address. `no-referrer` would say no more to others, but with it browsers send
    # `Origin: null` with our own forms, and the guard could not know them.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Headers:
    """Adds them to whatever is answered, unless it says something else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sent)
