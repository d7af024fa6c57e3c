"""What can be wrong with tubes. Each check is a function; `doctor` has the table of them.

One finding names all tubes that it is about: a thousand tubes in the same trouble are one trouble.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from beanpole.observe.findings import Finding, Severity, Visit, jobs_in
from beanpole.observe.growth import Quantiles
from beanpole.observe.sampling import HELD, OLDEST
from beanpole.observe.units import DAY_S, HOUR_S, MINUTE_S, count, duration, plural, rate, wait

if TYPE_CHECKING:
    from beanpole.client import StatsTube

BURIED_AGE_S = HOUR_S  # seconds since the put of a buried job after which it counts as forgotten
IDLE_AGE_S = MINUTE_S  # seconds that the oldest ready job may wait although workers watch its tube and none is busy
READY_AGE_S = DAY_S  # seconds that the oldest ready job has waited after which a tube counts as far behind
TIMEOUTS_OF_A_JOB = 3  # time-outs of one job after which it is not expected ever to finish in time
RUNS_COUNT = 20  # jobs of a tube that were held from which it is looked at how long that was
NEAR_TTR = 0.6  # the part of its TTR for which a job is held from which it is near its end
PAUSE_S = HOUR_S  # seconds of a pause, past or requested, after which it may have been forgotten
UNUSED_S = HOUR_S  # uptime from which a tube into which no job was put counts as one that nobody puts into
EDITED_LETTERS = 5  # letters of a word, the longer of two, from which one edit rather is a typo than another word

WORD = re.compile(r"[^\W_]+")  # a part of a tube's name between signs
NUMBER = re.compile(r"\d+")

Troubled = list[tuple[int, str, str]]
"""How bad it is, the name of the tube, and the line of evidence."""


def finding(severity: Severity, summary: str, advice: str, troubled: Troubled) -> Iterator[Finding]:
    if troubled:
        troubled.sort(key=lambda each: (-each[0], each[1]))
        names = tuple(name for _, name, _ in troubled)
        yield Finding(severity, summary, advice, tuple(f"{name}: {line}" for _, name, line in troubled), names)


def age_of_ready(visit: Visit, tube: "StatsTube") -> int:
    """Seconds since the oldest ready job became ready, else since the put of the next one; 0 if nobody knows."""
    if OLDEST in tube:
        return tube.oldest_ready
    return visit.ready[tube.name][1].age if tube.name in visit.ready else 0


def how_old(tube: "StatsTube", seconds: int) -> str:
    if not seconds:
        return ""
    return f", the oldest for {duration(seconds)}" if OLDEST in tube else f", the next one put {duration(seconds)} ago"


def buried(visit: Visit) -> Iterator[Finding]:
    old: Troubled = []
    new: Troubled = []
    for _, tube in visit.tubes():
        number = tube.current_jobs_buried
        if number and tube.name in visit.buried:
            age_s = visit.buried[tube.name][1].age
            line = f"{count(number)} buried, the first one put {duration(age_s)} ago"
            (old if age_s >= BURIED_AGE_S else new).append((number, tube.name, line))
        elif number:
            new.append((number, tube.name, f"{count(number)} buried"))
    advice = "Look at one with peek, find out why it was buried, then kick the jobs or delete them."
    yield from finding(Severity.WARNING, "buried jobs are old: nothing but a kick brings them back", advice, old)
    yield from finding(Severity.NOTE, "jobs are buried", advice, new)


def no_workers(visit: Visit) -> Iterator[Finding]:
    troubled: Troubled = []
    for tube in visit.lonely():
        if tube.name not in visit.dead_tubes:
            line = f"{count(tube.current_jobs_ready)} ready{how_old(tube, age_of_ready(visit, tube))}"
            troubled.append((tube.current_jobs_ready, tube.name, line))
    yield from finding(
        Severity.WARNING,
        "jobs are ready in tubes that no connection watches",
        "Start workers for these tubes, or stop putting into them.",
        troubled,
    )


def dead_jobs(visit: Visit) -> Iterator[Finding]:
    found: Troubled = [
        (tube.current_jobs_ready, tube.name, plural(tube.current_jobs_ready, "dead job"))
        for tube in visit.lonely()
        if tube.name in visit.dead_tubes
    ]
    advice = "Look at them with beanpole list TUBE --dead; beanpole redrive TUBE moves them back to where they died."
    yield from finding(Severity.NOTE, "dead jobs are in the tubes into which rules send them", advice, found)


def idle_workers(visit: Visit) -> Iterator[Finding]:
    troubled: Troubled = []
    for before, tube in visit.tubes():
        busy = tube.current_jobs_reserved or tube.current_waiting or tube.pause
        moved = before is None or before.current_jobs_reserved or tube.cmd_delete > before.cmd_delete
        age_s = age_of_ready(visit, tube)
        if tube.current_jobs_ready and visit.watching(tube) > 0 and not busy and not moved and age_s >= IDLE_AGE_S:
            line = (
                f"{count(tube.current_jobs_ready)} ready{how_old(tube, age_s)}; {count(visit.watching(tube))} watch it"
            )
            troubled.append((tube.current_jobs_ready, tube.name, f"{line}, none reserves"))
    yield from finding(
        Severity.WARNING,
        "tubes are watched, and nobody takes the jobs that are ready",
        "See whether workers hang, and whether these connections are workers at all: each begins by watching default.",
        troubled,
    )


def far_behind(visit: Visit) -> Iterator[Finding]:
    troubled: Troubled = []
    for _, tube in visit.tubes():
        age_s = age_of_ready(visit, tube)
        if age_s >= READY_AGE_S and tube.current_jobs_reserved:
            troubled.append((age_s, tube.name, f"{count(tube.current_jobs_ready)} ready{how_old(tube, age_s)}"))
    yield from finding(
        Severity.WARNING,
        "workers are far behind",
        "Start more workers, or put jobs that matter less with a larger priority number.",
        troubled,
    )


def failing_jobs(visit: Visit) -> Iterator[Finding]:
    troubled: Troubled = []
    for jobs in (visit.ready, visit.buried):
        for name, (_, job) in jobs.items():
            if job.timeouts >= TIMEOUTS_OF_A_JOB:
                line = f"job {job.id} timed out {plural(job.timeouts, 'time')}, its ttr is {duration(job.ttr)}"
                troubled.append((job.timeouts, name, line))
    yield from finding(
        Severity.WARNING,
        "jobs time out again and again",
        "See what the job wants (peek ID). Bury it if it kills its worker; give it a longer ttr if it is only slow.",
        troubled,
    )


def near_ttr(visit: Visit) -> Iterator[Finding]:
    """Jobs that nearly run out of time. A worker that touches its jobs may hold them for longer than their TTR."""
    found: Troubled = []
    histograms = visit.after.histograms
    for name, times in histograms.tubes.items() if histograms else ():
        inspected = visit.ready.get(name) or visit.buried.get(name)
        ttr_s = visit.held.get(name) or (inspected[1].ttr if inspected else 0)
        held = times.get(HELD)
        runs = Quantiles.between(None, held, histograms.bounds["job"]) if histograms and held else None
        if held and runs and held.count >= RUNS_COUNT and NEAR_TTR * ttr_s <= runs.most_s <= ttr_s:
            line = f"p99 of {wait(runs.most_s)} is near its TTR of {duration(ttr_s)}"
            found.append((int(100 * runs.most_s / ttr_s), name, line))
    yield from finding(
        Severity.NOTE,
        "jobs nearly run out of time: what takes longer is done twice, unless the worker touches it",
        "Put these jobs with a longer ttr, or let the worker touch them while it works: beanpole worker does.",
        found,
    )


def pauses(visit: Visit) -> Iterator[Finding]:
    long: Troubled = []
    short: Troubled = []
    for _, tube in visit.tubes():
        if tube.pause:
            gone_s = max(tube.pause - tube.pause_time_left, 0)
            line = f"{count(tube.current_jobs_ready)} ready, paused {duration(gone_s)} ago"
            line += f" for {duration(tube.pause_time_left)} more"
            forgotten = tube.current_jobs_ready and max(gone_s, tube.pause_time_left) >= PAUSE_S
            (long if forgotten else short).append((tube.current_jobs_ready, tube.name, line))
    advice = "End the pause if nobody needs it any more: beanpole resume TUBE."
    yield from finding(Severity.WARNING, "jobs wait in tubes that are paused for long", advice, long)
    yield from finding(Severity.NOTE, "tubes are paused", advice, short)


def breakers(visit: Visit) -> Iterator[Finding]:
    closed: Troubled = [
        (tube.current_jobs_ready, tube.name, f"{count(tube.current_jobs_ready)} ready, tried one at a time")
        for _, tube in visit.tubes()
        if tube.raw.get("breaker-closed")
    ]
    advice = "See what fails: beanpole list TUBE has what workers said. The first job that is done opens the tube."
    yield from finding(Severity.WARNING, "breakers have closed tubes, as too many attempts failed", advice, closed)


def growing(visit: Visit) -> Iterator[Finding]:
    urgent: Troubled = []
    others: Troubled = []
    for before, tube in visit.tubes():
        if before is None or tube.name in visit.dead_tubes:
            continue
        more_urgent = tube.current_jobs_urgent - before.current_jobs_urgent
        more = tube.current_jobs_ready - before.current_jobs_ready
        if more_urgent > 0:
            line = f"{count(before.current_jobs_urgent)} urgent jobs, {count(tube.current_jobs_urgent)} later"
            urgent.append((more_urgent, tube.name, line))
        elif more > 0:
            deletes = (tube.cmd_delete - before.cmd_delete) / max(visit.seconds, 1e-9)
            line = f"{count(before.current_jobs_ready)} ready, {count(tube.current_jobs_ready)} later"
            others.append((more, tube.name, f"{line}; {rate(deletes)} are deleted a second"))
    advice = "Look again later: if it goes on, start more workers."
    yield from finding(Severity.WARNING, "urgent jobs come faster than they are taken", advice, urgent)
    yield from finding(Severity.NOTE, "jobs come faster than they are taken", advice, others)


def waiting_in_vain(visit: Visit) -> Iterator[Finding]:
    """Workers that wait on tubes that nobody puts into, perhaps as the name is not right.

    Counts of puts begin with the server: a tube that has jobs is in use, and shortly after a start no count says that
    one is not.
    """
    lonely = [tube.name for tube in visit.lonely() if tube.name not in visit.dead_tubes]
    misspelt: Troubled = []
    unused: Troubled = []
    for _, tube in visit.tubes():
        if tube.current_waiting and not tube.current_using and not tube.total_jobs and not jobs_in(tube):
            waiting = plural(tube.current_waiting, "worker")
            line = f"{waiting} waiting, no job put since the server started {duration(visit.server.uptime)} ago"
            near = next((name for name in lonely if nearly_the_same(tube.name, name)), None)
            if near is not None:
                misspelt.append((tube.current_waiting, tube.name, f"{line}; {near} has jobs and no workers"))
            elif visit.server.uptime >= UNUSED_S:
                unused.append((tube.current_waiting, tube.name, line))
    advice = "Compare the names of the tubes in producers and workers."
    yield from finding(Severity.WARNING, "workers wait on a tube whose name is nearly another's", advice, misspelt)
    yield from finding(Severity.NOTE, "workers wait on tubes that nobody puts into", advice, unused)


# --- Names ------------------------------------------------------------------------------------------------------------


def nearly_the_same(one: str, other: str) -> bool:
    """Whether one name of two different ones may be a typo of the other.

    They differ in upper and lower case and in signs alone, or in one edit of one word: a letter more, less, other, or
    two that changed places. Not in numbers, nor in a short word: `export-278` and `export-279` are two names, as are
    `shop-a` and `shop-b`.
    """
    if NUMBER.findall(one) != NUMBER.findall(other):
        return False
    words, others = WORD.findall(one.casefold()), WORD.findall(other.casefold())
    if "".join(words) == "".join(others):
        return True
    different = [(a, b) for a, b in zip_longest(words, others, fillvalue="") if a != b]
    return len(different) == 1 and is_one_edit(*different[0])


def is_one_edit(one: str, other: str) -> bool:
    """Whether one edit makes a word of another, and the longer one is not short."""
    short, long = sorted((one, other), key=len)
    if len(long) < EDITED_LETTERS:
        return False
    same = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    short, long = short[same:], long[same:]
    return short == long[1:] or short[1:] == long[1:] or (short[:2] == long[1::-1] and short[2:] == long[2:])
