"""The state of `top`, and what a key does to it. No terminal, no server: samples and keys go in, orders come out.

Invariants:

- `selected` is the name of a tube that is shown, or empty when none is. It stays on its tube when the order of
  the table changes, so that a key never applies to another tube than the one that the user saw.
- A prompt belongs to the tube (`asked_tube`) that was selected when it was opened.
"""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from beanpole.observe.columns import COLUMNS, Column
from beanpole.observe.top_sampler import CommandRates, Row, TopSample, matches
from beanpole.quantities import seconds_of

HISTORY = 120  # samples of which the rates are kept for the bars
PAUSE_S_DEFAULT = 3600  # seconds of a pause when nothing is typed
TYPED_MAX = 20  # characters that a prompt takes
NUMBER = re.compile(r"[0-9]+")  # how many jobs a kick may be asked for

AGES_INSPECTED = 100
"""Tubes outside the window whose next job is inspected if its age matters, as each brings a body with it."""

AGE = next(index for index, column in enumerate(COLUMNS) if column.title == "AGE")


class Mode(Enum):
    """What keys mean."""

    TABLE = "table"
    FILTER = "filter"
    KICK = "kick"
    PAUSE = "pause"
    HELP = "help"
    TUBE = "tube"


class Simple(Enum):
    """An order that needs no more words."""

    QUIT = "end"
    SUSPEND = "go into the background"
    REFRESH = "take a sample now"


@dataclass(frozen=True, slots=True)
class Kick:
    """An order to kick up to `bound` jobs of a tube."""

    tube: str
    bound: int


@dataclass(frozen=True, slots=True)
class Pause:
    """An order to pause a tube for some seconds; 0 ends a pause."""

    tube: str
    delay_s: int


Order = Simple | Kick | Pause


@dataclass
class Top:
    """What is shown, and how."""

    sample: TopSample | None = None
    problem: str = ""
    """Why there is no new sample; empty: there is."""
    message: str = ""
    """The result of the last order."""
    mode: Mode = Mode.TABLE
    sort: int = 1
    """The column that the table is sorted by, as an index into COLUMNS."""
    descending: bool = True
    pattern: str = ""
    """Only tubes that have this in their name are shown."""
    typed: str = ""
    """What was typed into a prompt so far."""
    asked_tube: str = ""
    opened: str = ""
    """The tube that is shown alone in Mode.TUBE."""
    selected: str = ""
    first: int = 0
    """The index of the first row in the window."""
    height: int = 20
    """Rows that the window has room for."""
    history: deque[CommandRates] = field(default_factory=lambda: deque(maxlen=HISTORY))
    rows: list[Row] = field(default_factory=list)
    """The rows as they are sorted and filtered."""

    # --- What is there ---

    def show(self, sample: TopSample) -> None:
        if sample.rates is not None:
            self.history.append(sample.rates)
        else:
            self.history.clear()
        self.sample, self.problem = sample, ""
        self.arrange()

    def arrange(self) -> None:
        """Sorts and filters the rows, and keeps the selected one in the window."""
        known = self.sample.rows.values() if self.sample else ()
        self.rows = sorted((row for row in known if matches(row.stats.name, self.pattern)), key=_name)
        self.rows.sort(key=self.column.key, reverse=self.descending)
        names = [row.stats.name for row in self.rows]
        if self.selected not in names:
            self.selected = names[min(self.first, len(names) - 1)] if names else ""
        self._follow(names.index(self.selected) if names else 0)

    @property
    def column(self) -> Column:
        return COLUMNS[self.sort]

    @property
    def timed(self) -> bool:
        return self.sample is not None and self.sample.timed

    def page(self) -> list[Row]:
        return self.rows[self.first : self.first + self.height]

    def wanted(self) -> list[str]:
        """The tubes that the next sample has to ask about: those in the window, and what the order needs."""
        rows = [*self.page(), *(self.most_ready() if self.sort == AGE else ())]
        return list(dict.fromkeys(row.stats.name for row in rows))

    def most_ready(self) -> list[Row]:
        ready = sorted(self.rows, key=lambda row: row.stats.current_jobs_ready, reverse=True)
        return ready[:AGES_INSPECTED]

    def shown_alone(self) -> str:
        """The tube of which the next sample has to show the first jobs; empty: none."""
        return self.opened if self.mode is Mode.TUBE else ""

    def row_of(self, tube: str) -> Row | None:
        return self.sample.rows.get(tube) if self.sample else None

    def _follow(self, index: int) -> None:
        last = max(len(self.rows) - self.height, 0)
        self.first = min(max(self.first, index - self.height + 1), index, last) if self.rows else 0

    # --- Keys ---

    def resize(self, height: int) -> None:
        """Adapts to a window with room for so many rows."""
        self.height = max(height, 1)
        self.arrange()

    def press(self, key: str) -> Order | None:
        """Does what a key asks for, or returns the order."""
        if key == "control-c":
            return Simple.QUIT
        if key == "control-z":
            return Simple.SUSPEND
        self.message = ""
        if self.mode is Mode.HELP:
            self.mode = Mode.TABLE
            return None
        press = {
            Mode.TABLE: self._press_in_table,
            Mode.TUBE: self._press_in_tube,
            Mode.FILTER: self._press_in_filter,
            Mode.KICK: self._press_in_prompt,
            Mode.PAUSE: self._press_in_prompt,
        }
        return press[self.mode](key)

    def _press_in_table(self, key: str) -> Order | None:
        if key in MOVES:
            self._move(MOVES[key](self.height))
            return None
        if key in ACTIONS:
            return ACTIONS[key](self)
        return None

    def _press_in_tube(self, key: str) -> Order | None:
        if key in {"escape", "enter", "k", "p", "?", "h"}:
            self.mode = Mode.TABLE
        is_same = self.selected == self.opened  # it may be gone, and another one selected since
        if key in {"q", " ", "control-l", "?", "h"} or (is_same and key in {"k", "p", "u"}):
            return ACTIONS[key](self)
        return None

    def _move(self, by: int) -> None:
        if self.rows:
            names = [row.stats.name for row in self.rows]
            index = min(max(names.index(self.selected) + by, 0), len(names) - 1)
            self.selected = names[index]
            self._follow(index)

    def _press_in_filter(self, key: str) -> Order | None:
        if key == "enter":
            self.mode = Mode.TABLE
            return None
        if key == "escape":
            self.mode, self.pattern = Mode.TABLE, ""
        elif key == "backspace":
            self.pattern = self.pattern[:-1]
        elif len(key) == 1:
            self.pattern += key
        self.arrange()
        return Simple.REFRESH

    def _press_in_prompt(self, key: str) -> Order | None:
        if key == "escape":
            self.mode = Mode.TABLE
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key == "enter":
            order = self._kick() if self.mode is Mode.KICK else self._pause()
            if not self.message:
                self.mode = Mode.TABLE
            return order
        elif len(key) == 1 and len(self.typed) < TYPED_MAX:
            self.typed += key
        return None

    def _kick(self) -> Order | None:
        number, _ = self.kickable()
        if self.typed and not NUMBER.fullmatch(self.typed):
            self.message = "a number, please"
            return None
        bound = int(self.typed or number)
        return Kick(self.asked_tube, bound) if bound else None

    def _pause(self) -> Order | None:
        seconds = seconds_of(self.typed or str(PAUSE_S_DEFAULT))
        if seconds is None or seconds.denominator != 1:
            self.message = "seconds, or a time like 10m or 1h30m, please"
            return None
        return Pause(self.asked_tube, int(seconds))

    def kickable(self) -> tuple[int, str]:
        """How many jobs of the asked tube a kick would find, and in which state: buried ones, else delayed ones."""
        row = self.row_of(self.asked_tube)
        if row is None:
            return 0, "buried"
        buried, delayed = row.stats.current_jobs_buried, row.stats.current_jobs_delayed
        return (delayed, "delayed") if delayed and not buried else (buried, "buried")

    # --- What keys do in the table ---

    def ask(self, mode: Mode) -> None:
        if self.selected:
            self.mode, self.typed, self.asked_tube = mode, "", self.selected

    def ask_kick(self) -> None:
        self.ask(Mode.KICK)
        if self.mode is Mode.KICK and not self.kickable()[0]:
            self.mode, self.message = Mode.TABLE, f"{self.asked_tube} has no buried and no delayed job to kick"

    def open(self) -> Order | None:
        self.opened = self.selected
        if not self.opened:
            return None
        self.mode = Mode.TUBE
        return Simple.REFRESH

    def resume(self) -> Order | None:
        return Pause(self.selected, 0) if self.selected else None

    def sort_by(self, step: int) -> Order | None:
        """Sorts by the column to the left or right; names begin with A, numbers with the largest."""
        self.sort = (self.sort + step) % len(COLUMNS)
        while self.column.timed and not self.timed:
            self.sort = (self.sort + step) % len(COLUMNS)
        self.descending = self.sort != 0
        self.arrange()
        return Simple.REFRESH if self.sort == AGE else None

    def reverse(self) -> None:
        self.descending = not self.descending
        self.arrange()

    def clear(self) -> Order | None:
        self.pattern = ""
        self.arrange()
        return Simple.REFRESH

    def enter(self, mode: Mode) -> None:
        self.mode = mode


def _name(row: Row) -> str:
    return row.stats.name


MOVES: dict[str, Callable[[int], int]] = {
    "up": lambda _: -1,
    "down": lambda _: 1,
    "page up": lambda height: -height,
    "page down": lambda height: height,
    "home": lambda _: -(10**9),
    "end": lambda _: 10**9,
}
"""How many rows a key moves down, in a window of some rows."""

ACTIONS: dict[str, Callable[[Top], "Order | None"]] = {
    "<": lambda top: top.sort_by(-1),
    "left": lambda top: top.sort_by(-1),
    ">": lambda top: top.sort_by(1),
    "right": lambda top: top.sort_by(1),
    "r": lambda top: top.reverse(),
    "/": lambda top: top.enter(Mode.FILTER),
    "escape": lambda top: top.clear(),
    "enter": lambda top: top.open(),
    "k": lambda top: top.ask_kick(),
    "p": lambda top: top.ask(Mode.PAUSE),
    "u": lambda top: top.resume(),
    " ": lambda _: Simple.REFRESH,
    "control-l": lambda _: Simple.REFRESH,
    "?": lambda top: top.enter(Mode.HELP),
    "h": lambda top: top.enter(Mode.HELP),
    "q": lambda _: Simple.QUIT,
}
"""What the other keys do."""

HELP: tuple[tuple[str, str], ...] = (
    ("↑ ↓ page home end", "select a tube"),
    ("< > or ← →, r", "sort by another column; sort the other way round"),
    ("/", "only tubes with a text in their name; Esc: all"),
    ("enter", "open it: its numbers, and its next jobs; Esc: back"),
    ("k, p, u", "kick its buried jobs, or else delayed ones; pause it; go on"),
    ("space, ? or h, q", "ask the server now; this page; quit"),
)
"""What the help page says of keys."""


# --- What a terminal sends --------------------------------------------------------------------------------------------

NAMES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "control-c",
    "\x0c": "control-l",
    "\x1a": "control-z",
}
"""As xterm and all that came after it send them. The arrows also come with an O for the bracket."""

KEY = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO[A-Z]|.", re.DOTALL)


def keys(data: bytes) -> list[str]:
    """The keys that a terminal sent at once: their names, or the character. What is neither is left out."""
    found = []
    for text in KEY.findall(data.decode("utf-8", "ignore")):
        name = NAMES.get(text.replace("\x1bO", "\x1b[") if len(text) == 3 else text)
        if name or (len(text) == 1 and text.isprintable()):
            found.append(name or text)
    return found
