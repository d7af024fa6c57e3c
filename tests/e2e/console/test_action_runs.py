"""Runs that are stopped, undone, cut off, and raced by workers."""

import asyncio
from contextlib import aclosing

import pytest

from beanpole.client import AsyncClient, Client
from beanpole.console.actions.action import Action, Filter, Given, Ids, RefusedError, Tube
from beanpole.console.actions.dry import jobs_of
from beanpole.console.actions.runs import ACTIONS_AT_ONCE as AT_ONCE
from beanpole.console.actions.runs import Run, Runs, start
from beanpole.console.limits import ACTION_PIECE as PIECE
from beanpole.console.security.access import Visitor
from tests.e2e.console.acting import ANNE, Passes, World, act, buried, client_of, ids_in, on_either, on_ours
from tests.servers import HOST, REPLY_TIMEOUT_S, Server
from tests.unit.console.test_serving import until

COUNT = 2 * PIECE + 200  # jobs that are three pieces


async def undone(world: World, run: Run) -> Run:
    assert run.undo is not None
    action: Action = run.undo
    undo = await start(world.console, action, highest=None, typed=None, visitor=ANNE)
    await undo.wait(REPLY_TIMEOUT_S)
    return undo


# --- Undo -------------------------------------------------------------------------------------------------------------


@on_either
async def test_undoes_a_pause(world: World, client: Client[bytes], tube: str) -> None:
    client.put(b"x", tube=tube)
    first = await world.run("pause", Tube(tube), Given(seconds=1_000))
    again = await world.run("pause", Tube(tube), Given(seconds=5))
    await undone(world, again)
    assert 900 < client.stats_tube(tube).pause_time_left <= 1_000
    await undone(world, first)
    assert client.stats_tube(tube).pause_time_left == 0


@on_either
async def test_undoes_what_was_done_to_one_job(world: World, client: Client[bytes], tube: str) -> None:
    for verb, before, after in (("kick", "buried", "ready"), ("bury", "ready", "buried")):
        late = client.put(b"late", 7, 1_000, tube=tube)
        other = buried(client, tube, 1)[0] if before == "buried" else client.put(b"ready", 6, tube=tube)
        pri = client.stats_job(other).pri
        for id in (other, late):
            run = await world.run(verb, Ids((id,)))
            assert client.stats_job(id).state == after
            assert (await undone(world, run)).done == 1
        assert (client.stats_job(other).state, client.stats_job(other).pri) == (before, pri)
        found = client.stats_job(late)
        assert (found.state, found.pri) == ("delayed", 7)
        assert 900 < found.time_left <= 1_000


@on_either
async def test_several_jobs_are_not_undone(world: World, client: Client[bytes], tube: str) -> None:
    ids = buried(client, tube, 2)
    assert (await world.run("kick", Ids(tuple(ids)))).undo is None


# --- Ends in the middle -----------------------------------------------------------------------------------------------


def stopping(runs: list[Run]) -> Passes:
    """Stops the first run when a server has answered a piece of it."""

    async def passes(data: bytes) -> bool:
        if data.startswith(b"DELETED"):
            runs[0].stop("ben")
        return True

    return passes


def test_a_run_that_is_stopped_ends_behind_its_piece(ours: Server, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * COUNT, tube=tube)
    runs: list[Run] = []

    async def do(world: World) -> None:
        runs.append(await world.begin(await world.dry("delete", Filter(tube, "ready")), COUNT))
        await runs[0].wait(REPLY_TIMEOUT_S)
        assert (runs[0].state, runs[0].stopped_by, runs[0].done) == ("stopped", "ben", PIECE)
        assert world.lines.lines[-1]["stopped_by"] == "ben"

    act(ours, do, stopping(runs))
    assert len(ids_in(client, tube, "ready")) == COUNT - PIECE


@on_ours
async def test_a_search_that_finds_nothing_can_be_ended(world: World, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * COUNT, tube=tube)
    action = Action("delete", "queue", Filter(tube, "ready", "nowhere"))
    async with aclosing(jobs_of(world.console.server("queue"), action, None, PIECE)) as pieces:
        assert await anext(pieces) == []


def test_what_was_stopped_too_late_is_done(ours: Server, client: Client[bytes], tube: str) -> None:
    id = client.put(b"x", tube=tube)
    runs: list[Run] = []

    async def do(world: World) -> None:
        runs.append(await world.begin(await world.dry("delete", Ids((id,)))))
        await runs[0].wait(REPLY_TIMEOUT_S)
        assert (runs[0].state, runs[0].stopped_by, runs[0].done) == ("done", "", 1)

    act(ours, do, stopping(runs))


def test_a_server_that_is_lost_leaves_one_piece_unknown(ours: Server, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * COUNT, tube=tube)
    answers = 0

    async def passes(data: bytes) -> bool:
        nonlocal answers
        answers += data.startswith(b"DELETED")
        return answers < 2

    async def do(world: World) -> None:
        run = await world.run("delete", Filter(tube, "ready"), typed=COUNT)
        assert (run.state, run.done, run.unknown, run.gone) == ("failed", PIECE, PIECE, 0)
        assert run.failed.startswith("the server is gone: ")
        line = world.lines.lines[-1]
        assert (line["level"], line["event"], line["done"], line["unknown"]) == ("warning", "action", PIECE, PIECE)

    act(ours, do, passes)
    assert len(ids_in(client, tube, "ready")) == COUNT - 2 * PIECE


def test_a_console_that_ends_says_how_far_its_runs_came(ours: Server, client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * COUNT, tube=tube)
    is_held, answers = asyncio.Event(), 0

    async def passes(data: bytes) -> bool:
        nonlocal answers
        answers += data.startswith(b"DELETED")
        if answers == 2:
            is_held.set()
            await asyncio.Event().wait()
        return True

    async def do(world: World) -> None:
        run = await world.begin(await world.dry("delete", Filter(tube, "ready")), COUNT)
        await is_held.wait()
        await world.console.kept(Runs).stop()
        assert (run.state, run.done, run.unknown) == ("failed", PIECE, PIECE)
        assert run.failed == "the console ended before an answer came"
        assert run.stopped_by == "the end of the console"
        assert world.lines.lines[-1]["unknown"] == PIECE

    act(ours, do, passes)


# --- Others -----------------------------------------------------------------------------------------------------------


def test_a_worker_keeps_the_jobs_that_it_takes_in_between(either: Server, tube: str) -> None:
    with client_of(either) as client:
        ids = client.put_many([b"x"] * COUNT, tube=tube)

        async def do(world: World) -> None:
            worker = AsyncClient((HOST, either.port), None, watch=tube)
            taken: set[int] = set()

            async def work() -> None:
                while True:
                    taken.add((await worker.reserve()).id)

            made = await world.dry("delete", Filter(tube, "ready"))
            working = asyncio.create_task(work())
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                await until(lambda: bool(taken))
                run = await world.begin(made, COUNT)
                await run.wait(REPLY_TIMEOUT_S)
                there = set(ids_in(client, tube, "reserved"))
                await until(lambda: taken >= there)  # an answer may be on its way
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            assert set(ids_in(client, tube, "ready")) <= set(ids)
            assert run.done == COUNT - len(taken)
            assert run.refused.total() + run.gone <= len(taken)
            await worker.close()

        act(either, do)


def test_ten_runs_at_once(ours: Server, client: Client[bytes], tube: str) -> None:
    client.put(b"x", tube=tube)

    async def passes(data: bytes) -> bool:
        if data.startswith(b"PAUSED"):
            await asyncio.Event().wait()
        return True

    async def do(world: World) -> None:
        made = await world.dry("pause", Tube(tube), Given(seconds=1))
        for _ in range(AT_ONCE):
            await world.begin(made)
        with pytest.raises(RefusedError, match="10 actions run already"):
            await world.begin(made)

    act(ours, do, passes)


@on_ours
async def test_who_may_only_look_begins_nothing(world: World, client: Client[bytes], tube: str) -> None:
    id = client.put(b"x", tube=tube)
    made = await world.dry("delete", Ids((id,)))
    with pytest.raises(RefusedError, match="may look"):
        await start(world.console, made.action, highest=None, typed=None, visitor=Visitor())
    assert client.stats_job(id).state == "ready"
