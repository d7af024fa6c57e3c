"""What each action does to a running server, ours and beanstalkd."""

import pytest

from beanpole.client import Client
from beanpole.console.actions.action import Filter, Given, Ids, Pattern, RefusedError, Tube
from beanpole.console.actions.runs import Run
from beanpole.errors import NotFoundError
from tests.e2e.console.acting import World, act, buried, client_of, ids_in, on_either, on_ours
from tests.servers import Server


def outcome(run: Run) -> tuple[int, int, dict[str, int]]:
    return run.done, run.gone, dict(+run.refused)


@on_either
async def test_deletes_jobs_and_says_what_became_of_each(world: World, client: Client[bytes], tube: str) -> None:
    held = client.put(b"held", 0, tube=tube)
    client.watch(tube)
    assert client.reserve(0).id == held
    ids = client.put_many([b"one", b"two", b"three"], tube=tube)
    client.delete(ids[0])
    target = Ids((held, *ids))
    made = await world.dry("delete", target)
    assert (made.count, made.highest, [job.id for job in made.sample]) == (4, None, [held, *ids[1:]])
    assert made.notes == ("1 is gone", "1 is held by workers: only these can finish them")
    run = await world.run("delete", target)
    assert outcome(run) == (2, 1, {"a worker holds it": 1})
    assert (run.state, run.undo) == ("done", None)
    (line,) = world.lines.lines
    assert line == {
        "level": "info",
        "event": "action",
        "who": "anne",
        "verb": "delete",
        "server": "queue",
        "target": str(target),
        "run": 1,
        "state": "done",
        "done": 2,
        "gone": 1,
        "refused": 1,
    }
    assert ids_in(client, tube, "ready") == []
    assert client.stats_job(held).state == "reserved"


@on_ours
async def test_cancels_also_what_workers_have(world: World, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"x"] * 4, tube=tube)
    client.watch(tube)
    client.reserve_many(3, 0)
    made = await world.dry("cancel", Ids((ids[0], ids[3])))
    assert (made.count, made.notes) == (2, ())
    assert made.command_line.startswith("beanpole cancel ")
    assert outcome(await world.run("cancel", Ids((ids[0], ids[3], ids[0] + 10**6)))) == (2, 1, {})
    assert outcome(await world.run("cancel", Filter(tube, "reserved"))) == (2, 0, {})
    assert [each.jobs_cancelled for each in client.stats_tubes() if each.name == tube] == [4]
    with pytest.raises(NotFoundError):
        client.touch(ids[1])


@on_either
async def test_what_was_put_since_the_dry_run_is_left_alone(world: World, client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"%d" % number for number in range(1_200)], tube=tube)
    made = await world.dry("delete", Filter(tube, "ready"))
    assert (made.count, made.is_exact, made.highest) == (1_200, True, ids[-1])
    assert [job.id for job in made.sample] == ids[:10]
    later = client.put_many([b"later"] * 3, 0, tube=tube)
    with pytest.raises(RefusedError, match="these are 1200 jobs: type this number"):
        await world.begin(made)
    with pytest.raises(RefusedError, match="type this number"):
        await world.begin(made, 1_199)
    run = await world.begin(made, 1_200)
    await run.wait(60)
    assert outcome(run) == (1_200, 0, {})
    assert ids_in(client, tube, "ready") == later


@on_either
async def test_kicks_what_is_buried(world: World, client: Client[bytes], tube: str) -> None:
    ids = buried(client, tube, 5)
    ready = client.put(b"ready", tube=tube)
    run = await world.run("kick", Filter(tube, "buried"))
    assert outcome(run) == (5, 0, {})
    run = await world.run("kick", Ids((ready,)))
    assert outcome(run) == (0, 0, {"it is ready: there is nothing to kick": 1})
    assert run.undo is None
    assert ids_in(client, tube, "ready") == [*ids, ready]


@on_either
async def test_clears_a_tube_of_some_states(world: World, client: Client[bytes], tube: str) -> None:
    buried(client, tube, 3)
    client.put(b"delayed", delay=1_000, tube=tube)
    ready = client.put(b"ready", tube=tube)
    made = await world.dry("clear", Tube(tube), Given(states=("buried", "delayed")))
    assert made.count == 4
    assert outcome(await world.run("clear", Tube(tube), Given(states=("buried", "delayed")))) == (4, 0, {})
    assert ids_in(client, tube, "ready") == [ready]
    assert ids_in(client, tube, "buried") == ids_in(client, tube, "delayed") == []


@on_either
async def test_moves_jobs_which_keep_what_they_are(world: World, client: Client[bytes], tube: str) -> None:
    client.put(b"ready", 3, 0, 11, tube=tube)
    client.put(b"delayed", 4, 1_000, 12, tube=tube)
    buried(client, tube, 1)
    held = client.put(b"held", 0, tube=tube)
    client.reserve_job(held)
    for state in ("ready", "delayed", "buried"):
        run = await world.run("move", Filter(tube, state), Given(to=f"{tube}-to"))
        assert outcome(run) == (1, 0, {})
    with pytest.raises(RefusedError, match="in this tube already"):
        await world.dry("move", Filter(tube, "ready"), Given(to=tube))
    found = {}
    for state in ("ready", "delayed", "buried"):
        (id,) = ids_in(client, f"{tube}-to", state)
        stats = client.stats_job(id)
        found[state] = (client.peek(id).body, stats.pri, stats.ttr)
    assert found["ready"] == (b"ready", 3, 11)
    assert found["delayed"] == (b"delayed", 4, 12)
    assert found["buried"][0] == b"job 0"
    assert client.stats_tube(tube).current_jobs_reserved == 1
    assert not [id for state in found for id in ids_in(client, tube, state)]


def test_what_a_server_lacks_is_said_before_anything_is_done(theirs: Server, tube: str) -> None:
    with client_of(theirs) as client:
        id = client.put(b"x", tube=tube)

        async def do(world: World) -> None:
            for verb, target, given, lacks in (
                ("change", Ids((id,)), Given(priority=1), "change-job.pri"),
                ("put", Tube(tube), Given(body=b"x", key="k"), "put-job.key"),
                ("put", Tube(tube), Given(body=b"x", delay=0.5), "put-job"),
                ("set-rules", Pattern(tube), Given(rules="attempts: 1"), "set-rules"),
            ):
                with pytest.raises(RefusedError, match=f"{verb} needs {lacks}, which this server does not have"):
                    await world.dry(verb, target, given)

        act(theirs, do)


@on_ours
async def test_a_dead_job_that_can_not_go_back_stays_buried(world: World, client: Client[bytes], tube: str) -> None:
    client.set_rules(tube, {"attempts": 1, "dead": f"{tube}-dead"})
    dead = client.put(b"x", tube=tube)
    client.fail_job(client.reserve_job(dead), "no")
    client.reserve_job(dead)
    client.bury(dead)
    client.set_rules(tube, {"bytes-max": 1})
    client.put(b"y", tube=tube)
    run = await world.run("redrive", Ids((dead,)))
    assert outcome(run) == (0, 0, {"the server has no room for it": 1})
    found = client.stats_job(dead)
    assert (found.tube, found.state) == (f"{tube}-dead", "buried")
    client.set_rules(tube, {"bytes-max": 2})
    assert outcome(await world.run("redrive", Ids((dead,)))) == (1, 0, {})
    found = client.stats_job(dead)
    assert (found.tube, found.state) == (tube, "ready")


@on_ours
async def test_a_job_that_is_changed_by_halves_says_so(world: World, client: Client[bytes], tube: str) -> None:
    client.set_rules("full", {"jobs-max": 1})
    client.put(b"there", tube="full")
    id = client.put(b"before", tube=tube)
    run = await world.run("change", Ids((id,)), Given(to="full", body=b"behind"))
    assert outcome(run) == (0, 0, {"its body was changed, but nothing else: the server has no room for it": 1})
    assert (client.peek(id).body, client.stats_job(id).tube) == (b"behind", tube)
