"""What stands in `ops/`, `Dockerfile` and `compose.yaml`, read as their programs read it, as far as tests need it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "ops"


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OPS / "grafana/beanpole.json").read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """The panels of the board that show something; the others are the titles of its rows."""
    return [panel for panel in board()["panels"] if panel["type"] != "row"]


def read_yaml(path: Path) -> Any:  # noqa: ANN401 - any YAML
    return yaml.safe_load(path.read_text())


def alerts() -> dict[str, dict[str, Any]]:
    groups = read_yaml(OPS / "prometheus/alerts.yml")["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of a Dockerfile, with what it continues on."""

    verb: str
    text: str

    @property
    def words(self) -> list[str]:
        words: list[str] = json.loads(self.text[self.text.index("[") :])
        return words


def dockerfile() -> list[Instruction]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage; what stands before the first is left out."""
    found: list[list[Instruction]] = []
    for instruction in dockerfile():
        if instruction.verb == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def only(stage: list[Instruction], verb: str) -> Instruction:
    """The one instruction of a stage with this verb."""
    (found,) = [each for each in stage if each.verb == verb]
    return found
