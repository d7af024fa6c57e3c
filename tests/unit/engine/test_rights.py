"""Rights: what a user's commands are answered, the empty tubes that it uses, and what a reload takes or gives."""

import re
from pathlib import Path

import pytest

from beanpole.client import Rights
from beanpole.engine.commands.rights import ASKED
from beanpole.engine.state.user import User
from beanpole.protocol.commands import Verb
from beanpole.protocol.rights import RIGHTS, Grants, Right
from beanpole.testing.world import World
from tests.unit.engine.rights import VERBS, table

SECOND_NS = 10**9
HIDDEN_MAX = 1_000


class Shop(World):
    """A world with a connection `root` that may do everything, and one of a user that may do nothing yet."""

    def __init__(self) -> None:
        super().__init__()
        self.users = {name: User(name.encode()) for name in ("shop", "other")}
        self.connect("root")
        self.connect("shop", self.users["shop"])

    def grant(self, name: str = "shop", *, admin: bool = False, stats: bool = False, **rights: str) -> None:
        """Gives a user these rights, patterns with spaces between them, and no others."""
        patterns = {right: tuple(text.encode().split()) for right, text in rights.items()}
        self.users[name].grant(Grants(patterns), admin=admin, stats=stats)

    def say(self, name: str, *lines: str) -> list[str]:
        """The lines that are answered."""
        self.send(name, "".join(f"{line}\r\n" for line in lines).encode())
        return self.output(name).decode().split("\r\n")[:-1]

    def counted(self, tube: str, key: str) -> int:
        found = [line for line in self.say("root", f"stats-tube {tube}")[1].splitlines() if line.startswith(f"{key}:")]
        return int(found[0].split()[1])


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_every_command_answers_as_its_right_says() -> None:
    """The table is written by ``python -m tests.unit.engine.rights``, and read by people when it changes."""
    assert table() == (Path(__file__).parent / "rights.txt").read_text()


@pytest.mark.repository
def test_rights_are_documented() -> None:
    """Apart from those that depend on more than the command: delete, and what a list shows."""
    page = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text().partition("### Rights\n")[2]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", page.partition("\n- ")[0], re.MULTILINE)
    documented = {right.strip("`"): set(re.findall("`([a-z-]+)`", text)) & set(VERBS.values()) for right, text in rows}
    names = {bits: right for right, bits in RIGHTS.items()} | dict.fromkeys(
        (Right.EVERYTHING, Right.ANY), "any of these"
    )
    depending = {"delete", "delete-many", "list-schedules", "list-sessions"}
    for right in dict.fromkeys(names.values()):
        asked = {VERBS[verb] for verb, (bits, _, _) in ASKED.items() if names.get(bits) == right}
        assert documented[right] - depending == asked - depending


def test_pipelined_commands_never_reach_another_tube(shop: Shop) -> None:
    """A client that reads nothing until all is sent, as go-beanstalk does: no reply shifts, no job strays."""
    shop.grant(put="mine", reserve="mine")
    said = shop.say(
        "shop",
        *("use mine", "put 0 0 9 1\r\na", "use theirs", "put 0 0 9 1\r\nb", "put 0 0 9 1\r\nc"),
        *("watch theirs", "ignore mine", "watch mine", "ignore default", "reserve-with-timeout 0"),
    )
    assert said == [
        *("USING mine", "INSERTED 1", "USING theirs", "UNKNOWN_COMMAND", "UNKNOWN_COMMAND"),
        *("WATCHING 2", "WATCHING 2", "WATCHING 3", "WATCHING 2", "RESERVED 1 1", "a"),
    ]
    assert shop.say("root", "stats-tube theirs", "stats-tube default")[0] == "NOT_FOUND"
    assert shop.counted("default", "current-jobs-ready") == 0
    shop.check()


def test_hidden_tubes_are_nobody_elses_business(shop: Shop) -> None:
    shop.grant(put="mine")
    shop.say("shop", "use theirs", "watch theirs", "watch theirs", "ignore default")
    assert shop.say("shop", "list-tube-used") == ["USING theirs"]
    assert shop.say("shop", "list-tubes-watched")[1:] == ["---\n- theirs\n"]
    assert shop.say("shop", "ignore theirs") == ["NOT_IGNORED"]
    assert shop.say("root", "list-tubes")[1:] == ["---\n- default\n"]
    assert shop.counted("default", "current-watching") == 1  # root's own
    shop.check()


def test_a_session_that_names_too_many_is_closed(shop: Shop) -> None:
    names = [f"watch t{i}" for i in range(HIDDEN_MAX - 1)]  # and default
    assert shop.say("shop", *names)[-1] == f"WATCHING {HIDDEN_MAX}"
    assert shop.say("shop", "use t1") == ["USING t1"]
    assert shop.say("shop", "use one-more", "list-tube-used") == ["OUT_OF_MEMORY"]
    assert shop.is_closed("shop")


def test_a_session_that_loses_too_many_is_closed_while_it_waits(shop: Shop) -> None:
    shop.grant(reserve="*")
    shop.say("shop", *[f"watch t{i}" for i in range(2 * HIDDEN_MAX)], "reserve")
    shop.grant(put="mine")
    shop.engine.rights_changed()
    shop.advance(1)
    assert shop.is_closed("shop")


def test_a_right_that_is_gone_hands_out_no_job(shop: Shop) -> None:
    """The file is read between a reserve and its job: nobody has gone through the sessions yet."""
    shop.grant(reserve="mine theirs")
    shop.say("shop", "watch mine", "watch theirs", "ignore default", "reserve")
    shop.grant(reserve="mine")
    shop.say("root", "use theirs", "put 0 0 9 1\r\nx")
    assert shop.say("shop") == []
    assert shop.counted("theirs", "current-jobs-ready") == 1
    shop.check()
    shop.say("root", "use mine", "put 0 0 9 1\r\ny")
    assert shop.output("shop") == b"RESERVED 2 1\r\ny\r\n"
    assert shop.say("shop", "list-tubes-watched")[1:] == ["---\n- theirs\n- mine\n"]


def test_who_waits_when_its_last_right_is_taken_waits_on(shop: Shop) -> None:
    shop.grant(reserve="mine")
    shop.say("shop", "watch mine", "reserve-with-timeout 9")
    shop.grant()
    shop.engine.rights_changed()
    shop.advance(8 * SECOND_NS)
    assert shop.output("shop") == b""
    shop.advance(SECOND_NS)
    assert shop.output("shop") == b"TIMED_OUT\r\n"
    assert shop.say("shop", "reserve-with-timeout 0") == ["UNKNOWN_COMMAND"]


def test_a_new_right_gives_those_who_wait_the_jobs_that_are_there(shop: Shop) -> None:
    shop.grant(reserve="mine")
    shop.say("root", "use theirs", "put 0 0 9 1\r\nx")
    shop.say("shop", "watch mine", "watch theirs", "reserve")
    shop.grant(reserve="mine theirs")
    shop.engine.rights_changed()
    shop.advance(1)
    assert shop.output("shop") == b"RESERVED 1 1\r\nx\r\n"
    shop.check()


def test_a_session_of_many_tubes_finds_them_in_pieces(shop: Shop) -> None:
    """Also one that is wide: its commands run when it has found all of them."""
    shop.grant(reserve="*")
    count = 6_000
    shop.say("shop", *[f"watch t{i}" for i in range(count)])
    shop.say("root", "use t5", "put 0 0 9 1\r\nx")
    shop.grant(reserve="t*")
    assert shop.say("shop", "reserve-with-timeout 0") == ["RESERVED 1 1", "x"]
    assert shop.counted("default", "current-watching") == 1
    shop.check()


def test_told_of_a_tube_to_which_the_right_goes(shop: Shop) -> None:
    shop.grant(reserve="mine")
    shop.say("root", "use mine", "put 0 0 9 1\r\nx")
    assert shop.say("shop", "watch mine", "reserve-many 0 0")[-1] == "JOBS 0"
    shop.grant()
    shop.engine.rights_changed()
    shop.advance(1)
    shop.check()
    assert shop.say("root", "watch mine", "reserve-with-timeout 0")[-1] == "x"


def test_held_jobs_need_no_right(shop: Shop) -> None:
    shop.grant(reserve="theirs")
    shop.say("root", "use theirs", *["put 0 0 9 1\r\nx"] * 3)
    shop.say("shop", "watch theirs", *["reserve-with-timeout 0"] * 2)
    shop.grant()
    assert shop.say("shop", "delete-many 1 3", "touch 2", "bury 2 0") == ["DELETED 1 3", "TOUCHED", "BURIED"]


def test_dead_letters_stay_where_there_is_no_right_to_put(shop: Shop) -> None:
    """move-jobs back to where they died, jobs of two tubes."""
    shop.grant(manage="morgue", put="mine")
    for id, tube in enumerate(("mine", "theirs"), 1):
        shop.say("root", f"set-rules {tube} 25\r\nattempts: 1\ndead: morgue\n", f"put-job 1 tube={tube}\r\nx")
        shop.say("root", f"reserve-job {id}", f"release {id} 0 0")
    assert shop.say("shop", "move-jobs morgue ready 9") == ["MOVED 1"]
    assert shop.say("root", "list-jobs morgue ready 9")[0] == "JOBS 1"
    assert shop.counted("mine", "current-jobs-ready") == 1


def test_rules_put_only_where_their_user_may(shop: Shop) -> None:
    shop.grant(rules="a*", put="b")
    text = "attempts: 1\ndead: {}\n"
    lines = [
        f"set-rules {pattern} {len(text.format(dead))}\r\n{text.format(dead)}"
        for pattern, dead in (("a*", "b"), ("a", "c"), ("*", "b"))
    ]
    shop.say("shop", "list-extensions")
    assert shop.say("shop", *lines) == ["RULES_SET", "FORBIDDEN put c", "FORBIDDEN rules *"]
    assert "cmd-set-rules: 1" in shop.say("root", "stats")[1].splitlines()


def test_schedules_need_the_right_to_both_tubes(shop: Shop) -> None:
    def document(tube: str) -> str:
        text = f"every: 60\ntube: {tube}\n\nbody"
        return f"{len(text)}\r\n{text}"

    shop.grant(rules="mine", look="seen")
    shop.say("shop", "list-extensions")
    shop.say("root", *[f"set-schedule {tube} {document(tube)}" for tube in ("mine", "seen", "theirs")])
    assert shop.say("shop", f"set-schedule mine {document('theirs')}") == ["FORBIDDEN rules theirs"]
    assert shop.say("shop", f"set-schedule seen {document('mine')}") == ["FORBIDDEN rules seen"]
    assert shop.say("shop", f"set-schedule theirs {document('mine')}") == ["UNKNOWN_COMMAND"]
    shown = shop.say("shop", "list-schedules bodies=99")
    assert [line.split()[1:3] for line in shown if line.startswith("SCHEDULE ")] == [["mine", "0"], ["seen", "26"]]
    assert shop.say("shop", "list-schedules order=next limit=1")[0] == "SCHEDULES 1"


def test_names_of_groups_ask_for_their_tube(shop: Shop) -> None:
    """Rules that change make another tube of the one in use."""
    shop.grant(put="mail")
    assert shop.say("shop", "use mail;42", "put 0 0 9 1\r\nx") == ["USING mail;42", "UNKNOWN_COMMAND"]
    shop.say("root", "set-rules mail* 14\r\ngroups: split\n")
    assert shop.say("shop", "put 0 0 9 1\r\nx", "put-job 1 tube=mail;7\r\ny") == ["INSERTED 1", "INSERTED 2"]
    assert shop.counted("mail", "current-jobs-ready") == 2
    shop.say("root", "drop-rules mail*")
    assert shop.say("shop", "put 0 0 9 1\r\nx", "put-job 1 tube=mail;7\r\ny") == ["UNKNOWN_COMMAND"] * 2
    shop.check()


def test_tokens_are_their_users(shop: Shop) -> None:
    """Another user's session of the same token is none of ours."""
    token = "0" * 32
    shop.grant(reserve="t")
    shop.grant("other", reserve="t")
    shop.say("root", "use t", "put 0 0 60 1\r\nx")
    shop.say("shop", "watch t", f"keep-session 60 {token} ends=all", "reserve")
    shop.disconnect("shop")
    shop.connect("thief", shop.users["other"])
    assert shop.say("thief", f"keep-session 60 {token}") == ["KEPT 0"]
    shop.connect("again", shop.users["shop"])
    assert shop.say("again", f"keep-session 60 {token}") == ["KEPT 1 1"]
    shop.check()


def test_numbers_of_others_are_0(shop: Shop) -> None:
    shop.grant(put="mine")
    shop.say(
        "root", "use theirs", "put 0 0 9 1\r\nx", "set-rules theirs 12\r\nattempts: 9\n", "reserve-job 1", "bury 1 0"
    )
    shop.say("root", "set-rules m* 12\r\nattempts: 9\n", "use mine", "put 0 0 9 1\r\nx")
    everything, own = (
        dict(line.split(": ", 1) for line in shop.say(name, "stats")[1].splitlines()[1:]) for name in ("root", "shop")
    )
    assert list(own) == list(everything)
    assert {key for key, value in own.items() if value not in {"0", "false"}} <= {
        *("max-job-size", "version", "hostname", "os", "platform", "id", "once-max", "binlog-max-size", "uptime"),
    }
    assert shop.say("shop", "list-rules")[1].splitlines()[1:] == ['- pattern: "m*"', "  attempts: 9"]
    assert "theirs" not in "".join(shop.say("shop", "list-tubes", "stats-tubes", "stats-histograms", "stats-failures"))
    assert "count: 0" in shop.say("shop", "stats-histograms")[1] or "turn: 0" in shop.say("shop", "stats-histograms")[1]
    assert shop.say("shop", "stats-failures")[1].startswith("---\ntotal: 0\ngroups: []")


def test_only_who_sees_all_hears_who_others_are(shop: Shop) -> None:
    shop.grant(look="t", reserve="t")
    shop.say(
        "root", "name-session boss", "set-rules t 12\r\nattempts: 9\n", "use t", "put 0 0 9 1\r\nx", "reserve-job 1"
    )
    shop.say("root", "fail-job 1 1\r\nx", "reserve-job 1")
    texts = "".join(
        shop.say("shop", "explain 1", "explain-tube t", "list-jobs t reserved 9 fields=session,peer,history")
    )
    assert '"session": -1' in texts
    assert "boss" not in texts
    assert " session=" not in texts
    shop.grant(look="t", stats=True)
    texts = "".join(shop.say("shop", "explain 1", "list-jobs t reserved 9 fields=session,history"))
    assert "boss" in texts
    assert " session=0" in texts


def test_what_is_refused_is_counted_for_its_user_alone(shop: Shop) -> None:
    shop.say("shop", "put 0 0 9 1\r\nx", "list-tube-used", "kick 1")
    user = shop.users["shop"]
    assert (user.command_count, user.refused_count) == (3, 2)
    assert {"cmd-put: 0", "cmd-kick: 0", "cmd-list-tube-used: 1"} <= set(shop.say("root", "stats")[1].splitlines())


def test_forbidden_is_listed_for_those_who_hear_it(shop: Shop) -> None:
    listed = shop.say("shop", "list-extensions")[1].splitlines()[1:]
    assert {"- forbidden", "- list-rights"} <= set(listed)
    assert listed == sorted(listed)
    assert not {"- forbidden", "- list-rights"} & set(shop.say("root", "list-extensions")[1].splitlines())


def test_a_session_becomes_another_users_before_its_first_command(shop: Shop) -> None:
    shop.grant("other", put="default", reserve="default")
    shop.engine.assign(shop.connections["shop"].session, shop.users["other"])
    shop.check()
    assert shop.say("shop", "put 0 0 9 1\r\nx", "reserve") == ["INSERTED 1", "RESERVED 1 1", "x"]
    with pytest.raises(ValueError, match="only a user's session"):
        shop.engine.assign(shop.connections["root"].session, shop.users["other"])


def test_what_is_done_to_others_jobs_and_what_is_refused_is_noted(shop: Shop) -> None:
    noted: list[tuple[str, str, str, bool]] = []
    shop.engine.audit = lambda _, user, verb, tube, allowed: noted.append(
        (user.decode(), VERBS[Verb(verb)], tube.decode(), allowed)
    )
    shop.say("root", "use mine", "put 0 0 9 1\r\na", "put 0 0 9 1\r\nb", "use theirs", "put 0 0 9 1\r\nc")
    shop.say("root", "set-rules theirs 12\r\nattempts: 3", "kick 1", "delete 4")
    assert noted == [], "a session that has no user is nobody's"

    shop.grant(put="mine", reserve="mine", manage="mine other", rules="mine")
    shop.say("shop", "use mine", "put 0 0 9 1\r\nx", "watch mine", "reserve", "touch 1", "delete 1", "peek 2")
    assert noted == [], "these are its own jobs, or nothing is done"

    for line, *wanted in [
        ("kick 1", "kick", "mine", True),
        ("delete 2", "delete", "mine", True),
        ("delete-many 3", "delete-many", "theirs", False),
        ("kick-job 4", "kick-job", "mine", True),
        ("kick-job 3", "kick-job", "theirs", False),
        ("delete 3", "delete", "theirs", False),
        ("peek 3", "peek", "theirs", False),
        ("pause-tube theirs 1", "pause-tube", "theirs", False),
        ("clear-tube other ready", "clear-tube", "other", True),
        ("move-jobs mine ready 1 to=theirs", "move-jobs", "mine", False),
        ("put-job 1 tube=theirs\r\nx", "put-job", "theirs", False),
        ("list-sessions", "list-sessions", "*", False),
        ("set-rules mi* 0\r\n", "set-rules", "mi*", False),
        ("set-rules mine 0\r\n", "set-rules", "mine", True),
        ("set-rules mine 25\r\nattempts: 1\ndead: morgue\n", "set-rules", "mine", False),
        ("use theirs\r\nput 0 0 9 1\r\nx", "put", "theirs", False),
    ]:
        noted.clear()
        shop.say("shop", line)
        assert noted == [("shop", *wanted)], line
    noted.clear()
    shop.grant(admin=True)
    shop.say("shop", "kick-job 3", "kick-job 99")
    assert noted == [("shop", "kick-job", "theirs", True)]
    noted.clear()
    held, other = (shop.say("shop", f"put-job 1 tube=own pri={pri}\r\nx")[0].split()[1] for pri in (0, 1))
    shop.say("shop", "watch own", "ignore mine", "reserve", f"delete-many {held} {other} 99")
    assert noted == [("shop", "delete-many", "own", True)]


def test_no_tube_is_noted_of_a_command_that_has_none(shop: Shop) -> None:
    """What another client's line has left of the decoder's buffer is nobody's business."""
    noted: list[bytes] = []
    shop.engine.audit = lambda _, _user, _verb, tube, _allowed: noted.append(tube)
    shop.grant(reserve="*")
    shop.say("shop", *[f"watch t{i}" for i in range(HIDDEN_MAX + 1)])
    shop.grant()
    assert shop.say("shop", "stats") == ["OUT_OF_MEMORY"]
    assert noted == [b""]


def test_list_rights_says_what_is_used(shop: Shop) -> None:
    """Of users and spaces one sees what is one's own, and all with `stats`."""
    shop.engine.users = shop.users.values
    shop.engine.set_spaces({b"m*": (9, 0, 0), b"t*": (0, 99, 3)})
    shop.grant(put="mine")
    shop.say("shop", "use mine", "put 0 0 9 1\r\nx", "kick 1")
    said = Rights.parse("\n".join(shop.say("shop", "list-rights")[1:]).encode())
    assert said.patterns["put"] == ("mine",)
    assert (said.used["commands"], said.used["refused"]) == (4, 1)
    assert said.spaces == {"m*": {"jobs": 1, "jobs-max": 9, "bytes": 1, "bytes-max": 0, "tubes": 1, "tubes-max": 0}}
    assert said.users == {}
    shop.grant(stats=True)
    said = Rights.parse("\n".join(shop.say("shop", "list-rights")[1:]).encode())
    assert list(said.spaces) == ["m*", "t*"]
    assert said.users["shop"] == said.used
