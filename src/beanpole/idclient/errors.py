"""What can go wrong in the client of the ID service."""

from beanpole.errors import BeanpoleError


class IdServiceError(BeanpoleError):
    """The ID service has answered, and the answer is no.

    `code` is -1 (the request or the rule is wrong), -2 (exhausted), -3 (storage), -4 (clock), -5 (a limit) or -6 (the
    node takes no cookie of ours); `resets_at` is when an exhausted counter starts again, in ISO 8601, or None;
    `retry_s` are the seconds until a limit allows the request, or None: it never does.
    """

    def __init__(self, message: str, code: int, resets_at: str | None = None, retry_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.resets_at = resets_at
        self.retry_s = retry_s


class NoNodeError(BeanpoleError, ConnectionError):
    """No node of the ID service has answered. A number may be spent: a gap."""
