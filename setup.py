"""The compiled part of the build: every module that has a ``.pxd`` beside it becomes a C extension.

Everything else about the project stands in ``pyproject.toml``.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")


def compiled_modules() -> list[Extension]:
    """Every ``.py`` below ``src`` that has a ``.pxd`` of the same name, as an extension."""
    return [
        Extension(
            ".".join(header.relative_to(SOURCE).with_suffix("").parts),
            [str(header.with_suffix(".py"))],
            extra_compile_args=["-O2", "-Wno-unused-function"],
        )
        for header in sorted(SOURCE.rglob("*.pxd"))
        if header.with_suffix(".py").exists()
    ]


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
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
            "infer_types": True,
            "warn.unused": True,
        },
    ),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
