"""What tests of old clients share."""

import pytest

from tests.conformance.old import KINDS, OldClient


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[OldClient]:
    """A client that knows nothing of rules."""
    found: type[OldClient] = request.param
    return found
