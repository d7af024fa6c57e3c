"""How far a build is: one line that changes on a terminal, a line now and then elsewhere.

It looks at the files that Cython and the C compiler write, so that it knows what two pools of processes have done. The
lines go to the file descriptor that BEANPOLE_PROGRESS names, as everything else that a build says goes to its log;
without it there are none.
"""

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TextIO

CPU_S = 70
"""What a million bytes of source took on a machine of 2026."""

TRUSTED = 0.2
"""The share of the work after which an estimate comes from this build alone; before, the more so the further."""

TRANSLATING = 0.2
"""The share of Cython in the work; the rest is the C compiler's."""

MODULE_BYTES = 8000
"""What each module takes besides its own bytes, for Python's headers above all, in bytes of source."""

TERMINAL_S, ELSEWHERE_S = 0.5, 15


def whole_s(done: float, elapsed_s: float, expected_s: float) -> float:
    """How long the whole build will take, of which a share is done."""
    trust = min(1, done / TRUSTED)
    return (1 - trust) * expected_s + (trust * elapsed_s / done if done else 0)


class Progress:
    """Writes how many modules are compiled, while its block runs."""

    def __init__(self, modules: dict[Path, Path], translated: Path, cores: int) -> None:
        self.modules = modules  # the source of each, and where it will be
        self.translated = translated  # the folder of the C files
        self.sizes = {path: path.stat().st_size + MODULE_BYTES for path in modules}
        expected = CPU_S * sum(self.sizes.values()) / 1e6 / cores
        self.expected = expected if not any(each.exists() for each in modules.values()) else None
        self.began, self.clock = time.time(), time.monotonic()
        self.stopped = threading.Event()
        descriptor = os.environ.get("BEANPOLE_PROGRESS")
        self.out: TextIO | None = os.fdopen(int(descriptor), "w") if descriptor else None
        self.is_terminal = self.out is not None and self.out.isatty()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> None:
        if self.out:
            self.thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.out:
            self.stopped.set()
            self.thread.join()
            compiled = sum(self.is_new(place) for place in self.modules.values())
            took = f"in {time.monotonic() - self.clock:.0f} s"
            self.write(f"Failed {took}" if kind else f"Compiled {compiled} modules {took}", "\n")

    def watch(self) -> None:
        """Write, until the block ends."""
        while not self.stopped.wait(TERMINAL_S if self.is_terminal else ELSEWHERE_S):
            self.write(self.text(), "" if self.is_terminal else "\n")

    def write(self, text: str, end: str) -> None:
        """Write a line, over the one before on a terminal."""
        print(f"\r\033[K{text}" if self.is_terminal else text, end=end, file=self.out, flush=True)

    def is_new(self, path: Path) -> bool:
        """Whether this build has written `path`."""
        try:
            return path.stat().st_mtime >= self.began
        except FileNotFoundError:
            return False

    def text(self) -> str:
        """How far it is."""
        elapsed = time.monotonic() - self.clock
        compiled = {path for path, place in self.modules.items() if self.is_new(place)}
        translated = {path for path in self.modules if self.is_new(self.translated / path.with_suffix(".c"))}
        if self.expected is None:  # nobody knows yet how many
            return (
                f"Compiled {len(compiled)} of {len(translated | compiled)} modules that have changed, {elapsed:.0f} s"
            )
        done = TRANSLATING * self.share(translated) + (1 - TRANSLATING) * self.share(compiled)
        total = max(elapsed, whole_s(done, elapsed, self.expected))
        return (
            f"Translated {len(translated)}, compiled {len(compiled)} of {len(self.modules)} modules, "
            f"{elapsed:.0f} s of about {total:.0f} s"
        )

    def share(self, done: set[Path]) -> float:
        """The share of `done` in the work."""
        return sum(self.sizes[path] for path in done) / sum(self.sizes.values())
