"""Limits by rule and application, rules that are bound to applications, and what of a configuration says so."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole_ids import limits
from beanpole_ids.admission import Admission
from beanpole_ids.config import load
from beanpole_ids.errors import LimitError, RuleError, StorageError
from beanpole_ids.rules.config import Config
from beanpole_ids.rules.limit import Limit
from beanpole_ids.tallies import Rate
from tests.unit.test_service import MIDNIGHT_S, NOBODY, Story, World, play

RULES = """
{more}

[[rule]]
name = "day"
template = "{{year:04}}{{month:02}}{{day:02}}-{{counter:04}}"
cycle = "day"

[[rule]]
name = "bound"
template = "B{{counter:04}}"
apps = ["shop", "a b"]
"""


TASK = """
function min_counter() return 0 end
function max_counter() return 9999 end
function reset_seconds() return 0 end
function create_id(counter, now, salt) return ("%04d"):format(counter:generate_counter()) end
"""


def configure(folder: Path, more: str) -> Config:
    """A configuration with some limits."""
    (folder / "limited.toml").write_text(RULES.format(more=more))
    return load(folder / "limited.toml")


def playing(folder: Path, more: str, story: Story) -> None:
    """Plays a test with some limits."""
    play(folder, story, configure(folder, more))


def test_rate_of_an_application(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.ask(app_name="shop", count=20))["code"] == 0
        refused = await world.ask(app_name="shop", seq=7)
        assert refused == {
            "action": "get",
            "app_name": "shop",
            "code": -5,
            "message": "limit: application 'shop': 10 numbers a second",
            "retry_s": 0.1,
            "rule_name": "day",
            "seq": 7,
        }
        assert (await world.ask(rule_name="bound", app_name="shop"))["code"] == -5, "all rules share this limit"
        assert (await world.ask(app_name="b", count=1000))["code"] == 0, "others have none"
        assert (await world.ask(app_name="shop", action="monitor"))["data"]["counter"] == 19, "nothing was spent"
        world.seconds += 0.1
        assert (await world.ask(app_name="shop"))["code"] == 0
        world.seconds += 0.25
        assert (await world.ask(app_name="shop", count=3))["retry_s"] == 0.05
        assert (await world.ask(app_name="shop", count=2))["code"] == 0
        assert world.service.refused == {("day", -5): 2, ("bound", -5): 1}

    playing(tmp_path, '[[limit]]\napp = "shop"\nrate = 10\nburst = 20', story)


def test_count_above_the_burst_never_fits(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        refused = await world.ask(count=11)
        assert (refused["code"], refused["message"]) == (-5, "limit: rule 'day': at most 10 numbers at once")
        assert "retry_s" not in refused

    playing(tmp_path, '[[limit]]\nrule = "day"\nrate = 9.5', story)


def test_each_application_has_a_rate_of_its_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for app in ("a", "b"):
            assert (await world.ask(app_name=app, count=5))["code"] == 0
            assert (await world.ask(app_name=app))["code"] == -5
            assert (await world.ask(app_name=app, rule_name="bound", action="get"))["code"] == -1

    playing(tmp_path, '[[limit]]\napp = "*"\nrate = 5', story)


def test_a_request_that_is_repeated_costs_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        first = await world.ask(request_id="r")
        assert (await world.ask(request_id="r"))["data"] == first["data"]
        assert (await world.ask(request_id="s"))["code"] == -5

    playing(tmp_path, "[[limit]]\nrate = 1", story)


def test_a_refused_request_costs_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.ask(app_name="b")
        world.store.error = StorageError("storage: away")
        assert (await world.ask(count=999))["code"] == -3
        world.store.error = None
        world.seconds += limits.STORE_RETRY_MS / 1000
        assert (await world.ask(count=999))["code"] == 0
        assert (await world.ask())["code"] == -5

    playing(tmp_path, "[[limit]]\nquota = 1000\nper = 3600", story)


def test_quota_of_a_day(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.ask(count=7))["code"] == 0
        refused = await world.ask(count=4)
        assert refused["message"] == "limit: rule 'day': 10 numbers a day, 7 are given"
        assert (refused["code"], refused["retry_s"]) == (-5, 86_400)
        assert "retry_s" not in await world.ask(count=11), "it never fits"
        assert (await world.ask(app_name="b", count=3))["code"] == 0
        assert (await world.ask())["code"] == -5
        world.now_s = MIDNIGHT_S + 86_400
        assert (await world.ask(count=10))["code"] == 0
        world.now_s = MIDNIGHT_S
        assert (await world.ask())["code"] == -5, "a clock that goes back gives no second quota"

    playing(tmp_path, '[[limit]]\nrule = "day"\nquota = 10\nper = "day"', story)


def test_a_reload_keeps_what_was_counted(tmp_path: Path) -> None:
    limit = '[[limit]]\nrule = "day"\nquota = 10\nper = "day"\n'

    async def story(world: World) -> None:
        await world.ask(count=10)
        await world.service.reload(configure(tmp_path, limit + '[[limit]]\napp = "b"\nrate = 1'))
        assert (await world.ask())["code"] == -5
        await world.service.reload(configure(tmp_path, limit.replace("10", "11")))
        assert (await world.ask())["code"] == 0, "another limit begins again"
        await world.service.reload(configure(tmp_path, ""))
        assert world.service.admission.allowance("day") is None
        assert (await world.ask(count=100))["code"] == 0

    playing(tmp_path, limit, story)


def test_fast_path_counts_for_limits(tmp_path: Path) -> None:
    """Requests under a limit cost three to four times as much as others, as C answered none of them."""
    asked = b'{"action":"get","app_name":"%b","rule_name":"%b","count":%d}'

    async def story(world: World) -> None:
        def is_fast(app: bytes, count: int = 1, rule: bytes = b"day") -> bool:
            data = asked % (app, rule, count)
            return world.service.fast.answer(data, float(world.now_s), world.seconds, NOBODY) is not None

        for app in ("free", "limited"):
            for rule in ("day", "bound"):
                await world.ask(app_name=app, rule_name=rule)
        assert is_fast(b"free", 50)
        assert is_fast(b"limited", 7)
        assert is_fast(b"limited", 1, b"bound"), "the tenth, for both rules share the limit"
        assert not is_fast(b"limited")
        assert (await world.ask(app_name="limited"))["code"] == -5
        assert is_fast(b"free"), "others go on"
        world.seconds += 0.1
        assert is_fast(b"limited"), "the bucket has one again"
        assert (await world.ask(app_name="limited"))["code"] == -5, "both ways count with one tally"
        await world.service.reload(configure(tmp_path, '[[limit]]\napp = "free"\nrate = 1'))
        assert not is_fast(b"free"), "a limit that comes by a reload holds for names that are known"
        assert (await world.ask(app_name="free"))["code"] == 0
        assert (await world.ask(app_name="free"))["code"] == -5
        assert not is_fast(b"free")

    rules = RULES.replace('["shop", "a b"]', '["free", "limited"]')
    (tmp_path / "limited.toml").write_text(rules.format(more='[[limit]]\napp = "limited"\nrate = 10'))
    play(tmp_path, story, load(tmp_path / "limited.toml"))


def test_fast_path_counts_for_quotas(tmp_path: Path) -> None:
    asked = b'{"action":"get","app_name":"shop","rule_name":"day"}'

    async def story(world: World) -> None:
        await world.ask(app_name="shop")
        made = [
            world.service.fast.answer(asked, float(now_s), world.seconds, NOBODY) is not None
            for now_s in (MIDNIGHT_S, MIDNIGHT_S + 1, MIDNIGHT_S + 2, MIDNIGHT_S + 3)
        ]
        assert made == [True, True, False, False]
        refused = await world.ask(app_name="shop")
        assert (refused["code"], refused["message"].rpartition(", ")[2]) == (-5, "3 are given")

    playing(tmp_path, '[[limit]]\napp = "*"\nquota = 3\nper = "day"', story)


def test_names_of_strangers_take_bounded_memory(tmp_path: Path) -> None:
    """A bucket that is full again is forgotten; where too many are not, further names are refused."""
    config = configure(tmp_path, '[[limit]]\napp = "*"\nrate = 2\nburst = 4')
    admission = Admission(config.limits)
    ((tally,),) = admission._tallies.values()
    for number in range(limits.LIMIT_NAMES_MAX):
        tally.check((b"", b"%d" % number), 1, MIDNIGHT_S, 0.0)
        tally.give((b"", b"%d" % number), 1, MIDNIGHT_S, 0.0)
    tally.check((b"", b"0"), 1, MIDNIGHT_S, 0.0)
    with pytest.raises(LimitError, match="too many names") as refused:
        tally.check((b"", b"new"), 1, MIDNIGHT_S, 0.0)
    assert refused.value.retry_s == 2
    tally.check((b"", b"new"), 4, MIDNIGHT_S, 2.0)
    tally.give((b"", b"0"), 4, MIDNIGHT_S, 2.0)
    with pytest.raises(LimitError, match="2 numbers a second"):
        tally.check((b"", b"0"), 1, MIDNIGHT_S, 2.0)


def test_a_rule_for_some_applications(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.ask(rule_name="bound", app_name="shop"))["data"] == "B0000"
        for _ in range(2):
            for action in ("get", "create"):
                refused = await world.ask(rule_name="bound", app_name="other", action=action)
                assert refused["code"] == -1
                assert refused["message"] == "system error: the rule is not for this application"
            seen = await world.ask(rule_name="bound", app_name="other", action="monitor")
            assert seen["message"] == "not exist"
        assert (await world.ask(app_name="other"))["code"] == 0

    playing(tmp_path, "", story)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("[[limit]]", "a limit needs a rate, or a quota and per"),
        ("[[limit]]\nrate = 0", "a limit: rate must be numbers a second, from 0.001"),
        ("[[limit]]\nrate = nan", "rate must be"),
        ("[[limit]]\nrate = 1e-9", "rate must be"),
        ("[[limit]]\nrate = true", "rate must be"),
        ("[[limit]]\nrate = 1\nburst = 0", "burst must be numbers from 1"),
        ('[[limit]]\nburst = 1\nquota = 1\nper = "day"', "beside a rate"),
        ("[[limit]]\nquota = 1", "beside a per"),
        ('[[limit]]\nquota = 0\nper = "day"', "quota must be"),
        ('[[limit]]\nrate = 1\nper = "day"', "per must be beside a quota"),
        (
            '[[limit]]\nquota = 1\nper = "decade"',
            "per must be never, year, month, week, day, hour or a number of seconds",
        ),
        ('[[limit]]\nrule = "dya"\nrate = 1', "there is no rule 'dya'"),
        ("[[limit]]\nrate = 1\nruel = 1", "unknown key 'ruel'"),
        ('trusted_networks = ["10.0.0.1/8"]', "trusted_networks must be networks"),
        ("trusted_networks = [[]]", "trusted_networks must be networks"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, more: str, why: str) -> None:
    with pytest.raises(RuleError) as refused:
        configure(tmp_path, more)
    assert why in str(refused.value)


def test_the_form_of_the_original_may_have_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "task.lua").write_text(TASK)
    database = {"host": "h", "port": 1, "user": "u", "password": "p", "dbname": "d", "charset": "utf8"}
    found = {
        "log_prefix": "x",
        "log_level": 3,
        "service_host": "127.0.0.1",
        "service_port": 0,
        "id_step": 1,
        "id_offset": 0,
        "database": database,
        "rules": [{"name": "task", "lua_file": "task.lua", "batch_save": 1, "apps": ["shop"]}],
        "limit": [{"rule": "task", "rate": 2.5}],
        "trusted_networks": ["192.0.2.0/24"],
    }
    (tmp_path / "config.json").write_text(json.dumps(found))
    config = load(tmp_path / "config.json")
    assert config.rules["task"].apps == frozenset({"shop"})
    assert [(each.rule, each.rate, each.burst) for each in config.limits] == [("task", 2.5, 3)]
    assert list(map(str, config.trusted_networks)) == ["192.0.2.0/24"]


def test_a_full_bucket_gives_its_burst_however_long_the_machine_is_up() -> None:
    limit = Limit(None, None, 3, 7)
    for uptime_s in (0.1, 1e3 + 0.3, 1e6 + 0.7, 4e7 + 0.9):
        for part in range(100):
            Rate(limit).check((b"", b""), 7, 0.0, uptime_s + part * 0.37)


@pytest.mark.parametrize("apps", ["[]", "[1]", "'shop'"])
def test_bad_names_of_applications_are_refused(tmp_path: Path, apps: str) -> None:
    (tmp_path / "x.toml").write_text(RULES.format(more="").replace('["shop", "a b"]', apps))
    with pytest.raises(RuleError, match="rule 'bound': apps must be"):
        load(tmp_path / "x.toml")


@given(
    st.integers(1, 64),
    st.integers(1, 64),
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from([b"a", b"b"]), st.integers(1, 70)), max_size=60),
)
def test_a_rate_is_a_bucket_for_each_name(rate: int, burst: int, asked: list[tuple[int, bytes, int]]) -> None:
    """Against a bucket whose content is computed with fractions, over times in which names are forgotten."""
    seconds = Fraction(0)
    tally = Rate(Limit(None, "*", rate, burst))
    held: dict[bytes, tuple[Fraction, Fraction]] = {}
    for ticks, name, count in asked:
        seconds += Fraction(ticks, 64)
        content, since = held.get(name, (Fraction(burst), seconds))
        content = min(Fraction(burst), content + (seconds - since) * rate)
        if content >= count:
            tally.check((b"", name), count, 0.0, float(seconds))
            tally.give((b"", name), count, 0.0, float(seconds))
            content -= count
        else:
            with pytest.raises(LimitError) as refused:
                tally.check((b"", name), count, 0.0, float(seconds))
            retry_s = None if count > burst else pytest.approx(float((count - content) / rate))
            assert refused.value.retry_s == retry_s
        held[name] = content, seconds
