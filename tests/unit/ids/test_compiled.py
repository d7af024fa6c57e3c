"""What `make serve-ids` compiles: every compiled module that a verb of ``beanpole ids`` imports."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

COMPILED_IMPORTS = """
import sys
import beanpole.cli.ids_client, beanpole.cli.ids_export, beanpole.cli.ids_processes, beanpole.ids.app
print(*(n for n, m in sys.modules.items() if n.startswith("beanpole.") and (m.__file__ or "").endswith(".so")))
"""


@pytest.mark.repository
def test_what_verbs_import_is_compiled_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: set[str] = set()

    def setup(ext_modules: list[Any], **_: object) -> None:
        chosen.update(each.name for each in ext_modules)

    monkeypatch.setenv("BEANPOLE_COMPILE", "ids")
    monkeypatch.setattr("setuptools.setup", setup)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    printed = subprocess.run([sys.executable, "-c", COMPILED_IMPORTS], capture_output=True, text=True, check=True)
    imported = set(printed.stdout.split())
    assert "beanpole.ids.fast" in imported
    assert imported <= chosen, "setup.py: SHARED lacks them"
