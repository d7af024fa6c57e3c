"""`examples/access`: units and a composition of a server with TLS and users."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from beanpole.access import tokens
from beanpole.cli.serve import serve
from tests import certificates
from tests.e2e.process import environment, serving
from tests.ops.files import ROOT, read_yaml
from tests.ops.test_packaging import PACKAGING, systemd_analyze
from tests.servers import HOST, server_certificate

pytestmark = pytest.mark.repository

EXAMPLES = ROOT / "examples/access"
DROP_IN = (EXAMPLES / "beanpole-access.conf").read_text()


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    (tmp_path / "beanpole.service.d").mkdir()
    unit = (PACKAGING / "systemd/beanpole.service").read_text()
    (tmp_path / "beanpole.service").write_text(unit.replace("=/usr/bin/beanpole", "=/bin/true"))
    (tmp_path / "beanpole.service.d/access.conf").write_text(DROP_IN.replace("=/usr/bin/beanpole", "=/bin/true"))
    (tmp_path / "beanpole-shop.socket").write_bytes((EXAMPLES / "beanpole-shop.socket").read_bytes())
    for name in ("beanpole.service", "beanpole-shop.socket"):
        assert str(tmp_path) not in systemd_analyze("verify", "--man=no", str(tmp_path / name))


def test_the_unit_gives_options_that_there_are_and_the_socket_that_they_name() -> None:
    (command,) = re.findall(r"^ExecStart=((?:.*\\\n)*.+)$", DROP_IN, re.MULTILINE)
    _, verb, *words = shlex.split(command.replace("\\\n", " "))
    given = serve.make_context(verb, words).params
    named = re.findall(r"^FileDescriptorName=(\w+)$", (EXAMPLES / "beanpole-shop.socket").read_text(), re.MULTILINE)
    assert [each for each in given["listen"] if each.startswith("fd:")] == [f"fd:{each},user={each}" for each in named]


def test_the_composition_starts_and_is_healthy(tmp_path: Path) -> None:
    service = read_yaml(EXAMPLES / "compose.yaml")["services"]["beanpole"]
    pair = server_certificate()
    for name, source in {
        "ca.pem": certificates.made("ca").cert,
        "server.pem": pair.cert,
        "server.key": pair.key,
    }.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_bytes(source.read_bytes())
    (tmp_path / "access.toml").write_text(f"[user.health]\nunix = [{os.getuid()}]\n")
    (tmp_path / "access.toml").chmod(0o644)
    tokens.add(tmp_path / "tokens", "health")
    changes = {"/run/access": f"{tmp_path}", "/tmp/queue": f"{tmp_path}/queue", "/data": f"{tmp_path}/data"}  # noqa: S108
    changes |= {"tls:0.0.0.0": f"tls:{HOST}:0", "0.0.0.0:11380": f"{HOST}:0"}

    def here(text: str) -> str:
        for old, new in changes.items():
            text = text.replace(old, new)
        return text

    _, *words = map(here, service["command"])
    with serving(*words, listen=False):
        url = {"BEANPOLE_URL": here(service["environment"]["BEANPOLE_URL"])}
        health = [sys.executable, "-m", "beanpole", "stats"]
        subprocess.run(health, env=environment(url), check=True, capture_output=True, timeout=60)
