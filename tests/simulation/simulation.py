"""Seeded runs: random clients, crashes at any moment, recovery, and a judgement; again and again on one disk."""

from random import Random

from beanpole.engine.restore import Restore
from beanpole.errors import StartError
from beanpole.log.errors import DamageError
from beanpole.log.limits import SHORT_SYNCS
from beanpole.log.log import Policy
from beanpole.shard_ids import end_id
from tests.simulation.disk import CrashError, SimDisk
from tests.simulation.history import History, Recovered, Rules
from tests.simulation.inspection import Inspected, inspect
from tests.simulation.keeping import TOKENS, Keeping, Kept
from tests.simulation.life import Client, Life, Promises
from tests.simulation.runner import NS_PER_S, Clock
from tests.simulation.scheduling import Schedules

TUBES = (b"default", b"a", b"bb")
POLICIES = (0, 0, 0, 20, None)
SEGMENTS = (1024, 4096, 4096, 8192, 16384, 65536)
RULES = (
    b"",
    b"attempts: 2\n",
    b"attempts: 1\ndead: bb\n",
    b"backoff: 1\n",
    b"attempts: 3\ndead: a\nbackoff: 0.5 max 2\n",
    b"unique: body\nattempts: 2",
    b"unique: body until reserve",
    b"expire: 2\n",
    b"expire: 4 dead\nattempts: 2\n",
    b"expire: 1 dead\ndead: a\n",
)
CLIENTS_MAX = 4
SHARDS = ((), (), (0,), (1,), (3, 17), (1023,))
LIMITS = (
    b"",
    b"concurrency: 1\n",
    b"concurrency: 2\njobs-max: 5\n",
    b"rate: 1/s burst 2\n",
    b"rate: 30/s\nbytes-max: 500\n",
)


class Simulation:
    """One seed: several lives on one disk."""

    def __init__(
        self,
        seed: int,
        *,
        extensions: bool = False,
        limits: bool = False,
        with_schedules: bool = False,
        keeps: bool = False,
    ) -> None:
        self.extensions = extensions
        self.limits = limits
        self.rng = rng = Random(seed)
        self.disk = SimDisk(rng.randrange(2**32))
        self.clock = Clock()
        self.promises = Promises()
        self.policy = Policy(rng.choice(POLICIES))
        self.segment_bytes = rng.choice(SEGMENTS)
        self.jobs_wanted = rng.choice((3, 10, 30))
        self.body_bytes = rng.choice((10, 100, 100, 600, 3000))
        self.rules = Rules(clock_jumps=rng.random() < 0.2, disk_full=rng.random() < 0.2)
        self.schedules: Schedules | None = None
        if with_schedules:
            self.schedules = Schedules(rng, self.rules, min(self.body_bytes, self.segment_bytes // 4))
        self.keeping = Keeping() if keeps else None
        if keeps:  # so that there is always room for a record that may be left out
            self.segment_bytes, self.body_bytes = max(self.segment_bytes, 8192), min(self.body_bytes, 100)
        self.shard = Random(seed).choice(SHARDS)
        self.cuts_before = 0
        """Losses of power before the last life ended."""

        self.kept_least: tuple[Kept, Kept] = {}, {}
        """What must wait after a kill, and what after a loss of power."""

        self.crashing_starts = 0.4
        """How many of the starts end in a crash."""

        self.history: History | None = None
        self.least_step = 0
        self.power_cuts = 0
        self.kills = 0

    def run(self) -> None:
        for _ in range(self.rng.randint(2, 6)):
            self.live(self.start())

    # --- start --------------------------------------------------------------------------------------------------------

    def recover(self) -> Life:
        """Starts a process, with a crash or two in the middle of that."""
        while True:
            self.disk.crash_at = self.rng.randint(1, 25) if self.rng.random() < self.crashing_starts else 0
            self.disk.call_count = 0
            try:
                life = Life(
                    self.disk, self.clock, self.policy, self.segment_bytes, self.promises, shard=self.given_shard()
                )
            except CrashError:
                self.end_process(0.5)
                continue
            except (StartError, OSError) as error:
                if isinstance(error, DamageError) or (self.disk.capacity is None and not self.disk.fault_count):
                    raise AssertionError(f"recovery refuses: {error}") from error
                self.disk.capacity = None
                self.end_process(0.0)
                continue
            self.disk.crash_at = 0
            life.has_limits = self.limits
            life.log.short_syncs = self.rng.choice((0, SHORT_SYNCS))  # whether the loop may sync a lone record
            return life

    def given_shard(self) -> tuple[int, ...]:
        """The numbers that a start gives: not always, where the log has them for certain."""
        is_kept = self.policy.always and self.promises.highest_id > 0
        return () if is_kept and self.promises.highest_id % 2 else self.shard

    def start(self) -> Life:
        """Recovers and judges what came back."""
        life = self.recover()
        assert life.engine.shard == self.shard, f"it is shard {life.engine.shard}, not {self.shard}"
        inspected = inspect(self.disk, self.clock, self.segment_bytes)
        assert inspected.found.jobs == life.found.jobs, "recovering twice is not recovering once"
        life.found.pauses = inspected.found.pauses
        assert inspected.next_job_id == life.engine.next_job_id, "recovering twice gives another next id"
        self.judge(life, inspected)
        life.check()
        if self.keeping is not None:
            if not self.rules.disk_full:  # else that a job does not wait any more may find no room
                killed = self.power_cuts == self.cuts_before
                least = self.kept_least[0 if killed else 1]
                self.keeping.judge(inspected.kept, least, all_told=killed or self.policy.always)
            self.keeping.begin(life.engine, life.now_ns, inspected.kept, exact=not self.rules.disk_full)
            life.keeping = self.keeping
        # Not where held jobs are listed at each step: that takes some turns.
        if not self.promises.highest_id and len(self.shard) > 1 and self.keeping is None:
            Restore(life.engine).reach_job_id(end_id(self.shard[0]) - self.jobs_wanted)
        return life

    def judge(self, life: Life, inspected: Inspected) -> None:
        """Asserts that what came back is what was promised."""
        there, promises = life.found.jobs.keys(), self.promises
        lost = promises.put - there - promises.delete_asked
        kept_all = self.policy.always
        assert not (kept_all and lost), f"jobs {sorted(lost)} were INSERTED, nobody asked to delete them, and are gone"
        both = promises.deleted & promises.cancelled
        assert not (kept_all and both), f"jobs {sorted(both)} were DELETED, and CANCELLED as well"
        back = (promises.deleted | promises.cancelled) & there
        assert not (kept_all and back), f"jobs {sorted(back)} were DELETED or CANCELLED, and are back"
        known = {id for _, _, id, _ in life.engine.once.tokens()} if life.engine.once else set()
        promises.once_put.pop((), None)
        for name, ids in promises.once_put.items():
            ids.intersection_update(there)  # the ids of the others may be given again
            assert len(ids) <= 1, f"the put {name} was done twice: {sorted(ids)}"
            assert ids <= known, f"the token of {name} is lost, and its job {sorted(ids)} is not"
        least_id = promises.highest_id if kept_all else max(there, default=0)
        assert life.engine.next_job_id > least_id, f"id {life.engine.next_job_id} is given again"
        judged: Recovered = life.found
        if self.history is not None:
            judged = self.history.judge(life.found, self.least_step)
        elif there:
            raise AssertionError(f"an empty disk holds the jobs {sorted(there)}")
        for job in life.engine.jobs.jobs():
            assert self.history is not None
            told = self.history.jobs[job.id]
            assert inspected.tubes[job.id] == job.tube.name, f"job {job.id} is in tube {inspected.tubes[job.id]!r}"
            assert job.created_at_ns == told.created_at_ns, f"job {job.id} has another age"
        for tube, buried in inspected.buried.items():
            numbers = [judged.jobs[id].bury_number for id in buried]
            assert numbers == sorted(numbers), f"tube {tube!r}: buried jobs {buried} are out of order, {numbers}"
        if self.schedules is not None:
            self.schedules.judge(life, promises)
        history = History(self.rules)
        history.begin(self.history, judged, life.engine)
        self.history = life.history = history

    def end_process(self, kill: float) -> None:
        """Ends the process, at times by a loss of power."""
        if self.rng.random() < kill:
            self.kills += 1
            self.disk.kill()
        else:
            self.power_cuts += 1
            self.disk.lose_power()
            self.clock.offset_ns += self.clock.now_ns - NS_PER_S
            self.clock.now_ns = NS_PER_S
            self.pass_time(100 * NS_PER_S)
        if self.rules.clock_jumps and self.rng.random() < 0.5:
            self.clock.offset_ns += self.rng.randint(-100, 100) * NS_PER_S

    # --- life ---------------------------------------------------------------------------------------------------------

    def live(self, life: Life) -> None:
        """Lets clients and the log do what they do until a crash or a stop in good order."""
        rng = self.rng
        if rng.random() < 0.6:
            self.disk.crash_at = rng.randint(1, rng.choice((30, 300)))
        if self.rules.disk_full and rng.random() < 0.7:
            self.disk.capacity = self.disk.used_bytes() + rng.randint(0, 3 * self.segment_bytes)
        closed = False
        try:
            for _ in range(rng.choice((20, 60, 150))):
                self.act(life)
                assert not life.failed, f"the log failed: {life.log.failure}"
                if self.schedules is not None:
                    self.schedules.check(life)
            self.disk.crash_at = 0
            life.check()
            if rng.random() < 0.2:
                life.log.close()
                life.deliver()
                closed = True
        except CrashError:
            pass
        self.end(life, closed=closed)

    def end(self, life: Life, *, closed: bool = False) -> None:
        """Takes note of where a process was, and ends it."""
        life.crash_note()
        assert life.history is not None
        self.least_step = life.history.step if closed else life.least_step()
        self.cuts_before = self.power_cuts
        if self.keeping is not None:
            index = life.log.durable_index  # what is behind it may be there or not, also what has no number
            self.kept_least = self.keeping.least(index), self.keeping.least(index - 1) if self.policy.always else {}
        self.end_process(0.3)

    def fail(self, life: Life, acts_max: int) -> None:
        """Goes on until the log fails, and a little further."""
        for _ in range(acts_max):
            self.act(life)
            if life.failed:
                break
        for _ in range(5):
            self.act(life)
        self.end(life)

    def act(self, life: Life) -> None:
        """One thing happens."""
        rng, runner = self.rng, life.runner
        what = rng.random()
        if what < 0.45:
            self.turn(life)
        elif what < 0.65:
            life.guard(runner.finish_sync)
        elif what < 0.75:
            life.guard(runner.run_background)
        elif what < 0.92:
            life.guard(runner.run_soon)
        elif what < 0.97:
            self.pass_time(rng.choice((10**6, 10**8, NS_PER_S, 5 * NS_PER_S)))
            life.guard(runner.run_timers)
        elif self.disk.capacity is not None:
            self.disk.capacity = max(
                0, self.disk.used_bytes() + rng.randint(-self.segment_bytes, 2 * self.segment_bytes)
            )
        if self.rules.clock_jumps and rng.random() < 0.05:
            self.clock.offset_ns += rng.randint(-20, 20) * NS_PER_S

    def pass_time(self, duration_ns: int) -> None:
        self.clock.now_ns += self.rng.randint(0, duration_ns)

    def turn(self, life: Life) -> None:
        """One turn of the server, which runs no more of them after a failure."""
        rng = self.rng
        if not life.failed:
            life.tick()
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            if life.failed:
                return
            if len(life.clients) < CLIENTS_MAX and (not life.clients or rng.random() < 0.1):
                life.connect()
            client = rng.choice(life.clients)
            if rng.random() < 0.03:
                life.disconnect(client, by_server=self.keeping is not None and rng.random() < 0.5)
            elif not client.waiting:
                self.command(life, client)
        life.end_turn()

    def command(self, life: Life, client: Client) -> None:
        """A client asks for something, so that there are neither too many jobs nor too few."""
        rng = self.rng
        some_id = rng.randint(max(1, life.engine.next_job_id - 2 * self.jobs_wanted), life.engine.next_job_id)
        tube = rng.choice(TUBES)
        if self.limits and rng.random() < 0.1:
            self.change_rules(life, client)
            return
        if self.keeping is not None and rng.random() < 0.12:
            line = b"keep-session %d %b" % (rng.choice((0, 2, 30, 30, 30)), rng.choice(TOKENS))
            life.send(client, b"keep-session", line + rng.choice((b"", b" ends=all")))
            return
        if self.schedules is not None and rng.random() < 0.25:
            self.schedules.command(life, client, TUBES)
            return
        if self.extensions and rng.random() < 0.4:
            self.use_extension(life, client, some_id, tube)
            return
        what = rng.random()
        if what < 0.30:
            if life.engine.jobs.count < self.jobs_wanted or rng.random() < 0.2:
                self.put(life, client)
            else:
                life.send(client, b"delete", b"delete %d" % some_id, some_id)
        elif what < 0.60 and client.held:
            self.use_held(life, client, rng.choice(client.held))
        elif what < 0.75:
            asks = self.extensions and rng.random() < 0.3
            verb, line = (b"reserve-many", b"reserve-many 0") if asks else (b"reserve", b"reserve-with-timeout")
            life.send(client, verb, b"%b %d" % (line, rng.choice((0, 0, 0, 2))))
        else:
            verb, line = rng.choice(
                (
                    (b"reserve-job", b"reserve-job %d" % some_id),
                    (b"kick-job", b"kick-job %d" % some_id),
                    (b"kick", b"kick %d" % rng.choice((1, 2, 100))),
                    (b"pause-tube", b"pause-tube %s %d" % (tube, rng.choice((0, 1, 100)))),
                    (b"use", b"use " + tube),
                    (b"watch", b"watch " + tube),
                    (b"ignore", b"ignore " + tube),
                )
            )
            life.send(client, verb, line)

    def use_extension(self, life: Life, client: Client, id: int, tube: bytes) -> None:
        """A client asks for something that beanstalkd does not have."""
        rng = self.rng
        what = rng.random()
        text = rng.randbytes(rng.choice((0, 1, self.body_bytes)))
        if what < 0.05 and not self.rules.disk_full:  # without room a job may fail without a record
            rules = rng.choice(RULES)
            life.send(client, b"set-rules", b"set-rules %b %d" % (tube, len(rules)), 0, rules)
        elif what < 0.3 and client.held:
            held = rng.choice(client.held)
            line = (
                rng.choice((b"snooze-job %d 3", b"change-job %d ttr=50", b"fail-job %d 3", b"fail-job %d 2 dead=now"))
                % held
            )
            reason = None if line[:1] != b"f" else (b"why" if line.endswith(b" 3") else b"no")
            life.send(client, line.split()[0], line, held, reason)
        elif what < 0.6 and life.engine.jobs.count < 2 * self.jobs_wanted:
            line = b"put-job %d tube=%b delay=%d" % (len(text), tube, rng.choice((0, 0, 20)))
            line += rng.choice((b"", b" key=k", b" key=k taken=replace", b" key=k until=reserve", b" key=other"))
            line += rng.choice((b"", b"", b" expire=2", b" expire=30"))
            line += rng.choice((b"", b" once=%d for=86400" % rng.randrange(8)))
            if self.rules.disk_full:  # a hand-out that finds no room is not recorded
                line = line.replace(b" until=reserve", b"")
            life.send(client, b"put-job", line, 0, text)
        elif what < 0.75:
            if rng.random() < 0.3:
                id = rng.choice([id, *(held for each in life.clients for held in each.held)])
                life.send(client, b"cancel-job", b"cancel-job %d" % id, id)
            else:
                life.send(client, b"change-body", b"change-body %d %d" % (id, len(text)), id, text)
        elif what < 0.85:
            state = rng.choice((b"ready", b"delayed", b"buried"))
            to = rng.choice([each for each in TUBES if each != tube])
            line = rng.choice(
                (
                    b"clear-tube %b %b" % (tube, state),
                    b"move-jobs %b %b %d to=%b" % (tube, state, rng.choice((1, 9)), to),
                )
            )
            life.send(client, line.split()[0], line)
        else:
            change = rng.choice(
                (b"tube=" + tube, b"pri=%d tube=%b" % (rng.randrange(3), tube), b"delay=20", b"delay=0")
            )
            change += rng.choice((b"", b"", b" expire=20"))
            life.send(client, b"change-job", b"change-job %d %b" % (id, change), id)

    def change_rules(self, life: Life, client: Client) -> None:
        """A client limits tubes, or limits them no more."""
        pattern = self.rng.choice((b"*", b"a", b"a", b"b*", b"bb", b"c"))
        text = self.rng.choice(LIMITS)
        if self.rng.random() < 0.3:
            life.send(client, b"drop-rules", b"drop-rules " + pattern)
        else:
            life.send(client, b"set-rules", b"set-rules %b %d" % (pattern, len(text)), body=text)

    def put(self, life: Life, client: Client) -> None:
        rng = self.rng
        size = rng.randint(0, self.body_bytes)
        if rng.random() < 0.02:
            size = rng.randint(0, 2 * self.segment_bytes)
        body = rng.randbytes(min(size, 65535))
        line = b"put %d %d %d %d" % (
            rng.choice((0, 1, 5, 2**32 - 1)),
            rng.choice((0, 0, 0, 1, 30)),
            rng.choice((1, 3, 100)),
            len(body),
        )
        life.send(client, b"put", line, body=body)

    def use_held(self, life: Life, client: Client, id: int) -> None:
        rng = self.rng
        what = rng.random()
        if what < 0.3:
            life.send(client, b"delete", b"delete %d" % id, id)
        elif what < 0.6:
            life.send(client, b"bury", b"bury %d %d" % (id, rng.randint(0, 9)), id)
        elif what < 0.9:
            life.send(client, b"release", b"release %d %d %d" % (id, rng.randint(0, 9), rng.choice((0, 0, 1, 20))), id)
        else:
            life.send(client, b"touch", b"touch %d" % id, id)


def simulate(seed: int, **kinds: bool) -> Simulation:
    """Runs one seed. Raises AssertionError, in a line that says how to run it again."""
    try:
        simulation = Simulation(seed, **kinds)
        simulation.run()
    except Exception as error:
        what = str(error).replace("\n", " ") if isinstance(error, AssertionError) else repr(error)
        raise AssertionError(f"seed {seed}: {what} (again: SIMULATION_SEED={seed} pytest tests/simulation)") from error
    return simulation
