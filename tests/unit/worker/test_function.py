"""Functions that are put as jobs: a call here, a job for later, and one declaration for both."""

import asyncio
import json
import os
import pickle
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, assert_type

import pytest

from beanpole import ArgumentError, CannotConnectError, JobFunction, JsonCodec, TextCodec, Worker
from beanpole.client import Address
from beanpole.testing import FakeServer
from tests.e2e.process import wait_until
from tests.servers import REPLY_TIMEOUT_S
from tests.unit.worker.functions import calls, fetch, put_shout, send, shout, worker, write


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """An empty server: that of the worker and of its functions."""
    own = worker.address
    calls.clear()
    with FakeServer() as running:
        worker.address = Address.of(running.url)
        yield running
    worker.address = own


def bodies(server: FakeServer, tube: str = "sends") -> list[object]:
    return [json.loads(job.body) for job in server.jobs(tube)]


# --- Here, and later --------------------------------------------------------------------------------------------------


def test_a_call_is_a_call(server: FakeServer) -> None:
    assert send(3) == "hello 3"
    assert calls == [(3, "hello", 1, None)]
    assert server.jobs() == []


def test_put_makes_a_job_and_the_worker_calls_the_function(server: FakeServer) -> None:
    assert send.put(3) == 1
    assert send.put(user=4, template="bye ☕", copies=2) == 2
    assert bodies(server) == [{"user": 3}, {"user": 4, "template": "bye ☕", "copies": 2}]
    assert "☕".encode() in server.jobs("sends")[1].body
    with server.running(worker):
        server.join()
    assert sorted(calls, key=str) == [(3, "hello", 1, 1), (4, "bye ☕", 2, 1)]
    assert server.jobs() == []


def test_aput_does_the_same_from_every_loop(server: FakeServer) -> None:
    async def put_some() -> list[int]:
        return await asyncio.gather(*(send.aput(user) for user in range(20)))

    assert sorted(asyncio.run(put_some())) == list(range(1, 21))
    assert sorted(asyncio.run(put_some())) == list(range(21, 41))
    wait_until(lambda: not server.peers, "the connection of a loop ends with the loop")


def test_a_coroutine_function_runs_on_the_loop(server: FakeServer) -> None:
    fetch.put("http://x")
    with server.running(worker):
        server.join()
    assert calls == [("http://x", 1), (8, "http://x", 1, 1)]


@pytest.mark.parametrize("processes", [True, False])
def test_a_process_finds_the_function_and_puts_to_the_workers_server(
    server: FakeServer, tmp_path: Path, *, processes: bool
) -> None:
    """Though in the process the worker has the address of its module; a test may have it in its own process."""
    write.put(str(tmp_path / "number"))
    put_shout.put(str(tmp_path / "shout"))
    with server.running(worker, processes=processes):
        server.join(timeout=REPLY_TIMEOUT_S)
    assert worker.processes
    assert (int((tmp_path / "number").read_text()) != os.getpid()) is processes
    assert (tmp_path / "shout").read_text() == "loud"
    assert calls == [(4, "from a process", 1, 1)]


def test_a_function_that_no_process_finds_is_a_clear_error() -> None:
    def local(x: int) -> None:
        pass

    with pytest.raises(ArgumentError, match=r"local can't be found by another process"):
        Worker().function("x", process=True)(local)
    made = Worker()
    made.function("x", process=True)(wait_until)
    with pytest.raises(pickle.PicklingError, match=r"can't find wait_until in tests\.e2e\.process: decorate it"):
        pickle.dumps(made._handlers["x"].function)


def test_many_threads_put_at_once(server: FakeServer) -> None:
    threads = [threading.Thread(target=lambda: [send.put(1) for _ in range(10)]) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(REPLY_TIMEOUT_S)
    assert len(server.jobs("sends")) == 80
    assert len(server.peers) <= 8


def test_a_forked_process_puts_over_a_connection_of_its_own(server: FakeServer) -> None:
    assert send.put(1) == 1
    pid = os.fork()
    if pid == 0:
        os._exit(0 if send.put(2) == 2 and send.put(3) == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert send.put(4) == 4
    assert bodies(server) == [{"user": user} for user in (1, 2, 3, 4)]


def test_nothing_connects_before_the_first_put() -> None:
    made = Worker("beanstalk://127.0.0.1:1")

    @made.function("x")
    def nothing() -> None:
        pass

    nothing()
    with pytest.raises(CannotConnectError):
        nothing.put()


# --- Options ----------------------------------------------------------------------------------------------------------


def test_options_are_those_of_put(server: FakeServer) -> None:
    later = send.options(delay=60, priority=7)
    later.put(1)
    later.options(ttr=9, tube="others").put(2)
    send.put(3)
    jobs = [(job.tube, job.pri, job.delay, job.ttr) for job in server.jobs()]
    assert jobs == [("sends", 7, 60, 60), ("others", 7, 60, 9), ("sends", 65536, 0, 60)]


def test_a_key_makes_a_job_only_once(server: FakeServer) -> None:
    put = Worker(server.url).function("x")(shout).options(key="one")
    assert put.put("a") == put.put("b") == 1
    assert bodies(server, "x") == [{"path": "a"}]


def test_an_option_that_there_is_none_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"options\(\) knows priority, delay, .*, not dealy"):
        send.options(dealy=60)  # type: ignore[call-arg]


# --- What does not fit ------------------------------------------------------------------------------------------------


def test_arguments_that_do_not_fit_are_not_put(server: FakeServer) -> None:
    with pytest.raises(TypeError, match=r"^send\(user: int, .*\): missing a required argument: 'user'$"):
        send.put()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'usr'"):
        send.put(3, usr=3)  # type: ignore[call-arg]
    assert server.jobs() == []


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, float("nan"), "\ud800", [{"deep": object()}]])
def test_what_json_cant_say_is_not_put(server: FakeServer, value: object) -> None:
    with pytest.raises(TypeError, match="JSON can't say the parameter 'template': "):
        send.put(3, template=value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="JSON can't say the parameter 'template': "):
        asyncio.run(send.aput(3, template=value))  # type: ignore[arg-type]
    assert server.jobs() == []


@pytest.mark.parametrize(
    "body", ["{", "[3]", "3", "null", "", "{}", '{"user": 3, "usr": 4}', '{"user": 3, "self": 4}', "\ud800"]
)
def test_a_body_that_does_not_fit_is_not_tried_again(server: FakeServer, body: str) -> None:
    server.put(body.encode(errors="surrogatepass"), tube="sends")
    with server.running(worker):
        wait_until(lambda: [job.state for job in server.jobs()] == ["buried"], "it is buried")
    assert calls == []
    assert server.jobs()[0].reserves == 1


def star(*args: int) -> None:
    """Takes what has no name."""


def keywords(**kwargs: int) -> None:
    """Takes any name."""


def positional(x: int, /) -> None:
    """Takes what can't be given by its name."""


@pytest.mark.parametrize("function", [star, keywords, positional])
def test_parameters_without_a_name_of_their_own_are_refused(function: Callable[..., None]) -> None:
    made = Worker()
    with pytest.raises(
        ArgumentError, match=f"JSON object of the parameters, each by its name: .* of {function.__name__}"
    ):
        made.function("x")(function)
    assert not made._handlers


def test_a_codec_that_reads_no_json_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"TextCodec.*latin-1.* does not read"):
        Worker(codec=TextCodec("latin-1")).function("x")
    for options in ({"encoding": None}, {"codec": JsonCodec()}, {"encoding": "UTF8"}):
        Worker(**options).function("x")
    with pytest.raises(ArgumentError, match="name the tubes of the handler"):
        Worker().function(star)  # type: ignore[call-overload]


@pytest.mark.parametrize("options", [{"encoding": None}, {"codec": JsonCodec()}, {}])
def test_every_codec_that_reads_json(options: dict[str, Any]) -> None:
    got: list[object] = []
    with FakeServer() as server:
        made = Worker(server.url, **options)

        @made.function("x")
        def append(value: object) -> None:
            got.append(value)

        append.put({"a": ["é", None, 1.5]})
        with server.running(made):
            server.join()
    assert got == [{"a": ["é", None, 1.5]}]


# --- Types: mypy reads this, and complains of an ignore that is not needed --------------------------------------------


@pytest.mark.usefixtures("server")
def test_types_are_those_of_the_function() -> None:
    assert_type(send(3, template="x"), str)
    assert_type(send.put(3, copies=2), int)
    assert_type(send.options(delay=1.0, key=None).put(3), int)
    coroutine = assert_type(send.aput(3), Coroutine[Any, Any, int])
    coroutine.close()
    coroutine = assert_type(fetch("x"), Coroutine[Any, Any, int])
    coroutine.close()
    with pytest.raises(TypeError):
        send.put("3", "x", 4)  # type: ignore[arg-type, call-arg]
    with pytest.raises(ArgumentError):
        send.options(delay="soon").put(3)  # type: ignore[arg-type]
    assert isinstance(send, JobFunction)
