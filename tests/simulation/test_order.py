"""Orders of events that once broke a promise, each as short as it can be told."""

import contextlib
import errno

import pytest

from beanpole.log.crc32c import checksum
from beanpole.log.encoder import Encoder
from beanpole.log.errors import DamageError, OtherVersionError
from beanpole.log.files.names import segment_name
from beanpole.log.format import SEGMENT_HEADER
from beanpole.log.reader import Header
from beanpole.log.tools.scan import find_salt
from tests.simulation.disk import CrashError
from tests.simulation.runner import NS_PER_S
from tests.simulation.server import Server

SEEDS = range(20)
"""A disk may keep some of what was not synced: several are tried."""


def put(body_bytes: int) -> bytes:
    return b"put 1 0 100 %d\r\n%s\r\n" % (body_bytes, bytes(body_bytes))


@pytest.mark.parametrize("seed", SEEDS)
def test_last_segment_goes_only_when_the_next_one_is_durable(seed: int) -> None:
    """The end of a turn opens a segment in which no job stands, and the one before is empty: it alone knew the ids."""
    server = Server(seed, segment_bytes=1024)
    life = server.life
    life.log.pool.add(1024, life.log.pool.create(1024))
    life.runner.settle()
    fill = [b"pause-tube default %d\r\n" % seconds for seconds in (1, 1, 1, 1, 0)]
    server.say(put(400), put(150), *fill, b"delete 1\r\n", b"delete 2\r\n")
    assert life.records.segment == 2
    life.runner.finish_sync()
    for _ in range(10):
        life.runner.run_soon()
        life.runner.run_background()
    server.disk.lose_power()
    server.start()
    assert server.life.engine.next_job_id == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_killed_process_left_is_made_durable_by_the_next(seed: int) -> None:
    """The first is killed between the end of a segment and its sync; the second shows its jobs; the power goes."""
    server = Server(seed, segment_bytes=1024)
    server.life.runner.settle()
    server.say(put(400), put(400), put(400))
    server.disk.kill()
    server.start()
    shown = server.ids()
    assert shown
    server.disk.lose_power()
    server.start()
    assert server.ids() == shown


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_failed_sync_left_in_memory_is_written_again(seed: int) -> None:
    """After a failed sync the system shows what it will never write."""
    server = Server(seed)
    server.life.runner.settle()
    server.say(put(1000), put(1000))
    server.disk.fail_at, server.disk.fail_errno = server.disk.call_count + 1, errno.EIO
    server.life.runner.finish_sync()
    assert server.life.failed
    server.disk.kill()
    server.start()
    shown = server.ids()
    assert shown == [1, 2]
    server.disk.lose_power()
    server.start()
    assert server.ids() == shown


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("last_call", range(9, 14))
def test_names_are_durable_before_the_next_segment_has_one(seed: int, last_call: int) -> None:
    """Two processes begin a segment each, and end before they sync its name."""
    server = Server(seed)
    for crash_at in (10, last_call):
        server.disk.kill()
        server.disk.crash_at = crash_at
        with contextlib.suppress(CrashError):
            server.start()
    server.disk.lose_power()
    server.start()
    assert server.ids() == []


def test_pause_of_a_tube_that_is_gone_does_not_come_back() -> None:
    """The tube was paused and empty at a start, so it was gone; then it came back without a pause."""
    server = Server(0)
    server.say(put(2000), b"use a\r\n", b"pause-tube a 1000\r\n")
    server.life.runner.settle()
    server.disk.kill()
    server.start()
    server.say(b"use a\r\n", put(1000))
    server.life.runner.settle()
    server.disk.kill()
    server.clock.now_ns += NS_PER_S
    server.start()
    server.say(b"use a\r\n")
    tube = server.client.connection.session.used
    assert tube is not None
    assert tube.name == b"a"
    assert tube.paused_until_ns == 0


def test_nothing_is_waited_for_after_a_failure() -> None:
    """A segment is full, and the file for the next can't be created: the record after that must not wait for a sync."""
    server = Server(0, segment_bytes=1024)
    server.disk.fail_at = server.disk.call_count + 3
    server.say(put(400), put(400))
    server.say(put(400), put(400))
    assert server.life.failed
    calls = server.disk.call_count
    server.say(b"delete 1\r\n")
    assert server.disk.call_count == calls


def forged(salt: int) -> bytes:
    """A record that says that the log was durable far beyond."""
    records = Encoder(salt=salt)
    records.open_segment(1, 4096)
    records.write_to(lambda _at, _data: None)
    records.turn(1, 4000)
    found: list[bytes] = []
    records.write_to(lambda _at, data: found.append(bytes(data)))
    return found[0]


@pytest.mark.parametrize("guessed", [False, True], ids=["any salt", "the log's salt"])
def test_body_that_looks_like_a_turn_record_is_a_body(*, guessed: bool) -> None:
    """A crash tears the record of a job whose body says that the log was durable behind it."""
    server = Server(0)
    body = forged(server.life.records.salt ^ (0 if guessed else 1))
    server.say(put(10))
    server.life.runner.settle()
    at = server.life.records.used_bytes
    server.say(b"put 0 0 100 %d\r\n%b\r\n" % (len(body), body))
    name = segment_name(server.life.records.segment)
    content = bytearray(server.disk.cache[name].cache)
    assert body in content
    content[at] ^= 1
    server.disk.put_file(name, bytes(content))
    server.disk.kill()
    if guessed:
        with pytest.raises(DamageError):
            server.start()
    else:
        server.start()
        assert server.ids() == [1]


@pytest.mark.parametrize("step_s", [-100_000, -30, 30, 100_000])
def test_clock_that_is_set_while_the_server_runs_moves_no_delay(step_s: int) -> None:
    server = Server(0)
    server.say(b"put 0 1000 100 1\r\nx\r\n")
    server.clock.offset_ns += step_s * NS_PER_S
    server.clock.now_ns += 100 * NS_PER_S
    server.say(put(1))
    server.life.runner.settle()
    server.disk.kill()
    server.clock.now_ns += 10 * NS_PER_S
    server.start()
    [job] = [job for job in server.life.engine.jobs.jobs() if job.id == 1]
    assert job.deadline_at_ns == server.life.now_ns + 890 * NS_PER_S


def left_s(server: Server) -> float:
    """The seconds that the first job is still delayed."""
    [job] = [job for job in server.life.engine.jobs.jobs() if job.id == 1]
    return (job.deadline_at_ns - server.life.now_ns) / NS_PER_S if job.deadline_at_ns else 0.0


def run_for(server: Server, seconds: int) -> None:
    server.clock.now_ns += seconds * NS_PER_S
    server.life.runner.run_timers()
    server.life.runner.settle()


def test_clock_that_is_set_while_the_server_is_idle_moves_no_delay() -> None:
    server = Server(0)
    server.say(b"put 0 100000 100 1\r\nx\r\n")
    server.life.runner.settle()
    server.clock.offset_ns += 86_400 * NS_PER_S
    run_for(server, 10)
    server.disk.kill()
    server.start()
    assert left_s(server) == 100_000 - 10


@pytest.mark.parametrize("behind_s", [7200, 1_700_000_000], ids=["two hours", "no battery"])
@pytest.mark.parametrize("put_right", ["while it runs", "while it is down"])
def test_start_with_a_clock_that_is_behind_makes_no_delay_shorter(behind_s: int, put_right: str) -> None:
    """Again and again: the clock is wrong at a start, and right at the next."""
    server = Server(0)
    server.say(b"put 0 100000 100 1\r\nx\r\n")
    server.life.runner.settle()
    for round_ in range(1, 4):
        server.disk.kill()
        server.clock.offset_ns -= behind_s * NS_PER_S
        server.start()
        run_for(server, 100)
        if put_right == "while it runs":
            server.clock.offset_ns += behind_s * NS_PER_S
            run_for(server, 100)
            server.disk.kill()
        else:
            server.disk.kill()
            server.clock.offset_ns += behind_s * NS_PER_S
            server.clock.now_ns += 100 * NS_PER_S
        server.start()
        assert 0 <= left_s(server) - (100_000 - 200 * round_) <= 100 * round_


@pytest.mark.parametrize("version", [1, 4])
def test_log_of_another_version_is_left_alone(version: int) -> None:
    """Also one of a single segment, which might be torn."""
    server = Server(0)
    server.say(put(10))
    server.life.runner.settle()
    server.life.log.close()
    name = segment_name(server.life.records.segment)
    content = bytearray(server.disk.cache[name].cache)
    content[8] = version
    content[SEGMENT_HEADER - 4 : SEGMENT_HEADER] = checksum(bytes(content[: SEGMENT_HEADER - 4])).to_bytes(4, "little")
    server.disk.put_file(name, bytes(content))
    with pytest.raises(OtherVersionError, match=f"version {version} of the format"):
        server.start()
    assert bytes(server.disk.cache[name].cache) == bytes(content)


@pytest.mark.parametrize("damaged", [slice(64, 68), slice(0, 512)], ids=["salt", "sector"])
def test_forged_turn_records_do_not_lend_a_segment_their_salt(damaged: slice) -> None:
    """A body holds more turn records than the segment; then the segment's header is damaged, and salvage looks."""
    server = Server(0, segment_bytes=8192)
    salt = server.life.records.salt
    body = forged(salt ^ 1) * 31
    server.say(*[put(10)] * 15, b"put 0 0 100 %d\r\n%b\r\n" % (len(body), body))
    server.life.runner.settle()
    server.life.log.close()
    content = bytearray(server.disk.cache[segment_name(server.life.records.segment)].cache)
    content[damaged] = bytes(damaged.stop - damaged.start)
    assert find_salt(bytes(content), Header()) == salt
    assert find_salt(bytes(content[:-1]), Header(salt=salt)) == salt


def test_only_client_is_answered_in_the_turn_in_which_it_asked() -> None:
    """The loop syncs, as nobody else waits for it; with a second client the thread does."""
    for clients, answered in ((1, True), (2, False)):
        server = Server(0, clients=clients)
        server.life.runner.settle()
        server.say(put(100))
        output = server.client.connection.take_output(server.life.log.durable_index)
        assert output.startswith(b"INSERTED") == answered
        assert (server.life.runner.under_way is None) == answered
        server.disk.lose_power()
        server.start()
        assert 1 in server.ids() or not answered


def test_only_client_hears_nothing_of_what_was_not_synced() -> None:
    server = Server(0, clients=1)
    server.life.runner.settle()
    server.disk.fail_at, server.disk.fail_errno = server.disk.call_count + 2, errno.EIO
    server.say(put(100))
    assert server.life.failed
    assert not server.client.connection.take_output(server.life.log.durable_index)


def test_only_client_that_puts_much_leaves_the_sync_to_the_thread() -> None:
    server = Server(0, segment_bytes=1 << 20, clients=1)
    server.life.runner.settle()
    server.say(*[put(10_000)] * 2)
    assert server.life.runner.under_way is not None
