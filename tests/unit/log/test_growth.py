"""A log can grow: version 2 goes on as version 3; what a newer program adds is kept, passed over or refused.

``version2.zip`` was written by the last program that wrote version 2. It holds seven jobs: ready, delayed, released
with a delay, buried and kicked; one was deleted, the tube `paused` is paused, and the end is torn.
"""

import zipfile
from collections.abc import Callable
from pathlib import Path
from struct import Struct

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.state.tags import Tag
from beanpole.limits import TUBE_NAME_BYTES_MAX
from beanpole.log.crc32c import checksum
from beanpole.log.encoder import Encoder
from beanpole.log.errors import OtherVersionError, SalvageError
from beanpole.log.files.names import segment_name
from beanpole.log.files.recovery import recover
from beanpole.log.format import FRAME, TUBE_FIXED, WHOLE_FIXED, Fields, Kind, number_record, segment_header
from beanpole.log.reader import read_header
from beanpole.log.replay import Replay
from beanpole.protocol.limits import KEY_BYTES_MAX, META_BYTES_MAX, TEXT_BYTES_MAX
from tests.simulation.disk import SimDisk
from tests.simulation.server import Server
from tests.unit.log import real_log
from tests.unit.log.real_log import checked
from tests.unit.log.test_salvage import salvaged

VERSION_2 = Path(__file__).with_name("version2.zip")

SALT = 12345

OPTIONAL_TAG = b"\x85\x05\x00later"
"""Tag 133 with five bytes: its first bit says that nobody needs to know it."""

REQUIRED_TAG = b"\x05\x00\x00"


def version_2() -> dict[str, bytes]:
    with zipfile.ZipFile(VERSION_2) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def seal(payload: bytes) -> bytes:
    """A record of a payload."""
    length = len(payload).to_bytes(4, "little")
    # The salt takes the place of the first four bytes of a message whose CRC it is.
    return length + salted(length + payload).to_bytes(4, "little") + payload


def salted(data: bytes) -> int:
    """The checksum of bytes, begun with the salt: four bytes whose CRC is the salt stand before them."""
    return checksum(preimage(SALT) + data)


def preimage(crc: int) -> bytes:
    """The four bytes whose CRC-32C is `crc`."""
    table = [checksum(bytes([i])) ^ checksum(b"\0") for i in range(256)]
    remainder = crc ^ 0xFFFFFFFF
    indices = []
    for _ in range(4):
        index = next(i for i in range(256) if (table[i] ^ remainder) >> 24 == 0)
        indices.append(index)
        remainder = ((remainder ^ table[index]) << 8) & 0xFFFFFFFF
    remainder, data = 0xFFFFFFFF, b""
    for index in reversed(indices):
        data += bytes([(remainder ^ index) & 0xFF])
        remainder = (remainder >> 8) ^ table[index]
    assert checksum(data) == crc
    return data


def whole(id: int, tags: bytes = b"", body: bytes = b"body", tube: bytes = b"mail") -> bytes:
    """A job as a newer program may write it."""
    numbers = id.to_bytes(8, "little") + bytes(24) + bytes(8) + (60).to_bytes(4, "little") + bytes(21)
    lengths = bytes([len(tube)]) + len(tags).to_bytes(2, "little")
    payload = bytes([Kind.WHOLE]) + numbers + lengths
    assert len(payload) == WHOLE_FIXED - FRAME
    return seal(payload + tube + tags + body)


def tube_record(tags: bytes, tube: bytes = b"mail") -> bytes:
    """A tube that is not paused, with tags."""
    payload = bytes([Kind.TUBE]) + bytes(12) + bytes([len(tube)])
    assert len(payload) == TUBE_FIXED - FRAME
    return seal(payload + tube + tags)


def log_of(*records: bytes) -> dict[str, bytes]:
    """A log of one segment."""
    header = segment_header(1, 1, (0, 0), SALT, 1)
    return {segment_name(1): header + b"".join(records) + number_record(Kind.END, 9, SALT)}


class Lives(Server):
    """Servers on one disk that holds some files at first."""

    def __init__(self, files: dict[str, bytes], segment_bytes: int = 65536) -> None:
        super().__init__(files=files, segment_bytes=segment_bytes)

    def jobs(self) -> dict[int, tuple[int, bytes, bytes]]:
        return {job.id: (job.state, job.text, job.tags) for job in self.life.engine.jobs.jobs()}

    def versions(self) -> list[int]:
        return [
            read_header(bytes(inode.cache)).version for name, inode in sorted(self.disk.cache.items()) if "seg" in name
        ]


# --- version 2 --------------------------------------------------------------------------------------------------------


def test_version_2_goes_on_as_version_3() -> None:
    lives = Lives(version_2())
    states = {1: 3, 2: 0, 3: 2, 5: 0, 6: 2, 7: 0, 8: 0}
    for _ in range(2):
        assert {id: state for id, (state, _, _) in lives.jobs().items()} == states
        assert lives.jobs()[8][1] == b"\0\r\n"
        assert lives.jobs()[5][1] == b"e" * 20000
        assert b"pause: 2000000000\n" in lives.ask(b"stats-tube paused")
        assert b"kicks: 1\n" in lives.ask(b"stats-job 2")
        lives.restart()
    assert lives.versions() == [2, 2, 2, 3]
    assert lives.ask(b"put 0 0 1 1", b"x") == b"INSERTED 9\r\n"


def test_version_2_is_compacted_away() -> None:
    lives = Lives(version_2())
    before = {id: job for id, job in lives.jobs().items() if id != 7}
    lives.ask(b"delete 7")
    for _ in range(40):
        lives.ask(b"use other", b"put 0 0 60 30000", b"y" * 30000)
        lives.ask(b"delete %d" % (lives.life.engine.next_job_id - 1))
    assert set(lives.versions()) == {3}
    assert lives.jobs() == before
    lives.restart()
    assert lives.jobs() == before


def test_tools_read_version_2(tmp_path: Path) -> None:
    for name, content in version_2().items():
        (tmp_path / name).write_bytes(content)
    result = checked(tmp_path)
    assert (result.outcome, result.job_count) == ("repairs", 7)
    assert not result.survey.damaged
    place = real_log.place_of(tmp_path, Kind.WHOLE, 5)
    place.overwrite(at=100)
    assert salvaged(tmp_path).job_count == 6


@pytest.mark.parametrize("kind", [0x07, 0xF5], ids=["must be known", "may be passed over"])
def test_version_2_has_no_other_kinds(kind: int) -> None:
    (content,) = log_of(seal(bytes([kind]) + bytes(8))).values()
    replay = Replay()
    for version, unknown in ((2, False), (3, kind < 128)):
        replay.segment(content, 1, read_header(content)._replace(version=version))
        assert replay.unknown == unknown
        assert replay.ended == (version == 3 and kind >= 128)


# --- what this program will write ---


@pytest.mark.parametrize("rest", ["", "tube"])
def test_fields_are_read_as_they_were_written(rest: str) -> None:
    row = Fields(Struct("<QI"), ("job", "pri"), rest)
    values = (7, 5, b"mail") if rest else (7, 5)
    assert tuple(row.values(row.payload(values))) == values
    assert row.described(row.payload(values)) == dict(zip(("job", "pri", "tube"), values, strict=False))


def test_event_is_written_and_read() -> None:
    """END is what replay gives to a method by name; a log without one knows the next id from its jobs alone."""
    records = Encoder()
    records.open_segment(1, 65536)
    records.event("FIRST", 1)
    records.event("END", 70)
    pieces: list[bytes] = []
    records.write_to(lambda _at, data: pieces.append(bytes(data)))
    replay = Replay(Engine(0, records=Encoder()), Encoder())
    replay.segment(pieces[0], 1)
    assert (replay.ended, replay.first_segment, replay.restore.engine.next_job_id) == (True, 1, 70)


# --- what a newer program wrote ---------------------------------------------------------------------------------------


def test_optional_tag_of_a_job_is_kept() -> None:
    """By a change, by compaction, and over restarts."""
    lives = Lives(log_of(whole(1, OPTIONAL_TAG), whole(2)), segment_bytes=4096)
    lives.ask(b"reserve-job 1", b"bury 1 7", b"kick-job 1")
    lives.restart()
    kept = {1: (0, b"body", OPTIONAL_TAG), 2: (0, b"body", b"")}
    assert lives.jobs() == kept
    for _ in range(20):
        lives.ask(b"put 0 0 60 2000", b"y" * 2000)
        lives.ask(b"delete %d" % (lives.life.engine.next_job_id - 1))
    assert segment_name(1) not in lives.disk.cache
    lives.restart()
    assert lives.jobs() == kept
    lives.ask(b"delete 1", b"delete 2")
    assert lives.life.records.accounts.live_bytes == 0


def test_optional_tag_of_a_tube_is_kept() -> None:
    lives = Lives(log_of(tube_record(OPTIONAL_TAG)), segment_bytes=4096)
    for _ in range(20):
        lives.ask(b"put 0 0 60 2000", b"y" * 2000)
        lives.ask(b"delete %d" % (lives.life.engine.next_job_id - 1))
    assert segment_name(1) not in lives.disk.cache
    lives.ask(b"use mail", b"pause-tube mail 5", b"pause-tube mail 0", b"use default")
    for _ in range(2):
        lives.restart()
        assert {tube.name: tube.tags for tube in lives.life.engine.tube_list} == {
            b"default": None,
            b"mail": OPTIONAL_TAG,
        }


def test_optional_record_is_passed_over() -> None:
    assert set(Lives(log_of(whole(1), seal(b"\xf0and more of it"), whole(2))).jobs()) == {1, 2}


@pytest.mark.parametrize(
    ("files", "what"),
    [
        (lambda: log_of(whole(1), whole(7, REQUIRED_TAG)), "job 7 has tag 5"),
        (lambda: log_of(tube_record(OPTIONAL_TAG + REQUIRED_TAG)), "tube mail has tag 5"),
        (lambda: log_of(whole(1), seal(b"\x70and more of it")), "a record is of kind 112"),
    ],
    ids=["job", "tube", "kind"],
)
def test_what_must_be_known_refuses(files: Callable[[], dict[str, bytes]], what: str, tmp_path: Path) -> None:
    disk = SimDisk()
    ((name, content),) = files().items()
    disk.put_file(name, content)
    records = Encoder()
    with pytest.raises(OtherVersionError, match=f"{name}: {what}.*Start the program that wrote it"):
        recover(disk, Engine(0, records=records), records, now_ns=0, wall_ns=0)
    assert bytes(disk.cache[name].cache) == content
    (tmp_path / name).write_bytes(content)
    result = checked(tmp_path)
    assert result.outcome == "refuses"
    assert what in result.reason
    with pytest.raises(SalvageError, match="salvage with the program that wrote it"):
        salvaged(tmp_path)


@pytest.mark.parametrize("tags", [b"\x85", b"\x85\x05\x00late"], ids=["no length", "too long"])
def test_tags_that_lie_are_damage(tags: bytes, tmp_path: Path) -> None:
    ((name, content),) = log_of(whole(1, tags)).items()
    (tmp_path / name).write_bytes(content)
    assert checked(tmp_path).survey.damaged


SIZES = {
    Tag.KEY: (1, 1 + KEY_BYTES_MAX),
    Tag.EXPIRE: (17, 17),
    Tag.GROUP: (1, KEY_BYTES_MAX),
    Tag.ATTEMPTS: (5, 5),
    Tag.DEATH: (15, 14 + TUBE_NAME_BYTES_MAX),
    Tag.FAILURE_TEXT: (1, TEXT_BYTES_MAX),
    Tag.HISTORY: (11, 1555),
    Tag.SCHEDULED: (17, 16 + TUBE_NAME_BYTES_MAX),
    Tag.META: (1, META_BYTES_MAX),
}
"""The least and the most bytes of what each tag of a job says, by docs/wal-format.md."""


@pytest.mark.parametrize("tag", list(Tag), ids=lambda tag: tag.name)
def test_tag_of_a_job_is_read_only_with_the_bytes_that_it_has(tag: Tag, tmp_path: Path) -> None:
    """Byte by byte, up to one too many: the engine reads what a tag says without another look at its size."""
    least, most = SIZES[tag]
    for size in [*range(least + 2), *range(most - 1, most + 2), 65_000]:
        ((name, content),) = log_of(whole(1, bytes([tag]) + size.to_bytes(2, "little") + b"\1" * size)).items()
        (tmp_path / name).write_bytes(content)
        is_good = least <= size <= most
        assert checked(tmp_path).survey.damaged != is_good, f"{size} bytes"
