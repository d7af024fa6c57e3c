"""What a client reads of stats-failures, and of the fields that it asks list-jobs for."""

import pytest

from beanpole import ArgumentError, UnexpectedReplyError
from beanpole.client import FailureCounts
from tests.unit.client.peer import Maker, Peer, has

TEXT = b"""---
total: 5
groups:
- tube: t
  error: "no \\u000a"
  line: "x"
  count: 4
  buried: 0
  attempts: 1
  expired: 1
  given-up: 2
  last: 7
  first-died: 1000.5
  last-died: 1001
  new: 3
- count: 1
  buried: 1
  attempts: 0
  expired: 0
  given-up: 0
  last: 9
"""


def test_counts() -> None:
    found = FailureCounts.parse(TEXT)
    first, rest = found.groups
    assert (found.total, first.tube, first.error, first.line, first.count) == (5, "t", "no \n", "x", 4)
    assert (first.attempts, first.expired, first.given_up, first.buried, first.last) == (1, 1, 2, 0, 7)
    assert (first.first_died, first.last_died) == (1000.5, 1001)
    assert (rest.tube, rest.error, rest.count, rest.first_died) == (None, None, 1, None)
    assert FailureCounts.parse(b"---\ntotal: 0\ngroups: []\n") == FailureCounts(0, [])


@pytest.mark.parametrize("text", [b"---\nx\n", b"---\ntotal: 1\ngroups:\n- tube: t\n", TEXT.replace(b"4", b"four")])
def test_what_is_none(text: bytes) -> None:
    with pytest.raises(UnexpectedReplyError):
        FailureCounts.parse(text)


def test_fields_of_a_list(make: Maker) -> None:
    line = b"list-jobs t reserved 9 fields=session,reason\r\n"
    frame = b"JOBS 1\r\nJOB 1 0 tube=t session=4 peer=a%20b left=2.5 why=attempts reason=%41%0A\xff\r\n\r\n"
    with Peer([has("list-jobs", "list-jobs.fields"), (line, frame)]) as peer:
        client = make(peer.address)
        (job,) = client.list_jobs("t", "reserved", 9, fields=("session", "reason")).jobs
        assert (job.session, job.peer, job.left, job.why, job.reason) == (4, "a b", 2.5, "attempts", "A\n\\xff")
        with pytest.raises(ArgumentError):
            client.list_jobs("t", "reserved", fields=("name",))
        client.close()
