"""What every command answers to a user with one right to a tube: of that tube, of another one, and so on.

``python -m tests.unit.engine.rights`` writes the table with which the test compares.
"""

import sys

from beanpole.engine.commands.rights import ASKED
from beanpole.engine.engine import Engine
from beanpole.engine.state.user import User
from beanpole.protocol.commands import COMMANDS, EXTENSION_VERBS, Verb
from beanpole.protocol.extensions import AUTH_SERVED, USERS_SERVED
from beanpole.protocol.replies import Word
from beanpole.protocol.rights import RIGHTS, Grants
from beanpole.server.connection import Connection

VERBS = {verb: text.strip().decode() for text, verb, _, _, _ in COMMANDS}
VERBS |= {verb: text.decode() for text, verb in EXTENSION_VERBS.items()}

LINES: dict[int, str] = {
    Verb.PUT: "put 0 0 9 1\r\nx",
    Verb.PEEK: "peek {ready}",
    Verb.PEEK_READY: "peek-ready",
    Verb.PEEK_DELAYED: "peek-delayed",
    Verb.PEEK_BURIED: "peek-buried",
    Verb.RESERVE: "reserve",
    Verb.RESERVE_WITH_TIMEOUT: "reserve-with-timeout 0",
    Verb.DELETE: "delete {ready}",
    Verb.RELEASE: "release {held} 0 0",
    Verb.USE: "use {tube}",
    Verb.WATCH: "watch {tube}",
    Verb.IGNORE: "ignore default",
    Verb.BURY: "bury {held} 0",
    Verb.KICK: "kick 1",
    Verb.TOUCH: "touch {held}",
    Verb.STATS: "stats",
    Verb.STATS_JOB: "stats-job {ready}",
    Verb.STATS_TUBE: "stats-tube {tube}",
    Verb.LIST_TUBES: "list-tubes",
    Verb.LIST_TUBE_USED: "list-tube-used",
    Verb.LIST_TUBES_WATCHED: "list-tubes-watched",
    Verb.PAUSE_TUBE: "pause-tube {tube} 1",
    Verb.RESERVE_JOB: "reserve-job {ready}",
    Verb.KICK_JOB: "kick-job {buried}",
    Verb.QUIT: "quit",
    Verb.LIST_EXTENSIONS: "list-extensions",
    Verb.PUT_JOB: "put-job 1 tube={tube}\r\nx",
    Verb.FIND_JOB: "find-job {tube} k",
    Verb.RESERVE_MANY: "reserve-many 1 0",
    Verb.DELETE_MANY: "delete-many {ready} {buried}",
    Verb.TOUCH_MANY: "touch-many {held}",
    Verb.FAIL_JOB: "fail-job {held} 1\r\nx",
    Verb.SNOOZE_JOB: "snooze-job {held} 0",
    Verb.CHANGE_JOB: "change-job {ready} pri=7",
    Verb.CHANGE_BODY: "change-body {ready} 1\r\ny",
    Verb.CLEAR_TUBE: "clear-tube {tube}",
    Verb.MOVE_JOBS: "move-jobs {tube} ready 1 to={tube}",
    Verb.LIST_JOBS: "list-jobs {tube} ready 9",
    Verb.STATS_TUBES: "stats-tubes",
    Verb.LIST_SESSIONS: "list-sessions",
    Verb.NAME_SESSION: "name-session me",
    Verb.EXPLAIN: "explain {ready}",
    Verb.EXPLAIN_TUBE: "explain-tube {tube}",
    Verb.CANCEL_RESERVE: "cancel-reserve",
    Verb.SET_RULES: "set-rules {tube} 14\r\nattempts: 100\n",
    Verb.GET_RULES: "get-rules {tube}",
    Verb.LIST_RULES: "list-rules",
    Verb.DROP_RULES: "drop-rules {tube}",
    Verb.STATS_HISTOGRAMS: "stats-histograms",
    Verb.STATS_FAILURES: "stats-failures tube={tube}",
    Verb.SET_SCHEDULE: "set-schedule {tube}-nightly {document}",
    Verb.GET_SCHEDULE: "get-schedule {tube}-nightly",
    Verb.LIST_SCHEDULES: "list-schedules",
    Verb.DROP_SCHEDULE: "drop-schedule {tube}-nightly",
    Verb.PAUSE_SCHEDULE: "pause-schedule {tube}-nightly on",
    Verb.FIRE_SCHEDULE: "fire-schedule {tube}-nightly",
    Verb.KEEP_SESSION: "keep-session 9 0123456789abcdef0123456789abcdef",
    Verb.CANCEL_JOB: "cancel-job {ready}",
    Verb.CANCEL_KEY: "cancel-key {tube} k",
    Verb.STATS_GROUPS: "stats-groups {tube}",
    Verb.PAUSE_GROUP: "pause-group {tube} g 1",
    Verb.AUTH: "auth",
    Verb.LIST_RIGHTS: "list-rights",
}
"""A line for each command; `ready`, `buried` and `held` are ids of jobs of the tube, the last held by somebody else."""

DOCUMENT = "cron: 0 0 * * *\ntube: {tube}\n\nbody"
OWN, OTHER, ABSENT = "orders", "secret", "nowhere"
PLACES = {
    "own": OWN,
    "other": OTHER,
    "absent": ABSENT,
    "dead": "morgue",  # jobs that died in one's own, in another's
    "held": OTHER,  # a job of another's that the session holds
}
NAMES = ("none", *RIGHTS, "stats", "admin")
"""What a user may, all of it but the last two with `orders`."""

LOOKS = {"cmd-stats", "cmd-stats-tubes", "cmd-list-jobs"}
"""The counters of those who look."""


def heard(client: Connection, *lines: str) -> str:
    """What is answered to some lines, however many turns they take."""
    client.receive(1, "".join(f"{line}\r\n" for line in lines).encode())
    while client.pending:
        client.resume(1)
    return client.take_output().decode()


class Try:
    """An engine with tubes and jobs, somebody who may do everything, and a user."""

    def __init__(self, name: str, place: str, *, hears: bool) -> None:
        self.engine = Engine(now_ns=1)
        self.root = Connection(self.engine, 1)
        self.user = User(b"shop")
        self.place = place
        self.ids: dict[str, int] = {}
        for tube in (OWN, OTHER):
            self.fill(tube)
        if place == "dead":
            self.fill_morgue()
        self.user.grant(Grants({"reserve": (b"*",)}), admin=False, stats=False)
        self.client = Connection(self.engine, 1, user=self.user, served=USERS_SERVED | AUTH_SERVED)
        tube = PLACES[place]
        if hears:
            self.say("list-extensions")
        if place == "held":
            self.say(f"watch {tube}", "ignore default")
            self.ids = dict.fromkeys(self.ids, int(self.say("reserve").split()[1]))
        self.user.grant(
            Grants({name: (OWN.encode(),)} if name in RIGHTS else {}), admin=name == "admin", stats=name == "stats"
        )
        self.say(f"use {tube}", f"watch {tube}", "ignore default")

    def ask(self, *lines: str) -> str:
        """What root hears."""
        return heard(self.root, *lines)

    def say(self, *lines: str) -> str:
        """What the user hears."""
        return heard(self.client, *lines)

    def fill(self, tube: str) -> None:
        """Puts four jobs: one that is ready, with a key and a group, a buried one, one that is held, one delayed."""
        first = self.engine.next_job_id
        self.ask(
            f"set-rules {tube} 12\r\nattempts: 9\n",
            *[f"put-job 5 tube={tube} pri={pri}\r\nBODY{pri}" for pri in (2, 3)],
        )
        self.ask(f"put-job 5 tube={tube} pri=1 key=k group=g\r\nBODY1", f"put-job 5 tube={tube} delay=9\r\nBODY4")
        self.ask(f"reserve-job {first}", f"bury {first} 0", f"reserve-job {first + 1}")
        document = DOCUMENT.format(tube=tube)
        self.ask(f"set-schedule {tube}-nightly {len(document)}\r\n{document}")
        if tube == PLACES[self.place] or self.place in {"absent", "dead"}:
            self.ids = {"buried": first, "held": first + 1, "ready": first + 2}

    def fill_morgue(self) -> None:
        """Lets a job of either tube die, and lie elsewhere."""
        for tube in (OWN, OTHER):
            id = self.engine.next_job_id
            self.ask(f"set-rules {tube} 25\r\nattempts: 9\ndead: morgue\n", f"put-job 5 tube={tube}\r\nBODY5")
            self.ask(f"reserve-job {id}", f"fail-job {id} 1 dead=now\r\nx")
            if tube == OWN:
                self.ids = dict.fromkeys(self.ids, id)

    def seen(self) -> list[str]:
        """What root sees of everything."""
        text = self.ask(
            "stats", "stats-tubes", *[f"list-jobs {tube} ready 9 bodies=9" for tube in (OWN, OTHER, "morgue")]
        )
        return [line for line in text.splitlines() if line.partition(":")[0] not in LOOKS]

    def reply(self, verb: int) -> str:
        tube = PLACES[self.place]
        document = DOCUMENT.format(tube=tube)
        text = LINES[verb].format(tube=tube, document=f"{len(document)}\r\n{document}", **self.ids)
        return self.say(text)


def cell(verb: int, name: str, place: str) -> str:
    """The first word of a reply, and whether the rest names the tube (``*``), or has a body (``!``).

    ``-`` and a right: the user lacks that. Then nothing changes, nor is counted.
    """
    found = Try(name, place, hears=True)
    before = found.seen() if name == "none" else None
    reply = found.reply(verb)
    word, _, rest = reply.partition(" ")
    if word == "FORBIDDEN":
        if before is None:
            return f"-{rest.split()[0]}"
        assert found.seen() == before, f"{VERBS[verb]} is refused, and changes something"
        other = Try(name, place, hears=False)
        refusal = other.reply(verb).strip()
        assert (other.user.refused_count, refusal) == (1, Word(ASKED[verb][2]).name), f"{VERBS[verb]}: {refusal}"
        return f"-{rest.split()[0]}"
    tube = PLACES[place]
    is_named = f"{tube}\n" in rest or f"={tube} " in rest or f'"{tube}"' in rest
    return (word.strip() or "waits") + "*" * is_named + "!" * ("BODY" in rest)


def table() -> str:
    """The whole table: for each command a line for places with the same replies, in a column for each right."""
    lines = [" ".join(["".ljust(29), *(name.ljust(16) for name in NAMES)]).rstrip()]
    for verb, text in VERBS.items():
        rows: dict[tuple[str, ...], list[str]] = {}
        for place in PLACES:
            rows.setdefault(tuple(cell(verb, name, place) for name in NAMES), []).append(place)
        lines.append(text)
        for cells, places in rows.items():
            columns = [cells[0]] if len(set(cells)) == 1 else [each.ljust(16) for each in cells]
            lines.append(
                " ".join(
                    ["", "all".ljust(28) if len(places) == len(PLACES) else " ".join(places).ljust(28), *columns]
                ).rstrip()
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
