"""Limits and cookies over real sockets, and the verbs of the command line that ask a service."""

import asyncio
import json
from pathlib import Path

import pytest

from beanpole_ids.cli.main import main
from beanpole_ids.client import AsyncIdClient, IdClient
from beanpole_ids.client.calls import BaseClient
from beanpole_ids.errors import IdServiceError
from tests.e2e.http import web
from tests.e2e.process import Ids, running, write_rules
from tests.processes import REPLY_TIMEOUT_S

LIMITS = """
trusted_networks = []

[[limit]]
app = "limited"
quota = 10
per = "month"
"""


def url(service: Ids) -> str:
    """The URL of a node."""
    return "ids://{}:{}".format(*service.socket.getpeername()[:2])


def test_an_address_that_is_not_trusted(tmp_path: Path) -> None:
    """Our clients prove theirs, and get what others get; a datagram with a forged source gets little."""

    async def get_many() -> list[str]:
        async with AsyncIdClient.from_url(url(service), timeout=REPLY_TIMEOUT_S) as client:
            return await client.get_many("order", "a", 1500)

    with running(tmp_path, write_rules(tmp_path, more=LIMITS)) as service:
        asked = b'{"action":"get","app_name":"a","count":1000,"rule_name":"order"}'
        for number in range(3):  # of a name that is new, and of one that the fast path knows
            answered = service.raw(asked)
            assert json.loads(answered)["code"] == -6
            assert len(answered) <= 3 * len(asked)
            shown = {} if number else {"cookie": json.loads(answered)["cookie"]}  # nobody has used the name before
            assert service.ask(**shown)["data"].endswith(f"{number:06}"), "nothing was spent"
        with IdClient.from_url(url(service), timeout=REPLY_TIMEOUT_S) as client:
            given = client.get_many("order", "a", 1500)
            given += asyncio.run(get_many())
            assert sorted(int(each[-6:]) for each in given) == list(range(3, 3003))
            assert client.get_many("order", "limited", 10)
            with pytest.raises(IdServiceError, match="limit: application 'limited': 10 numbers a month") as no:
                client.get("order", "limited")
            assert no.value.code == -5
            assert 0 < (no.value.retry_s or 0) <= 31 * 86_400


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets clients wait for as long as a busy machine may take."""
    defaults = BaseClient.__init__.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "timeout", REPLY_TIMEOUT_S)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)
    with web(tmp_path) as api:
        http = api.url

        def said(*args: str) -> list[str]:
            assert main([*args]) == 0
            return capsys.readouterr().out.splitlines()

        numbers = said("get", "order", "shop", "-n", "1500", "--url", url(api.service))
        assert [int(each[-6:]) for each in numbers] == list(range(1500))
        assert said("get", "small", "shop", "--url", url(api.service)) == ["00"]
        (row,) = [json.loads(each) for each in said("counters", "order", "--url", http, "--json")]
        assert (row["app"], row["counter"]) == ("shop", 1499)
        assert said("counters", "small", "shop", "--url", http)[1].startswith("shop\t0\t20\t")
        rules = [json.loads(each) for each in said("rules", "--url", http, "--json")]
        assert [each["rule"] for each in rules] == ["order", "small"]
        config = tmp_path / "rules.toml"
        more = '[[rule]]\nname = "new"\nkind = "uuid7"\n[[limit]]\nrule = "new"\nrate = 9\n'
        config.write_text('trusted_networks = ["127.0.0.1"]\n' + config.read_text() + more)
        assert said("reload", "--url", http) == ["reloaded; added: new; settings: limit, trusted_networks"]
        assert '"settings": ["limit", "trusted_networks"]' in api.service.messages()
        assert said("reload", "--url", http) == ["reloaded"]
        config.write_text("none")
        assert main(["reload", "--url", http]) == 1
        assert str(config) in capsys.readouterr().err, "it says why"
        assert len(said("get", "new", "shop", "--url", url(api.service))[0]) == 36, "the rules stay"
        assert main(["counters", "none", "--url", http]) == 2
