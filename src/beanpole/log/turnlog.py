"""What every turn asks of a log, without an object of Python's. The rest is in :mod:`beanpole.log.log`."""

import cython


@cython.cclass
class TurnLog:
    """Asks a log in Python; a compiled one overrides both. The field stands in ``turnlog.pxd``."""

    def append_turn(self):
        """Do what ``append`` of :class:`beanpole.log.log.Log` does."""
        self.append()
        return 0

    def durable(self):
        """Return its ``durable_index``."""
        return self.durable_index
