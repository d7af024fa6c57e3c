"""The image without Docker: what its Dockerfile runs is run here, with folders of a test in place of the image's.

Only apt-get is not, and nothing is compiled: the compiled modules come from where this Python has Beanpole. As root,
what the image runs is run as the image's user, who has neither name nor home here either.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import beanpole
from beanpole.cli.serve import serve
from tests.e2e.process import Process, environment
from tests.ops.files import OPS, ROOT, Instruction, only, read_yaml, stages
from tests.servers import HOST

pytestmark = pytest.mark.repository

USER = 11300
BY_ROOT = os.geteuid() == 0
COMPILER = ["gcc", "libc6-dev"]


@dataclass(frozen=True)
class Image:
    """What the Dockerfile makes, below a folder."""

    root: Path

    def inside(self, text: str) -> str:
        """A command, or a word of one, with the folders and the user of the image replaced."""
        text = text.replace("/opt/beanpole", f"{self.root}/opt/beanpole").replace("${EXTRAS}", extras())
        if not BY_ROOT:
            text = text.replace(f"--owner={USER}", f"--owner={os.getuid()}").replace(
                f"--group={USER}", f"--group={os.getgid()}"
            )
        return f"{self.root}/data" if text == "/data" else text.replace(" /data", f" {self.root}/data")

    def variables(self) -> dict[str, str]:
        """The environment of what the image runs: as here, but nothing of the test's Python."""
        path = only(stages()[-1], "ENV").text.removeprefix("PATH=").replace("$PATH", os.environ["PATH"])
        return {**environment(), "PATH": self.inside(path), "HOME": "/"}

    def as_user(self, words: list[str]) -> list[str]:
        """What runs a command of the image as its user does."""
        command = [self.inside(word) for word in words]
        program = shutil.which(command[0], path=self.variables()["PATH"])
        assert program
        assert program.startswith(str(self.root)), f"{program} is not the image's"
        become = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"] if BY_ROOT else []
        return [*become, program, *command[1:]]


def extras() -> str:
    """What the image installs unless a build says otherwise."""
    return next(each.text for each in stages()[0] if each.text.startswith("EXTRAS=")).removeprefix("EXTRAS=")


def shell(instruction: Instruction, image: Image, folder: Path) -> None:
    variables = {**os.environ, "BEANPOLE_COMPILE": "no", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-ec", image.inside(instruction.text)],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{instruction.text}\n{done.stdout}"


def copy(instruction: Instruction, folder: Path) -> None:
    *names, target = instruction.text.split()
    assert target in ("./", f"./{names[0]}")
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    for name in names:
        assert f"!{name}" in kept, f".dockerignore leaves {name} out"
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*left_out(kept)))
        else:
            shutil.copy(ROOT / name, folder / name)


def left_out(lines: list[str]) -> list[str]:
    """The patterns of names that .dockerignore leaves out in every folder."""
    return [line.removeprefix("**/") for line in lines if line.startswith("**/")]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """The image, its stages done one after the other."""
    with tempfile.TemporaryDirectory() as name:
        image = Image(Path(name))
        image.root.chmod(0o755)
        folder = image.root / "build"
        folder.mkdir()
        build, last = stages()
        for instruction in build:
            if instruction.verb == "COPY":
                copy(instruction, folder)
            elif instruction.verb == "RUN" and instruction.text.startswith("apt-get"):
                assert instruction.text.partition("--no-install-recommends ")[2].split(" &&")[0].split() == COMPILER
            elif instruction.verb == "RUN":
                shell(instruction, image, folder)
        assert not list(folder.rglob("*.so")), "what was compiled for another Python would get into the image"
        shutil.rmtree(folder)
        add_compiled(image)
        assert only(last, "COPY").text == "--from=build /opt/beanpole /opt/beanpole"
        shell(only(last, "RUN"), image, image.root)
        yield image


def add_compiled(image: Image) -> None:
    home = Path(beanpole.__file__).parent
    (installed,) = image.root.glob("opt/beanpole/lib/python3*/site-packages/beanpole")
    for module in home.rglob("*.so"):
        shutil.copy(module, installed / module.relative_to(home))


@contextmanager
def running(image: Image, words: list[str]) -> Iterator[Process]:
    """The container that runs these words: its addresses are a test's, its data are below the image's folder."""
    last = stages()[-1]
    local = [word.replace("0.0.0.0:11380", f"{HOST}:0") for word in words]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        here = ["-l", HOST, "-p", "0", "--ready-file", str(folder / "ready")]
        with (folder / "messages").open("wb") as output:
            popen = subprocess.Popen(
                [*image.as_user(only(last, "ENTRYPOINT").words + local), *here],
                cwd="/",
                env=image.variables(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        process = Process(popen, folder)
        try:
            process.wait_ready()
            yield process
        finally:
            process.stop()


def health(image: Image, port: int) -> int:
    """The exit code of the health check of a container whose port 11300 is this one."""
    words = only(stages()[-1], "HEALTHCHECK").words
    variables = image.variables() | {"BEANPOLE_URL": f"beanstalk://{HOST}:{port}"}
    return subprocess.run(
        image.as_user(words), env=variables, cwd="/", capture_output=True, check=False, timeout=60
    ).returncode


@pytest.mark.long
@pytest.mark.xdist_group("image")
def test_a_container_keeps_its_jobs_and_says_how_it_is(image: Image) -> None:
    command = only(stages()[-1], "CMD").words
    with running(image, command) as process:
        assert health(image, process.port) == 0
        with process.connect() as client:
            client.ask(b"put 0 0 60 5\r\nhello\r\n", b"INSERTED 1\r\n")
        port = process.port
        process.popen.terminate()
        assert process.wait_exit() == 0, "as `docker stop` ends it"
        assert health(image, port) != 0
    with running(image, command) as process, process.connect() as client:
        client.ask(b"reserve\r\n", b"RESERVED 1 5\r\nhello\r\n")


@pytest.mark.long
@pytest.mark.xdist_group("image")
def test_the_command_of_the_composition_starts(image: Image) -> None:
    command = read_yaml(ROOT / "compose.yaml")["services"]["beanpole"]["command"]
    with running(image, command) as process:
        assert health(image, process.port) == 0


def test_the_composition_has_pages_for_who_has_a_token() -> None:
    service = read_yaml(ROOT / "compose.yaml")["services"]["beanpole"]
    (file,) = service["environment"].items()
    assert file == ("BEANPOLE_HTTP_TOKEN_FILE", "${BEANPOLE_HTTP_TOKEN_FILE:+/run/tokens}")
    assert file[0] in {option.envvar for option in serve.params}
    assert "${BEANPOLE_HTTP_TOKEN_FILE:-/dev/null}:/run/tokens:ro" in service["volumes"]


def test_the_image_is_linted() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_and_stops_at_once() -> None:
    last = stages()[-1]
    assert only(last, "USER").text == f"{USER}:{USER}"
    assert only(last, "VOLUME").text == "/data"
    for verb in ("ENTRYPOINT", "CMD"):
        assert only(last, verb).words, "in the exec form signals reach the server, not a shell"


def test_what_the_composition_mounts_is_there() -> None:
    composition = read_yaml(ROOT / "compose.yaml")
    mounted = [mount for service in composition["services"].values() for mount in service.get("volumes", [])]
    for each in mounted:
        mount, *options = each.rsplit(":ro", 1)
        source, target = mount.rsplit(":", 1)
        assert target.startswith("/"), mount
        if source.startswith(("./", "/", "$")):
            assert options == [""], f"{mount} can be written"
            assert source.startswith("$") or (ROOT / source).exists(), mount
        else:
            assert source in composition["volumes"], mount
    published = [port for service in composition["services"].values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published), "anybody could take and delete every job"


def test_the_parts_of_the_composition_find_each_other() -> None:
    services = read_yaml(ROOT / "compose.yaml")["services"]
    (scrape,) = read_yaml(OPS / "prometheus/compose.yml")["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": ["beanpole:11380"]}]
    command = services["beanpole"]["command"]
    assert command[command.index("--http-host") + 1] == "beanpole"
    (source,) = read_yaml(OPS / "grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read_yaml(OPS / "grafana/provisioning/dashboards/beanpole.yml")["providers"]
    boards = [mount.split(":")[1] for mount in services["grafana"]["volumes"] if "beanpole.json" in mount]
    assert boards == [f"{provider['options']['path']}/beanpole.json"]
    assert services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == boards[0]
