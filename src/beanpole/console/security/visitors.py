"""Visitors: the people and programs that send requests."""

from dataclasses import dataclass

from starlette.requests import Request

READ_ONLY = "read-only: this console was started without --http-token-file"
"""Why a visitor may not change anything: there is no other reason."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who sends requests, and what they may do."""

    name: str = "anybody"
    """Whose token it is, for the log."""

    may_change: bool = False
    """Whether actions are allowed."""

    form_token: str = ""
    """What each form of a page must bring back; empty: there is no cookie."""

    may_see: bool = True
    """Whether they may know anything of the servers; else they have yet to log in."""


STRANGER = Visitor("nobody", may_see=False)
"""Who has not logged in, where one must."""


def visitor_of(request: Request) -> Visitor:
    """The visitor who sent a request, as the guard has identified them."""
    found = request.scope.get("state", {}).get("visitor")
    return found if isinstance(found, Visitor) else Visitor()
