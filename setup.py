"""The compiled part of the build: every module that has a ``.pxd`` beside it becomes a C extension with a stub.

Everything else about the project stands in ``pyproject.toml``.
"""

import os
import re
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent))  # which a build in isolation lacks

from stubs import SOURCE, stub

HOT = re.compile(
    r"beanpole\.(protocol\..*|engine\.(changing|engine|expiring|expiryqueue|extension|frame|heap|histogram|job|jobtable|keyed|keys|kick|limiting|many|putting|tags|times|tube|tubelist|tubes|session|sessionlist|walk|work)"
    r"|log\.(accounts|encoder)|server\.connection)"
)
"""What runs for every command, where a check of each attribute for None costs 6 % of a put, reserve and delete."""


def compiled_modules() -> list[Extension]:
    """Every ``.py`` below ``src`` that has a ``.pxd`` of the same name, as an extension."""
    headers = [each for each in sorted(SOURCE.rglob("*.pxd")) if each.with_suffix(".py").exists()]
    found = []
    for header in headers:
        name = ".".join(header.relative_to(SOURCE).with_suffix("").parts)
        sources = [str(header.with_suffix(".py"))]
        found.append(Extension(name, sources, extra_compile_args=["-O2", "-Wno-unused-function"]))
        found[-1].cython_directives = {"nonecheck": HOT.fullmatch(name) is None}
    return found


class BuildExtensions(build_ext):
    """Compiles the modules, and writes a stub beside each."""

    def run(self) -> None:
        """Compile, then write."""
        super().run()
        for extension in self.extensions:
            stub_path = Path(self.get_ext_fullpath(extension.name)).parent / (
                extension.name.rpartition(".")[2] + ".pyi"
            )
            stub_path.write_text(stub(Path(SOURCE, *extension.name.split(".")).with_suffix(".py")))


setup(
    # `make` installs the command first and compiles afterwards, in place, only what has changed.
    ext_modules=[]
    if os.environ.get("BEANPOLE_COMPILE") == "no"
    else cythonize(
        compiled_modules(),
        include_path=[str(SOURCE)],
        nthreads=os.cpu_count() or 1,
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "cdivision": True,
            "infer_types": True,
            "warn.unused": True,
        },
    ),
    cmdclass={"build_ext": BuildExtensions},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
