"""The sections of docs/index.md about HTTP, metrics and the client: what they show is what there is."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole_ids.client import AsyncIdClient, IdClient
from tests.e2e.http import Web, web

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[2] / "docs/index.md").read_text()
CURLS = re.findall(r"^\$ curl (?:-X (\w+) )?'http://[^/]*(.*)'\n(.*)$", PAGE, re.MULTILINE)
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PATIENT = "from beanpole_ids.client.calls import BaseClient as B\nB.__init__.__kwdefaults__['timeout'] = 60\n"
"""Before an example: it is not about what a client does when a node is busy."""

CONFIG = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
HTTP = re.findall(r"^```text\n(\[http\]\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A service with the configuration of the page."""
    folder = tmp_path_factory.mktemp("ids")
    path = folder / "rules.toml"
    config = CONFIG.replace("sqlite:///", f"sqlite:///{folder}/").replace(":11310", ":0")
    path.write_text(config + HTTP.replace("11311", "0"))
    with web(folder, config=path) as started:
        yield started


def test_responses(api: Web) -> None:
    assert len(CURLS) == 3
    for method, path, shown in CURLS:
        assert blank(api.get(path, method or "GET", X_Beanpole="").body.decode()) == blank(shown)


def blank(text: str) -> str:
    """A response without what changes from day to day."""
    return re.sub(r"\d+", "0", text.replace("+01:00", "").replace("+02:00", ""))


def test_metrics(api: Web) -> None:
    api.get("/v1/ids/order/shop")
    served = set(
        re.findall(r"^# TYPE beanpole_ids_(\w+?)(?:_total)? ", api.get("/metrics").body.decode(), re.MULTILINE)
    )
    section = PAGE.partition("## Metrics")[2].partition("\n## ")[0]
    rows = [name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)", row)]
    assert {name.removesuffix("_total") for name in rows} == served
    used = set(re.findall(r"beanpole_ids_(\w+)", section.partition("```text")[2]))
    assert used <= set(rows)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int, api: Web) -> None:
    code = PATIENT + EXAMPLES[number].replace("11310", str(api.service.socket.getpeername()[1]))
    code = code.replace("timeout=0.5", "timeout=60")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_method_is_named() -> None:
    assert len(EXAMPLES) == 3
    public = {name for name in dir(IdClient) if not name.startswith("_")} - {"after_fork"}
    lacking = [name for name in public if f".{name}(" not in PAGE]
    assert not lacking, f"docs/index.md does not show {lacking}"
    assert public == {name for name in dir(AsyncIdClient) if not name.startswith("_")}
    for name in public - {"close"}:
        blocking, later = (inspect.signature(getattr(kind, name)) for kind in (IdClient, AsyncIdClient))
        assert list(blocking.parameters) == list(later.parameters)
