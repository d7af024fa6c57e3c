"""Says whether what is installed with a wheel is what the wheel lists: `python packaging/wheels/installed.py`.

It takes the python of a fresh environment that has nothing else. The list lies in the wheel's `*.dist-info/sboms`.
"""

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from typing import Any

OURS = ("beanpole", "beanpole-ids")
TOOLS = {"pip", "setuptools", "wheel"}
"""What an environment may have by itself."""


def normal(name: str) -> str:
    """A package's name, as the index knows it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parts_of(one: Distribution) -> list[dict[str, Any]]:
    """The packages that a wheel of ours lists."""
    (path,) = [each for each in one.files or () if each.parts[-2:-1] == ("sboms",)]
    document = json.loads(path.read_text())
    parts: list[dict[str, Any]] = document["components"]
    return [document["metadata"]["component"] | {"scope": "required"}, *parts]


def faults(parts: Iterable[dict[str, Any]], found: dict[str, str]) -> list[str]:
    """What is installed and not listed, or in another version, and what is listed as required and not installed."""
    listed = {each["name"]: each["version"] for each in parts if each["scope"] != "excluded"}
    required = {each["name"] for each in parts if each["scope"] == "required"}
    return [
        *(f"{name} {version} is installed, not listed" for name, version in found.items() if name not in listed),
        *(
            f"{name} {version} is installed, not {listed[name]}"
            for name, version in found.items()
            if listed.get(name, version) != version
        ),
        *(f"{name} is required, not installed" for name in sorted(required - set(found))),
    ]


def main() -> None:
    """Compare, and say what is wrong."""
    every = {normal(each.name): each for each in distributions()}
    found = {name: each.version for name, each in every.items() if name not in TOOLS}
    parts = [part for name in OURS if name in every for part in parts_of(every[name])]
    if wrong := faults(parts, found):
        sys.exit("\n".join(wrong))
    print(f"The wheels list the {len(found)} packages that are installed, and their versions.")


if __name__ == "__main__":
    main()
