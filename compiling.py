"""How a distribution of this repository is compiled: a module that has a ``.pxd`` beside it becomes a C extension.

``setup.py`` of each calls `compile_with` in its own folder. Beside each module a stub is written. An archive of the
sources has the same bytes each time that it is made with the same SOURCE_DATE_EPOCH, as a wheel has.
"""

import gc
import gzip
import os
import re
import shutil
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

from progress import Progress
from stubs import SOURCE, stub

OPTIMIZED = {
    True: ["-O3"],
    # gcc takes a third less for these, and nearly all that -O2 brings comes from them.
    False: [
        "-O1",
        "-finline-small-functions",
        "-foptimize-sibling-calls",
        "-freorder-blocks",
        "-fstrict-aliasing",
        "-ftree-vrp",
    ],
}
"""By whether a module is hot. For what is only tested, BEANPOLE_OPTIMIZE=-Og takes 2 fifths of gcc's time."""

ERRORS = ["-Werror=implicit-function-declaration", "-Werror=incompatible-pointer-types", "-Werror=int-conversion"]
"""What gcc takes for errors from 14 on, which Debian 13 has."""

PARTS = Path("sbom.cdx.json")
"""What is installed with a distribution; `make sbom` writes it."""

NOTHING = re.compile("(?!)")

CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1

FOLDER = os.environ.get("BEANPOLE_COMPILE", str(SOURCE))
"""Where compiled modules are: in `src`; in `benchmarks`, of which no wheel has anything; `no`: nothing is compiled.

`make` installs a distribution first and compiles afterwards, in place, only what has changed.
"""


FOR_LINUX = os.environ.get("BEANPOLE_PORTABLE", "yes" if sys.platform != "linux" else "") == ""
"""Whether what needs Linux is compiled as well; without it a Mac has all but the server: decision 22."""


def compiled_modules(hot: re.Pattern[str], linux: re.Pattern[str]) -> list[Extension]:
    """Every ``.py`` below the folder that has a ``.pxd`` beside it, as an extension; the longest first."""
    found = []
    for source in sorted(Path(FOLDER).rglob("*.py"), key=lambda path: (-path.stat().st_size, path)):
        if not source.with_suffix(".pxd").exists():
            continue
        root = SOURCE if source.is_relative_to(SOURCE) else Path()
        name = ".".join(source.relative_to(root).with_suffix("").parts)
        if not FOR_LINUX and linux.fullmatch(name):
            continue
        is_hot = hot.fullmatch(name) is not None
        flags = os.environ.get("BEANPOLE_OPTIMIZE", "").split() or OPTIMIZED[is_hot]
        # Python's own flags have -g, which takes a third of gcc's time and makes a module seven times as long.
        found.append(
            Extension(name, [str(source)], extra_compile_args=[*flags, *ERRORS, "-g0", "-Wno-unused-function"])
        )
        found[-1].cython_directives = {"nonecheck": not is_hot}
    return found


class BuildExtensions(build_ext):
    """Translates the modules that have changed to C, compiles them, and writes a stub beside each."""

    def run(self) -> None:
        """Translate, compile, then write."""
        modules = {Path(extension.sources[0]): extension for extension in self.extensions}
        places = {path: Path(self.get_ext_fullpath(each.name)) for path, each in modules.items()}
        built = {path: Path(self.build_lib, self.get_ext_filename(each.name)) for path, each in modules.items()}
        with Progress(built, Path("build/cython"), CORES):
            self.translate()
            super().run()
        for path, place in places.items():
            place.with_name(path.with_suffix(".pyi").name).write_text(stub(path))

    def translate(self) -> None:
        """Write the C of each module whose source, or a header that it needs, is newer than it."""
        from Cython.Build import cythonize  # noqa: PLC0415 - who only installs the command needs no Cython

        gc.set_threshold(1_000_000, 10, 10)  # looking for garbage in syntax trees takes a third of the time
        extensions = {each.name: each for each in self.extensions}
        for each in cythonize(
            self.extensions,
            include_path=[str(SOURCE)],
            nthreads=CORES,
            build_dir="build/cython",
            compiler_directives={
                "language_level": 3,
                "cdivision": True,
                "infer_types": True,
                "auto_pickle": False,  # nobody pickles what is compiled, and to be able to is a quarter of the C
                "warn.unused": True,
            },
        ):
            extensions[each.name].sources, extensions[each.name].depends = each.sources, each.depends


class Wheel(bdist_wheel):
    """A wheel that says what is installed with it, where PEP 770 wants it."""

    def write_wheelfile(self, wheelfile_base: str, *rest: str) -> None:
        """Write the description of the wheel, then add that."""
        super().write_wheelfile(wheelfile_base, *rest)
        folder = Path(wheelfile_base, "sboms")
        folder.mkdir(exist_ok=True)
        shutil.copyfile(PARTS, folder / f"{self.distribution.get_name()}.cdx.json")


class SourceArchive(sdist):
    """The archive of the sources: with what compiles them, which lies elsewhere in a checkout, and always the same."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy this module and those that it needs, too."""
        super().make_release_tree(base_dir, files)
        for name in ("compiling.py", "progress.py", "stubs.py"):
            shutil.copy(Path(__file__).with_name(name), base_dir)
        shutil.copy(PARTS, base_dir)

    def make_archive(self, base_name: str, *_: object, **__: object) -> str:
        """Pack the files by their names, all of one time, and nobody's."""
        name, now_s = f"{base_name}.tar.gz", int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))

        def neutral(each: tarfile.TarInfo) -> tarfile.TarInfo:
            each.mtime, each.uid, each.gid, each.uname, each.gname = now_s, 0, 0, "", ""
            each.mode = 0o755 if each.mode & 0o100 else 0o644
            return each

        Path(name).parent.mkdir(parents=True, exist_ok=True)
        with (
            Path(name).open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=now_s) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted(Path(self.distribution.get_fullname()).rglob("*")):
                archive.add(path, recursive=False, filter=neutral)
        return name


def compile_with(hot: re.Pattern[str], linux: re.Pattern[str] = NOTHING) -> dict[str, Any]:
    """Return the arguments of `setup`.

    `hot` are the modules that are not checked for None at each attribute, `linux` those that need its system calls.
    """
    return {
        "ext_modules": compiled_modules(hot, linux) if FOLDER != "no" else [],
        "package_dir": {FOLDER: FOLDER} if FOLDER == "benchmarks" else {"": str(SOURCE)},
        "cmdclass": {"build_ext": BuildExtensions, "bdist_wheel": Wheel, "sdist": SourceArchive},
        "options": {"build_ext": {"parallel": CORES}},
    }
