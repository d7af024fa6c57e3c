"""The files of users and tokens while they are used: read again when they have changed, and then all or nothing.

A file is read when it has been the same for a while, as an editor may be in the middle of writing it, and half a file
may be a right one that gives less. One that has become wrong leaves in force what was read before.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from beanpole.access.access import Access
from beanpole.access.file import load
from beanpole.errors import AccessError
from beanpole.files import stamp

SETTLED_S = 5  # seconds for which files must be the same before they are read
AGAIN_S = 60  # seconds after which files that are wrong are read again, and the error is said again
LOOK_S = 1.0  # seconds between two looks at files
WARNINGS_S = 3_600  # seconds after which warnings are looked for: tokens end with time


class Watch:
    """Whether files have changed, and then stayed as they are for a while: they may be read now."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._seen = self._read = self._state()
        self._since_s = 0.0

    def _state(self) -> list[tuple[int, ...]]:
        return [stamp(each) for each in self._paths]

    def has_settled(self, now_s: float, *, at_once: bool = False) -> bool:
        """Whether they are others than when this was last true, or are to be read `at_once`. Call it once a second."""
        state = self._state()
        if state != self._seen:
            self._seen, self._since_s = state, now_s
        if not at_once and (state == self._read or now_s - self._since_s < SETTLED_S):
            return False
        self._read = state
        return True


def log_fault(log: Callable[..., object], what: str, fault: str) -> None:
    """Say what is wrong with files; `log` takes a level, an event and its facts."""
    log("error", "files not read", files=what, reason=fault, effect="what was read before stays in force")


class AccessFiles:
    """The files of users and tokens. Times are in seconds since 1970."""

    def __init__(
        self,
        path: Path,
        tokens: Path | None = None,
        listeners: Collection[str] = (),
    ) -> None:
        """Read them, as `load` does. Raises AccessError."""
        self._path, self._tokens = path, tokens
        self._watch = Watch([path] if tokens is None else [path, tokens])
        self._listeners = listeners
        self._error, self._error_s = "", 0.0
        self._warned: set[str] = set()
        self._warnings_s = 0.0
        self.access = load(path, tokens, listeners)

    def is_due(self, now_s: float, *, at_once: bool = False) -> bool:
        """Whether the files are to be read now: `read`, then `take`, before it is asked again. Call it once a second.

        `at_once`: somebody wants them to be read, whether they have changed or not, and to hear what is wrong.
        """
        if at_once:
            self._error = ""
        has_settled = self._watch.has_settled(now_s, at_once=at_once)
        return has_settled or (self._error != "" and now_s - self._error_s >= AGAIN_S)

    def read(self) -> Access | AccessError:
        """Read the files; return what they say, or what is wrong. Any thread may call it: nothing here changes.

        A user of whom they say what they said before is the same object.
        """
        before = self.access.users
        try:
            found = load(self._path, self._tokens, self._listeners)
        except AccessError as error:
            return error
        known = {name: before[name] for name, each in found.users.items() if each == before.get(name)}
        return replace(found, users={**found.users, **known})

    def take(self, found: Access | AccessError, now_s: float) -> Access | None:
        """Go by what was read from here on, and return it, if it is right.

        Returns:
            None: it is wrong, for a reason that was said within the last minute.

        Raises:
            AccessError: it is wrong. What was in force stays.
        """
        if isinstance(found, AccessError):
            is_new = str(found) != self._error or now_s - self._error_s >= AGAIN_S
            if not is_new:
                return None
            self._error, self._error_s = str(found), now_s
            raise found
        self._error = ""
        self._warnings_s = now_s
        self.access = found
        return found

    def warnings(self, now_s: float) -> list[str]:
        """Return what people should know of the files, and was not returned before. Call it about once a second."""
        if now_s < self._warnings_s:
            return []
        self._warnings_s = now_s + WARNINGS_S
        found = [each for each in self.access.warnings(now_s) if each not in self._warned]
        self._warned.update(found)
        return found
