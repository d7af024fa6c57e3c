"""The fork server of the repository's tests, for programs of the ID service: see `tests/forks.py` there."""

import importlib.util
import warnings
from pathlib import Path
from typing import Any

spec = importlib.util.spec_from_file_location("forks", Path(__file__).resolve().parents[2] / "tests/forks.py")
assert spec, "it is there"
assert spec.loader, "it is Python"
forks: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(forks)

forks.PROGRAMS = ("tests.e2e.patient",)
forks.PACKAGE = "beanpole_ids"
forks.NOT_IMPORTED = ("beanpole_ids.__main__",)

Popen = forks.Popen

if __name__ == "__main__":
    warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)  # the program was imported to prepare
    forks.main()
