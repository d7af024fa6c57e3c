"""Read a configuration: our own TOML file, or the JSON file of the original. All of a file is good or none of it."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from beanpole_ids.errors import RuleError
from beanpole_ids.original import wire
from beanpole_ids.original.config import read_original
from beanpole_ids.rules.config import NO_RULES, Config, read_own
from beanpole_ids.rules.rule import Rule


def load(path: Path, leased: int = 0, process: int = 0, known: Mapping[str, Rule] = NO_RULES) -> Config:
    """Read a configuration; a name that ends in ``.json`` is one of the original.

    `leased`: the number of the node, if the configuration has it leased. `process`: for which of its processes, from 0.
    `known`: rules that were read before; those of which nothing has changed are taken from there, not read again.

    Raises RuleError: it can't be read, makes no sense, or has a rule that could repeat a number.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".json":
            return read_original(wire.parse(data.lstrip()), path.parent, known)
        return read_own(tomllib.loads(data.decode()), path.parent, leased, process, known)
    except OSError as error:
        raise RuleError(f"cannot read {path}: {error.strerror}") from error
    except (RuleError, ValueError) as error:
        raise RuleError(f"{path}: {error}") from error
