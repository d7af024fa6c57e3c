"""`beanpole reserve`: what becomes of a job, above all when something goes wrong."""

import os
import pty
import subprocess
from pathlib import Path

from beanpole import Client
from tests.e2e.cli.conftest import Cli
from tests.e2e.process import wait_until


def counts(client: Client[bytes], tube: str) -> tuple[int, int, int, int]:
    found = client.stats_tube(tube)
    return (
        found.current_jobs_ready,
        found.current_jobs_reserved,
        found.current_jobs_delayed,
        found.current_jobs_buried,
    )


def test_job_is_ready_again_when_the_command_ends(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put(b"\xff body")
    assert cli("reserve", tube).out == b"\xff body\n"
    wait_until(lambda: counts(client, tube) == (1, 0, 0, 0), "given back")


def test_delete(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put(b"\x00raw\n")
    assert cli("reserve", tube, "--delete", "--raw").out == b"\x00raw\n"
    assert counts(client, tube) == (0, 0, 0, 0)


def test_bury_and_release(cli: Cli, client: Client[bytes], tube: str) -> None:
    id = client.put(b"x", priority=3)
    cli("reserve", tube, "--bury")
    assert (client.stats_job(id).state, client.stats_job(id).pri) == ("buried", 3)
    client.kick(1)
    [found] = cli("reserve", tube, "--release", "--delay", 100, "--priority", 8, "--json").objects
    assert (found["id"], found["tube"], found["pri"], found["body"]) == (id, tube, 3, "x")
    assert (client.stats_job(id).state, client.stats_job(id).pri) == ("delayed", 8)


def test_several_tubes_and_all_jobs(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"1", b"2"])
    client.put(b"3", tube=f"{tube}-other")
    done = cli("reserve", tube, f"{tube}-other", "--count", 0, "--timeout", 0, "--delete")
    assert done.lines == ["1", "2", "3"]
    assert done.err == ""


def test_no_job_in_time(cli: Cli, tube: str) -> None:
    done = cli("reserve", tube, "--timeout", 0, code=3)
    assert (done.out, done.err) == (b"", "beanpole: no job came within 0 s\n")


def test_job_that_could_not_be_written_is_not_deleted(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put(b"x")
    with Path("/dev/full").open("wb") as full:
        done = cli.process("reserve", tube, "--delete", stdout=full)
    assert done.code == 1
    assert done.err == "beanpole: No space left on device\n"
    wait_until(lambda: counts(client, tube) == (1, 0, 0, 0), "given back")


def test_killed_while_it_waits_or_holds(cli: Cli, client: Client[bytes], tube: str) -> None:
    with cli.start("reserve", tube, "--exec", "cat >/dev/null; echo; exec sleep 60", stdout=subprocess.PIPE) as process:
        wait_until(lambda: tube in client.tubes() and client.stats_tube(tube).current_waiting, "waiting")
        client.put(b"x")
        wait_until(lambda: counts(client, tube)[1] == 1, "reserved")
        process.kill()
        process.wait(60)
        wait_until(lambda: counts(client, tube) == (1, 0, 0, 0), "given back")
        assert process.stdout is not None
        process.stdout.close()


# --- --exec -----------------------------------------------------------------------------------------------------------


def test_exec_deletes_when_the_command_succeeds(cli: Cli, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"one", b"\xfftwo"])
    done = cli.process("reserve", tube, "--count", 2, "--exec", 'echo "$JOB_ID: $(cat | wc -c)"')
    assert (done.code, done.err) == (0, "")
    assert done.lines == [f"{ids[0]}: 3", f"{ids[1]}: 4"]
    assert counts(client, tube) == (0, 0, 0, 0)


def test_exec_releases_or_buries_when_the_command_fails(cli: Cli, client: Client[bytes], tube: str) -> None:
    id = client.put(b"x", priority=3)
    done = cli.process("reserve", tube, "--exec", "exit 3", "--delay", 100)
    assert (done.code, done.err) == (1, f"beanpole: job {id}: the command ended with 3\n")
    assert counts(client, tube) == (0, 0, 1, 0)
    client.kick(1)
    done = cli.process("reserve", tube, "--exec", "echo noise; kill -9 $$", "--bury", "--json")
    assert (done.code, done.objects) == (1, [{"id": id, "exit_code": -9}])
    assert done.err == f'noise\n{{"note": "job {id}: the command ended with -9"}}\n'
    assert counts(client, tube) == (0, 0, 0, 1)
    assert client.stats_job(id).pri == 3


def test_exec_of_all_jobs(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x", b"y", b"z"])
    every = ("reserve", tube, "--count", 0, "--timeout", 0)
    assert cli.process(*every, "--exec", "grep -q x", "--bury").code == 1
    assert counts(client, tube) == (0, 0, 0, 2)
    client.kick(9)
    assert cli.process(*every, "--exec", "false", "--delay", 100).code == 1
    assert counts(client, tube) == (0, 0, 2, 0)


def test_exec_touches_while_the_command_runs(cli: Cli, client: Client[bytes], tube: str) -> None:
    id = client.put(b"x", ttr=2)
    done = cli.process("reserve", tube, "--exec", "sleep 3.5; exit 1", "--bury")
    assert done.code == 1
    assert client.stats_job(id).timeouts == 0


def test_command_that_does_not_read_its_input(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put(b"x" * 65535)
    assert cli.process("reserve", tube, "--exec", "exec <&-; true").code == 0
    assert counts(client, tube) == (0, 0, 0, 0)


def test_terminal_shows_what_is_waited_for(cli: Cli, client: Client[bytes], tube: str) -> None:
    ours, theirs = pty.openpty()
    with cli.start("reserve", tube, "--timeout", 30, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while not said.endswith(b"\n"):
            said += os.read(ours, 1000)
        assert said.decode().strip() == f"beanpole: waiting for a job of {tube}, up to 30 s; Ctrl-C ends this"
        client.put(b"x")
        assert process.communicate(timeout=60)[0] == b"x\n"
    os.close(ours)
