"""For tests of programs that use a queue: the real engine in the test's process, with a clock that the test moves.

`world` is the queue without sockets and without a clock, `fakeserver` puts sockets and a thread around it. The pytest
fixture is in :mod:`beanpole.pytest_plugin`. Nothing that serves imports this.
"""

from beanpole.testing.fakeserver import FakeJob, FakeServer

__all__ = ["FakeJob", "FakeServer"]
