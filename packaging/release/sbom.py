"""Writes what is installed with a distribution as CycloneDX, for its wheels: `make sbom`, when dependencies change.

`sbom.cdx.json` has each package that pip installs with all extras which a user may ask for, in the version of
constraints.txt, for each Python from PYTHONS; what only some users need is optional, what only a build needs excluded.
It depends on nothing else: no time, no machine. It is kept in the repository, so that a wheel that is made without a
network, or from an archive, has it as well: below `*.dist-info/sboms`, as PEP 770 says.

Read from what is installed beside: the requirements and the licence of each package.
"""

import json
import sys
import tomllib
import uuid
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.14")
"""The oldest and the newest that wheels are made for."""

EXTRAS = {"beanpole": ("cluster", "console", "django", "otel", "relay"), "beanpole-ids": ("databases",)}
"""What users may ask for; the other extras are for who works on it."""

FOLDERS = {"beanpole": ROOT, "beanpole-ids": ROOT / "ids"}


def pins(text: str) -> dict[str, str]:
    """The versions of a file of constraints."""
    pairs = (line.split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name.strip()): version.strip() for name, version in pairs}


def needed(name: str, extras: tuple[str, ...], python: str) -> dict[str, set[str]]:
    """Each package that is installed with another on Linux, itself included, with those that it requires itself."""
    found: dict[str, set[str]] = {}
    asked, to_do = set(), [(name, extra) for extra in ("", *extras)]
    while to_do:
        package, extra = to_do.pop()
        if (package, extra) in asked:
            continue
        asked.add((package, extra))
        required = found.setdefault(package, set())
        environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": extra}
        for line in distribution(package).requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(environment):
                other = canonicalize_name(requirement.name)
                required.add(other)
                to_do += [(other, each) for each in ("", *requirement.extras)]
    return found


def component(name: str, version: str, scope: ComponentScope | None = None) -> Component:
    """A package, with its licence if its metadata has one as SPDX says it."""
    licence = distribution(name).metadata.get("License-Expression")
    return Component(
        name=name,
        version=version,
        type=ComponentType.APPLICATION if scope is None else ComponentType.LIBRARY,
        bom_ref=f"{name}@{version}",
        scope=scope,
        purl=PackageURL("pypi", name=name, version=version),
        licenses=[LicenseExpression(licence)] if licence else (),
    )


def bom(name: str) -> Bom:
    """What a distribution of this repository is installed with."""
    project = tomllib.loads((FOLDERS[name] / "pyproject.toml").read_text())
    versions = pins((ROOT / "constraints.txt").read_text())
    least = set.intersection(*(set(needed(name, (), python)) for python in PYTHONS))
    graph: dict[str, set[str]] = {}
    for python in PYTHONS:
        for each, required in needed(name, EXTRAS[name], python).items():
            graph.setdefault(each, set()).update(required)
    built_by = {canonicalize_name(Requirement(line).name) for line in project["build-system"]["requires"]} - set(graph)

    made = Bom()
    made.metadata.component = component(name, project["project"]["version"])
    parts = {name: made.metadata.component}
    for each in sorted((set(graph) | built_by) - {name}):
        scope = ComponentScope.REQUIRED if each in least else ComponentScope.OPTIONAL
        parts[each] = component(each, versions[each], ComponentScope.EXCLUDED if each in built_by else scope)
        made.components.add(parts[each])
    for each, required in graph.items():
        made.register_dependency(parts[each], [parts[other] for other in sorted(required)])
    return made


def text(name: str) -> str:
    """The same, as JSON that is the same for the same packages."""
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom(name)).output_as_string())
    del document["metadata"]["timestamp"], document["serialNumber"]
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True)).urn
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Write both."""
    for name, folder in FOLDERS.items():
        (folder / "sbom.cdx.json").write_text(text(name))


if __name__ == "__main__":
    sys.exit(main())
