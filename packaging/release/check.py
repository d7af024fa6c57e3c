"""Proves what can be proven of a release before anything is published: `make release-check TAG=v0.1.0`.

1. The tag (else the one of HEAD), the versions of both distributions and of the chart, and a section of CHANGELOG.md
   are the same.
   Without a tag it is a rehearsal: what is not released is under "Unreleased".
2. The archives of the sources, and the wheels of one Python, are built twice, in two places: byte by byte the same.
3. The wheels are built from these archives, for each Python of this machine; each is installed in a fresh environment,
   used there, and lists what is installed (packaging/wheels).
4. twine finds nothing wrong; auditwheel names the libraries of the system that a wheel needs; the lists are CycloneDX.
5. Helm finds nothing wrong with the chart as it is packed.

All is in dist afterwards, with SHA256SUMS. What the workflow `release` does besides, and how much of that can be seen
before, stands in the README beside this script. The workflow asks it for the first point and for the notes, too:

    packaging/release/check.py versions v0.1.0
    packaging/release/check.py notes v0.1.0
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
TOOLS = ROOT / ".venv/bin"
UNRELEASED = "Unreleased"


def step(title: str) -> None:
    """Say what is done now."""
    print(f"\n=== {title}", flush=True)


# --- Pure -------------------------------------------------------------------------------------------------------------


def section(changelog: str, name: str) -> str | None:
    """What stands below the heading of a version, which may have a date behind it; None: there is no such heading."""
    found = re.search(rf"^## {re.escape(name)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else None


def version_faults(tag: str, versions: dict[str, str], changelog: str) -> list[str]:
    """What does not fit a release with this tag, or a rehearsal if it is empty; `versions` by where they stand."""
    wanted = tag.removeprefix("v") if tag else next(iter(versions.values()))
    heading = wanted if tag else UNRELEASED
    faults = [f"{where} says {version}, not {wanted}" for where, version in versions.items() if version != wanted]
    if tag and not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        faults.append(f"{tag} is no tag like v1.2.3")
    if not section(changelog, heading):
        faults.append(f"CHANGELOG.md has nothing under {heading}")
    if tag and section(changelog, UNRELEASED):
        faults.append(f"CHANGELOG.md still has something under {UNRELEASED}")
    return faults


def different(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """The files of the second build that the first has otherwise, or not at all."""
    return sorted(name for name, digest in second.items() if first.get(name) != digest)


# --- Files ------------------------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """The versions, by where they stand."""
    found = {}
    for path in ("pyproject.toml", "ids/pyproject.toml"):
        found[path] = tomllib.loads((ROOT / path).read_text())["project"]["version"]
    for path in ("src/beanpole/version.py", "ids/src/beanpole_ids/__init__.py"):
        found[path] = re.findall(r'^__version__ = "(.*)"$', (ROOT / path).read_text(), re.MULTILINE)[0]
    chart = "charts/beanpole/Chart.yaml"
    for name, version in re.findall(r"^(version|appVersion): (.*)$", (ROOT / chart).read_text(), re.MULTILINE):
        found[f"{name} of {chart}"] = version
    return found


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of each file, by its name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def tag_of_head() -> str:
    """The tag of what is checked out; empty: it has none."""
    done = subprocess.run(["git", "tag", "--points-at", "HEAD", "v*"], capture_output=True, text=True, check=True)
    return done.stdout.split()[0] if done.stdout.split() else ""


def check_versions(tag: str) -> None:
    """End if something does not fit."""
    if faults := version_faults(tag, versions(), (ROOT / "CHANGELOG.md").read_text()):
        sys.exit("\n".join(faults))
    print(f"{tag} is the version of all, and in CHANGELOG.md." if tag else "No tag: a rehearsal.")


def build(to: Path, **variables: str) -> None:
    """Archives and wheels, as `make wheels` makes them."""
    environment = os.environ | {"WHEELS_TO": str(to)} | variables
    subprocess.run([ROOT / "packaging/wheels/build"], env=environment, check=True)


def check_twice() -> None:
    """Build once more, for one Python, and compare."""
    python = os.environ.get("PYTHONS", "").split()[:1] or [str(TOOLS / "python")]
    with tempfile.TemporaryDirectory() as name:
        build(Path(name), PYTHONS=python[0], WHEELS_TRIED="no")
        second = digests(Path(name).iterdir())
    if wrong := different(digests(DIST.iterdir()), second):
        sys.exit(f"another build gives other bytes: {', '.join(wrong)}")
    print("\n".join(f"the same twice: {name}" for name in second))


def check_wheel(path: Path) -> None:
    """What a wheel needs of the system, and whether its list is CycloneDX."""
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415 - only this check needs the validator
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415 - see above

    said = subprocess.run([TOOLS / "auditwheel", "show", path], capture_output=True, text=True, check=True).stdout
    tag = re.findall(r'consistent with\s+the following platform tag:\s*"([^"]+)"', said)
    with zipfile.ZipFile(path) as archive:
        (name,) = [each for each in archive.namelist() if re.search(r"\.dist-info/sboms/.*\.json$", each)]
        wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(archive.read(name).decode())
    if wrong or not tag or not tag[0].startswith("manylinux"):
        sys.exit(f"{path.name}: {wrong or said}")
    if "abi3" in path.name:
        sys.exit(f"{path.name}: one for several Pythons needs abi3audit")
    print(f"{path.name}: {tag[0]}, lists its parts")


def pack_chart(to: Path) -> Path:
    """Write the archive of the chart, as it is in HEAD, under a name that is not like those of the sources."""
    path = to / f"beanpole-chart-{versions()['pyproject.toml']}.tgz"
    command = ["git", "-c", f"safe.directory={ROOT}", "archive", f"--output={path}", "HEAD", "beanpole"]
    subprocess.run(command, cwd=ROOT / "charts", check=True)
    return path


def check_chart(path: Path) -> None:
    """End if Helm finds something."""
    try:
        import helm_python  # noqa: PLC0415 - its library is only there for x86-64
    except ImportError:
        print("Helm's library is not installed: the chart is packed, and not looked at.")
        return
    if errors := helm_python.lint(path, strict=True)["errors"]:
        sys.exit(f"{path.name}: {errors}")
    print(f"{path.name}: Helm finds nothing wrong")


def check_all(tag: str) -> None:
    """Everything, into an empty folder."""
    check_versions(tag)
    DIST.mkdir(exist_ok=True)
    for path in [*DIST.glob("*.whl"), *DIST.glob("*.tar.gz"), *DIST.glob("*.tgz"), DIST / "SHA256SUMS"]:
        path.unlink(missing_ok=True)
    build(DIST)
    made = [*DIST.glob("*.tar.gz"), *DIST.glob("*.whl")]
    step("A second build")
    check_twice()
    step("Their descriptions, and what they need")
    subprocess.run([TOOLS / "twine", "check", "--strict", *made], check=True)
    for path in sorted(DIST.glob("*.whl")):
        check_wheel(path)
    step("The chart")
    made.append(pack_chart(DIST))
    check_chart(made[-1])
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests(made).items())
    (DIST / "SHA256SUMS").write_text(sums)
    step("It can be released." if tag else "It could be released, with a tag and a section of its version.")


def main(arguments: list[str]) -> None:
    """Do what is asked."""
    what, tag = arguments[0], arguments[1] if len(arguments) > 1 else ""
    if what == "notes":
        print(section((ROOT / "CHANGELOG.md").read_text(), tag.removeprefix("v")) or sys.exit(f"nothing about {tag}"))
    elif what == "versions":
        check_versions(tag)
    else:
        check_all(tag or tag_of_head())


if __name__ == "__main__":
    main(sys.argv[1:])
