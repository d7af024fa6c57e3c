"""What can go wrong in the console."""

from beanpole.errors import BeanpoleError


class AwayError(BeanpoleError):
    """A server does not answer; the text says why."""
