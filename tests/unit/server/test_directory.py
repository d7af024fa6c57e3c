"""What an operator is told of a full disk."""

from beanpole.log import limits
from beanpole.server.directory import SpaceObserver


class Told:
    """A logger that keeps the names of its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def error(self, event: str, **_: object) -> None:
        self.lines.append(event)

    def info(self, event: str, **_: object) -> None:
        self.lines.append(event)


def test_last_line_about_a_full_disk_is_true_in_the_end() -> None:
    now_ns = 0
    told = Told()
    observer = SpaceObserver(told, lambda: now_ns)  # type: ignore[arg-type]
    observer.log_full("No space left on device")
    observer.log_has_space()
    for _ in range(10):
        observer.log_full("No space left on device")
    assert told.lines == ["disk full", "disk has space"], "not more often than once in a while"
    now_ns = limits.LOG_FULL_TELL_NS
    for _ in range(10):
        observer.log_full("No space left on device")
    assert told.lines == ["disk full", "disk has space", "disk full"]
    observer.log_has_space()
    observer.log_has_space()
    assert told.lines[3:] == ["disk has space"]
