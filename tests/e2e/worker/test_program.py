"""The worker as a process: signals, deaths, servers that come and go, and jobs that survive all of it."""

import contextlib
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole import Client, ConnectionLostError
from tests.e2e.process import serving, wait_until
from tests.e2e.worker.handlers import is_alive
from tests.e2e.worker.program import MODULE, program
from tests.servers import HOST, START_TIMEOUT_S, Server, beanstalkd_server, kept_port

TUBES = ("loop", "thread", "process")


@pytest.fixture
def client(beanpole: Server) -> Iterator[Client[str]]:
    with Client((HOST, beanpole.port)) as made:
        yield made


# --- Signals and deaths -----------------------------------------------------------------------------------------------


def test_a_signal_lets_handlers_finish(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    for tube in TUBES:
        client.put("sleep 0.7", tube=tube)
    with program(tmp_path, beanpole.port) as worker:
        worker.wait_ledger("begin", 3)
        assert worker.stop() == 0
        assert worker.ledger("end") == ["sleep 0.7"] * 3
    assert client.stats().total_jobs == 3
    assert client.stats().current_jobs_ready == 0


def test_handlers_that_hang_are_left_behind(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    ids = [client.put("sleep 100", tube=tube, priority=5) for tube in TUBES]
    with program(tmp_path, beanpole.port, "--grace", "0.2") as worker:
        worker.wait_ledger("begin", 3)
        assert worker.stop() == 0
        assert sorted(line["id"] for line in worker.events("job released")) == ids
    for id in ids:
        stats = client.stats_job(id)
        assert (stats.state, stats.pri, stats.releases) == ("ready", 5, 1)


def test_a_worker_says_at_once_for_whom_it_waits(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    id = client.put("sleep 100", tube="thread")
    with program(tmp_path, beanpole.port, "--grace", "6", "--log-format", "console") as worker:
        worker.wait_ledger("begin")
        worker.signal(signal.SIGTERM)
        sentence = f"stopping: 1 job running ({id} of thread), up to 6 s; signal again to end now\n"
        wait_until(lambda: sentence in worker.messages, "it says so")
        assert worker.popen.poll() is None, "it waits"
        worker.signal(signal.SIGTERM)
        assert worker.wait_exit() == 128 + signal.SIGTERM


def test_a_worker_whose_slots_all_hang_ends_with_an_exit_code(
    beanpole: Server, client: Client[str], tmp_path: Path
) -> None:
    module = MODULE.replace("concurrency=4", "concurrency=1, stuck_timeout=0.1").replace(
        '"thread"', '"thread", timeout=0.1'
    )
    (tmp_path / "handlers.py").write_text(module)
    client.put("sleep 100", tube="thread")
    with program(tmp_path, beanpole.port) as worker:
        assert worker.wait_exit() == 75
        assert "beanpole worker: handlers that hang occupied all 1 slots for 0.1 s" in worker.messages
        assert worker.events("worker stopped")


def test_a_second_signal_ends_a_worker_whose_loop_is_blocked(
    beanpole: Server, client: Client[str], tmp_path: Path
) -> None:
    id = client.put("sleep 100", tube="blocking")
    with program(tmp_path, beanpole.port) as worker:
        worker.wait_ledger("begin")

        def is_over() -> bool:
            worker.signal(signal.SIGINT)  # again and again: two that come at the same moment are one
            return worker.popen.poll() is not None

        wait_until(is_over, "the end")
        assert worker.wait_exit() == 128 + signal.SIGINT
    wait_until(lambda: client.stats_job(id).state == "ready", "the server gives the job to others")


def test_a_worker_that_is_killed_gives_its_jobs_back(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    for tube in TUBES:
        client.put("sleep 100", tube=tube)
    with program(tmp_path, beanpole.port) as worker:
        worker.wait_ledger("begin", 3)
        worker.signal(signal.SIGKILL)
        worker.wait_exit()
        pids = {pid for _, pid in worker.lines("begin")}
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)), "what ran the handlers is dead as well")
    wait_until(lambda: client.stats().current_jobs_ready == 3, "the jobs are ready")


def test_handlers_that_fork_do_not_make_two_workers(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    for tube in TUBES:
        client.put("fork", tube=tube)
        client.put("after", tube=tube)
    with program(tmp_path, beanpole.port) as worker:
        worker.wait_ledger("end", 6)
        assert worker.stop() == 0
        assert sorted(worker.ledger("begin")) == ["after"] * 3 + ["fork"] * 3
    assert [line["done"] for line in worker.events("worker stopped")] == [6]


# --- Servers that come and go -----------------------------------------------------------------------------------------


def test_a_worker_of_beanstalkd(tmp_path: Path) -> None:
    with beanstalkd_server() as server, Client((HOST, server.port)) as client:
        for body, tube in (("one", "loop"), ("fail", "thread"), ("two", "process")):
            client.put(body, tube=tube)
        id = client.put("sleep 100", tube="loop")
        with program(tmp_path, server.port, "--grace", "0.2") as worker:
            worker.wait_ledger("end", 3)
            worker.wait_ledger("begin", 5)
            assert worker.stop() == 0
        assert client.stats().cmd_delete == 3
        assert client.stats_job(id).state == "ready"


def test_a_worker_waits_for_its_server(tmp_path: Path) -> None:
    with kept_port() as port, program(tmp_path, port) as worker:
        worker.wait_event("no connection")
        with serving("-l", HOST, "-p", str(port), listen=False), Client((HOST, port)) as client:
            client.put("x", tube="thread")
            worker.wait_ledger("end")
            worker.wait_event("connected again")
        assert worker.stop() == 0
        assert len(worker.events("connected again")) == 1


def logged(folder: Path, port: int) -> tuple[str, ...]:
    """The flags of a server that keeps its jobs in a folder, on a port that it has again after its death."""
    return ("-b", str(folder / "data"), "-l", HOST, "-p", str(port))


def test_a_server_that_forgot_its_jobs_keeps_those_that_have_their_ids_now(tmp_path: Path) -> None:
    """A job that was begun before must not be deleted over a new connection: the id is another job's."""
    with kept_port() as port, serving("-l", HOST, "-p", str(port), listen=False) as server:
        with Client((HOST, port)) as client:
            assert client.put("sleep 3", tube="thread") == 1
        with program(tmp_path, port) as worker:
            worker.wait_ledger("begin")
            server.stop()
            with serving("-l", HOST, "-p", str(port), listen=False), Client((HOST, port)) as client:
                assert client.put("precious", tube="elsewhere") == 1
                worker.wait_event("connected again")
                worker.wait_event("job lost")
                worker.wait_ledger("end")  # nothing stops a thread
                assert client.peek(1).body == "precious"
            assert worker.stop() == 0


# --- All of it --------------------------------------------------------------------------------------------------------


def test_no_job_is_lost_while_workers_and_servers_are_killed(tmp_path: Path) -> None:
    """Each job is done, and only what a death interrupted is done again."""
    chance = random.Random(1)
    bodies = [f"{chance.choice(('do', 'fail', 'sleep 0.01'))} {number}" for number in range(240)]
    bodies = [body.replace("sleep 0.01 ", "sleep 0.0") for body in bodies]
    deaths = 0
    with kept_port() as port, contextlib.ExitStack() as servers:
        server = servers.enter_context(serving(*logged(tmp_path, port), listen=False))
        rounds = [bodies[start : start + 80] for start in range(0, 240, 80)]
        for some in rounds[:2]:
            put(port, some)  # so that there is work to be killed at, however late that is noticed
            with program(tmp_path, port) as worker, program(tmp_path, port):
                count = len(worker.ledger("end"))
                wait_until(lambda count=count: len(worker.ledger("end")) >= count + 40, "they work")  # type: ignore[misc]
            deaths += 2
        put(port, rounds[2])
        with program(tmp_path, port) as worker:
            count = len(worker.ledger("end"))
            wait_until(lambda: len(worker.ledger("end")) >= count + 20, "it works")
            server.signal(signal.SIGKILL)
            server.wait_exit()
            deaths += 1
            servers.enter_context(serving(*logged(tmp_path, port), listen=False))
            wait_until(lambda: is_empty(port), "all is done", 60.0)
            assert worker.stop() == 0
            ended = Counter(worker.ledger("end"))
    assert set(ended) == set(bodies)
    assert sum(ended.values()) - len(bodies) <= deaths * 4  # as many as four slots a worker can have had in hand


def put(port: int, bodies: list[str]) -> None:
    with Client((HOST, port)) as client:
        for number, tube in enumerate(TUBES):
            client.put_many(bodies[number::3], tube=tube)


def is_empty(port: int) -> bool:
    """Whether a server answers, and has no job."""
    try:
        with Client((HOST, port)) as client:
            stats = client.stats()
    except ConnectionLostError:
        return False
    states = ("urgent", "ready", "reserved", "delayed", "buried")
    return not any(stats[f"current-jobs-{state}"] for state in states)


# --- The command line -------------------------------------------------------------------------------------------------


def save(file: Path, text: str) -> None:
    """Changes a file at once, so that nobody sees it half-written, or changed twice."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_reload_starts_a_worker_again_when_a_file_changes(
    beanpole: Server, client: Client[str], tmp_path: Path
) -> None:
    with program(tmp_path, beanpole.port, "--reload", "--log-format", "json") as worker:
        worker.wait_event("worker started")
        save(tmp_path / "handlers.py", "this is wrong")
        wait_until(lambda: "can't be imported" in worker.messages, "the mistake is shown")
        save(tmp_path / "handlers.py", MODULE.replace('"end"', '"finish"'))
        worker.wait_event("worker started", 2)
        client.put("x", tube="thread")
        worker.wait_ledger("finish")
        assert worker.stop() == 0
        assert len(worker.events("worker stopped")) == 2


def test_settings_come_from_flags_the_code_and_the_environment(
    beanpole: Server, client: Client[str], tmp_path: Path
) -> None:
    url = f"beanstalk://{HOST}:{beanpole.port}"
    with program(tmp_path, 0, "-c", "7", "-V", env={"BEANPOLE_URL": url}) as worker:
        worker.wait_event("worker started")
        (line,) = worker.events("worker started")
        assert (line["server"], line["concurrency"]) == (url, 7)
        client.put("x", tube="loop")
        worker.wait_event("job done")
        assert worker.stop() == 0
    (tmp_path / "handlers.py").write_text(MODULE.replace("Worker(", f"Worker('{HOST}:{beanpole.port}', "))
    with program(tmp_path, 0, env={"BEANPOLE_URL": "unix:/nowhere"}) as by_code:
        by_code.wait_event("worker started", 2)
        assert by_code.stop() == 0
    (tmp_path / "handlers.py").write_text(MODULE.replace("Worker(", "Worker('unix:/nowhere', "))
    with program(tmp_path, beanpole.port) as by_flag:
        by_flag.wait_event("worker started", 3)
        assert by_flag.stop() == 0
        assert {line["server"] for line in by_flag.events("worker started")} == {url}


CLIENTS = """
from beanpole import Client, Worker

worker = Worker()


@worker.handler("thread")
def put(task):
    with Client() as client:
        client.put(task.body, tube="others")


@worker.handler("process", process=True)
def put_there(task):
    put(task)
"""


def test_clients_of_handlers_use_the_server_of_the_flag(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    """Also in the processes of handlers, which import their module again."""
    (tmp_path / "handlers.py").write_text(CLIENTS)
    client.put("one", tube="thread")
    client.put("two", tube="process")
    with program(tmp_path, beanpole.port) as worker:
        wait_until(lambda: client.stats().cmd_delete == 2, "both are done", START_TIMEOUT_S)
        assert worker.stop() == 0
    assert client.stats_tube("others").current_jobs_ready == 2
