"""What an error was about: the command, the job and the tube. No I/O.

All of it is read from the line that was sent, once there is an error: a command that is done costs nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from beanpole.errors import ArgumentError, BeanpoleError, CommandError, LineError, NotFoundError, UnsupportedError
from beanpole.protocol.commands import COMMANDS
from beanpole.protocol.extensions import EXTENSIONS, KIND_NAMES

E = TypeVar("E", bound=BeanpoleError)

TUBES_NAMED = 3  # tubes of a watch list that a message names

NOT_HELD = "this connection does not hold the job: its time to run is over, or it was never reserved here, or is gone"
NO_TUBE = "there is no such tube: one exists while it has jobs, or somebody uses or watches it"

MEANINGS = {
    "delete": "there is no such job, or another connection has reserved it",
    **dict.fromkeys(("release", "bury", "touch", "snooze-job", "fail-job"), NOT_HELD),
    "touch-many": NOT_HELD,
    "delete-many": "there is no such job, or another connection has reserved it",
    "cancel-job": "there is no such job: it was done, or cancelled or deleted before",
    "kick-job": "there is no such job, or it is neither buried nor delayed",
    "reserve-job": "there is no such job, or somebody has reserved it",
    **dict.fromkeys(("peek", "stats-job", "explain"), "there is no such job; it may have been deleted"),
    "peek-ready": "no job of the tube is ready",
    "peek-delayed": "no job of the tube is delayed",
    "peek-buried": "no job of the tube is buried",
    "change-job": "there is no such job, or it is in a state that does not allow this change",
    "change-body": "there is no such job, or somebody has reserved it",
    **dict.fromkeys(("find-job", "cancel-key"), "no job of the tube has the key"),
    **dict.fromkeys(("stats-tube", "pause-tube", "clear-tube", "list-jobs", "move-jobs", "explain-tube"), NO_TUBE),
    "stats-groups": NO_TUBE,
    "pause-group": "the group has no job, and is not paused",
    "get-rules": "no rules apply to the tube",
    "drop-rules": "the pattern has no rules",
    **dict.fromkeys(("get-schedule", "drop-schedule", "pause-schedule", "fire-schedule"), "there is no such schedule"),
}
"""What NOT_FOUND can mean for a command."""

NAMES = {text.decode().strip(): fields[0] for text, _, _, fields, _ in COMMANDS if fields} | {
    text.decode(): KIND_NAMES[words[0]].decode() for text, words, _ in EXTENSIONS if words
}
"""What the first argument of each command is."""


class About(NamedTuple):
    """What a command was about."""

    text: str
    """The beginning of the message."""

    command: str
    id: int | None = None
    tube: str | None = None


def about(data: bytes, used: str, watching: Iterable[str] = ()) -> About:
    """What a command is about that stands at the beginning of some bytes, on a connection that uses a tube."""
    line = data[: data.index(b"\r\n")].decode("utf-8", "surrogateescape")
    command, *words = line.split(" ")
    first = words[0] if words else ""
    tube = next((each[5:] for each in words if each.startswith("tube=")), None)
    match NAMES.get(command):
        case "id":
            return About(f"{command} {first}" + (f" to {tube}" if tube else ""), command, int(first), tube)
        case "tube":
            return About(line if command in {"find-job", "cancel-key"} else f"{command} {first}", command, None, first)
        case "pattern" | "name":
            return About(f"{command} {first}", command)
    if command.startswith("put"):
        return About(f"{command} into {tube or used}", command, None, tube or used)
    if command.startswith("reserve"):
        tubes = list(watching)
        more = f" and {len(tubes) - TUBES_NAMED} more" if len(tubes) > TUBES_NAMED else ""
        text = f"{line} from {', '.join(tubes[:TUBES_NAMED])}{more}"
        return About(text, command, None, tubes[0] if len(tubes) == 1 else None)
    uses = command == "kick" or command.startswith("peek-")
    return About(f"{command} in {used}" if uses else command, command, None, used if uses else None)


def named(error: E, what: About) -> E:
    """The same error, which says what it was about; one that says it already stays as it is."""
    if isinstance(error, CommandError) and not error.command and not isinstance(error, ArgumentError):
        error.command = what.command
        if error.tube is None:
            error.tube = what.tube
        if error.id is None:
            error.id = what.id
        if isinstance(error, NotFoundError) and what.command in MEANINGS:
            error.args = (f"NOT_FOUND: {MEANINGS[what.command]}",)
        if not isinstance(error, LineError | UnsupportedError):  # which say it in another way
            error.args = (f"{what.text}: {error.args[0] if error.args else ''}", *error.args[1:])
    return error
