"""What packages install beside the program: units, settings. The package itself is tested by `make test-packages`."""

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from beanpole.cli.main import cli
from beanpole.cli.route import route
from beanpole.cli.serve import serve
from beanpole_ids.cli.main import cli as ids_cli
from beanpole_ids.config import load
from tests.ops.files import ROOT

pytestmark = pytest.mark.repository

PACKAGING = ROOT / "packaging"
UNITS = sorted((PACKAGING / "systemd").iterdir())
SERVICES = [path for path in UNITS if path.suffix == ".service"]
EXPOSURE_MAX = 2.5

of_each_conf = pytest.mark.parametrize(
    ("conf", "command"),
    [((PACKAGING / "etc/beanpole.conf").read_text(), serve), ((PACKAGING / "etc/router.conf").read_text(), route)],
    ids=["serve", "route"],
)


def settings(path: Path) -> list[tuple[str, str]]:
    return re.findall(r"^(\w+)=(.*)$", path.read_text(), re.MULTILINE)


def systemd_analyze(*arguments: str) -> str:
    """What systemd-analyze says, on a machine that has it."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_a_service_may_do_little(path: Path) -> None:
    said = systemd_analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", str(path))
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found
    assert float(found[1]) <= EXPOSURE_MAX


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_understands_a_unit(path: Path, tmp_path: Path) -> None:
    # Elsewhere the program is not where the package has it.
    for each in UNITS:
        (tmp_path / each.name).write_text(
            each.read_text().replace("=/usr/bin/beanpole-ids", "=/bin/true").replace("=/usr/bin/beanpole", "=/bin/true")
        )
    said = systemd_analyze("verify", "--man=no", str(tmp_path / path.name.replace("@", "@mails")))
    assert str(tmp_path) not in said


@pytest.mark.parametrize("path", [*UNITS, *(PACKAGING / "etc").iterdir()], ids=lambda path: path.name)
def test_a_file_is_in_a_package(path: Path) -> None:
    assert re.search(rf"[ (=]{re.escape(path.name)}[\s)]", (PACKAGING / "debian/build").read_text())


def test_services_may_do_the_same() -> None:
    """What is forbidden to one and not to another has a reason: handlers read /proc as they like."""
    forbidden = [
        {
            name: value
            for name, value in settings(path)
            if re.match(r"Protect|Private|Restrict[A-Z]|System|Lock|Mem", name)
        }
        for path in SERVICES
    ]
    for each in forbidden:
        each.pop("RestartPreventExitStatus", None)
    assert all(each == forbidden[0] for each in forbidden)


def test_units_run_commands_that_there_are() -> None:
    for path in SERVICES:
        command = dict(settings(path))["ExecStart"].removeprefix("/usr/bin/env ").split()
        found: click.Command | None = {"beanpole": cli, "beanpole-ids": ids_cli}[Path(command[0]).name]
        for word in command[1:]:
            if isinstance(found, click.Group):
                found = found.get_command(click.Context(found), word)
        assert found, path.name
        assert not isinstance(found, click.Group), path.name


@of_each_conf
def test_the_settings_have_each_variable_with_its_flag(conf: str, command: click.Command) -> None:
    said = re.findall(r"^# --([a-z-]+): (?:[^\n]|\n# )*?\n#?(BEANPOLE_[A-Z_]+)=", conf, re.MULTILINE)
    flags = {
        next(each for each in option.opts if each.startswith("--")).removeprefix("--"): option.envvar
        for option in command.params
        if option.envvar
    }
    assert dict(said) == flags
    assert len(said) == len(flags)


@of_each_conf
def test_every_setting_is_taken_as_it_is_written(conf: str, command: click.Command) -> None:
    options = {option.envvar: option for option in command.params}
    context = click.Context(command)
    for variable, value in re.findall(r"^#?(BEANPOLE_[A-Z_]+)=(.*)$", conf, re.MULTILINE):
        option = options[variable]
        words = value.split() if option.multiple else [value]
        for each in words:
            option.type.convert(each, option, context)


@of_each_conf
def test_settings_that_are_off_show_the_defaults(conf: str, command: click.Command) -> None:
    options = {option.envvar: option for option in command.params}
    for variable, value in re.findall(r"^#(BEANPOLE_[A-Z_]+)=(.*)$", conf, re.MULTILINE):
        option = options[variable]
        if isinstance(option, click.Option) and option.show_default:
            shown = option.type.convert(value, option, None)
            assert shown == option.type.convert(option.get_default(click.Context(command)), option, None), variable


def test_rules_of_the_ID_service_are_right() -> None:  # noqa: N802 - its name
    config = load(PACKAGING / "etc/ids.toml")
    assert config.rules
    assert config.host == "127.0.0.1"


@pytest.mark.parametrize("name", ["beanpole", "beanpole-ids"])
def test_the_command_may_be_imported_again_by_the_process_of_a_handler(name: str) -> None:
    found = runpy.run_path(str(PACKAGING / "debian" / name), run_name="__mp_main__")
    assert callable(found["main"])
