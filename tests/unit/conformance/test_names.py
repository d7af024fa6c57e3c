"""Names of a script on a server that others use: nothing that is sent names anybody else's job or tube."""

import pytest

from beanpole.conformance.names import NOWHERE, Frame, Id, Names, OwnServerError, Stream, Tubes, expectation
from beanpole.conformance.run import match


def names() -> Names:
    """Names of a script whose jobs are 1 and 2, of which the server has said the first."""
    made = Names(b"c-", ids={1: 700}, issued=frozenset({1, 2}))
    made.tube(b"default")
    return made


SENT = [
    (b"use t\r\n", b"use c-t\r\n"),
    (b"pause-tube t 5\r\n", b"pause-tube c-t 5\r\n"),
    (b"use t:t\r\n", b"use t:t\r\n"),
    (b"use " + b"b" * 200 + b"\r\n", b"use c-" + b"b" * 198 + b"\r\n"),
    (b"delete 1\r\n", b"delete 700\r\n"),
    (b"release   1 5 0\r\n", b"release   700 5 0\r\n"),
    (b"peek 99\r\n", b"peek %d\r\n" % (NOWHERE + 99)),
    (b"peek 0\r\n", b"peek 0\r\n"),
    (b"delete-many 1 99\r\n", b"delete-many 700 %d\r\n" % (NOWHERE + 99)),
    (b"list-jobs t ready 5 after=1\r\n", b"list-jobs c-t ready 5 after=700\r\n"),
    (b"move-jobs t ready 5 to=u\r\n", b"move-jobs c-t ready 5 to=c-u\r\n"),
    (b"stats-tubes after=t\r\n", b"stats-tubes after=c-t\r\n"),
    (b"stats-histograms after=t\r\n", b"stats-histograms after=c-t\r\n"),
    (b"put 0 0 1 8\r\ndelete 1\r\ndelete 1\r\n", b"put 0 0 1 8\r\ndelete 1\r\ndelete 700\r\n"),
    (b"put 0 0 1 x\r\ndelete 1\r\n", b"put 0 0 1 x\r\ndelete 700\r\n"),
    (b"put 0 0 1 8 x\r\ndelete 1\r\n", b"put 0 0 1 8 x\r\ndelete 700\r\n"),
    (b"put-job 8 size=1\r\ndelete 1\r\npeek 1\r\n", b"put-job 8 size=1\r\ndelete 1\r\npeek 700\r\n"),
    (b"put-job 5 tube=t key=t\r\nuse t\r\n", b"put-job 5 tube=c-t key=t\r\nuse t\r\n"),
]


@pytest.mark.parametrize(("said", "sent"), SENT, ids=[said.decode()[:20] for said, _ in SENT])
def test_what_is_sent(said: bytes, sent: bytes) -> None:
    assert names().sent(said, Stream()) == sent


def test_a_body_may_come_later() -> None:
    made, stream = names(), Stream()
    assert made.sent(b"put 0 0 1 8\r\ndel", stream) == b"put 0 0 1 8\r\ndel"
    assert made.sent(b"ete 1\r\ndelete 1\r\n", stream) == b"ete 1\r\ndelete 700\r\n"


@pytest.mark.parametrize("pieces", [[b"delete 2\r\n"], [b"delete ", b"1\r\n"], [b"stats-job " + b" " * 211 + b"1\r\n"]])
def test_what_takes_a_server_of_its_own(pieces: list[bytes]) -> None:
    made, stream = names(), Stream()
    for piece in pieces[:-1]:
        assert made.sent(piece, stream) == piece
    with pytest.raises(OwnServerError):
        made.sent(pieces[-1], stream)


def test_what_is_expected() -> None:
    wanted = expectation(b"INSERTED 2\r\nUSING t\r\nRESERVED 1 3\r\nx 2\r\nDELETED 0 99\r\n", names())
    assert [part for part in wanted if not isinstance(part, bytes)] == [Id(2)]
    got = b"INSERTED 812\r\nUSING c-t\r\nRESERVED 700 3\r\nx 2\r\nDELETED 0 %d\r\n" % (NOWHERE + 99)
    ids: dict[int, int] = {}
    assert match(wanted, got, ids) == len(got)
    assert ids == {2: 812}
    for size in range(len(got)):
        found = match(wanted, got[:size], {})
        assert found is not None
        assert found > size
        assert match(wanted, got[:size] + b"!" + got[size:], {}) is None


def test_frames_may_have_more_fields_and_be_older() -> None:
    wanted = expectation(b"JOB 2 1 tube=default age=1.5 pri=5\r\nx\r\n", names())
    assert isinstance(wanted[0], Frame)
    assert match(wanted, b"JOB 812 1 tube=c-default more=1 pri=5 age=1.7\r\nx\r\n", {}) is not None
    for wrong in (b"age=1.4 pri=5", b"age=1.5 pri=6", b"age=1.5"):
        assert match(wanted, b"JOB 812 1 tube=c-default %s\r\nx\r\n" % wrong, {}) is None


def test_lists_may_have_tubes_of_others() -> None:
    made = names()
    made.tube(b"t")
    wanted = expectation(b"OK 18\r\n---\n- default\n- t\n\r\n", made)
    assert wanted[0] == Tubes(b"c-", [b"c-default", b"c-t"])
    assert match(wanted, b"OK 31\r\n---\n- c-t\n- c-default\n- mine\n\r\n", {}) is not None
    assert match(wanted, b"OK 22\r\n---\n- c-default\n- c-t\n\r\n", {}) is not None
    assert match(wanted, b"OK 22\r\n---\n- c-t\n- c-default\n\r\n", {}) is None, "all are ours: the order counts"
    assert match(wanted, b"OK 28\r\n---\n- c-default\n- default\n\r\n", {}) is None


def test_a_fresh_server_is_taken_at_its_word() -> None:
    wanted = expectation(b"INSERTED 1\r\n", Names(b""))
    assert match(wanted, b"INSERTED 1\r\n", {}) == 12
    assert match(wanted, b"INSERTED 2\r\n", {}) is None
