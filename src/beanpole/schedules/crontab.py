"""A crontab as a file of schedules, for people to review.

Each line becomes a table whose jobs have the command as their body; what can't become one is a comment with the reason,
in its place. What cron does besides, to run commands as users, with an environment and mails of what they say, is the
business of the worker that reserves the jobs.
"""

import re
from collections.abc import Callable

from beanpole.schedules.file import EntryError, comment, document_of, section

SETTING = re.compile(r"""("[^"]*"|'[^']*'|[A-Za-z_]\w*)\s*=\s*(.*)""")
ENTRY = re.compile(r"(@\w+|(?:\S+\s+){4}\S+)(?:\s+(.*))?")
USER_AND_COMMAND = re.compile(r"(\S+)\s+(.*)")
AS_ROOT = re.compile(r"root\s")

MAYBE_USER = re.compile(r"([A-Za-z_][\w.-]*)\s+\S.*")
"""A name before another word: the user of a line, or its program."""

SHELL = {
    *("alias", "bg", "builtin", "case", "cd", "command", "declare", "echo", "eval", "exec", "exit", "export", "false"),
    *("for", "function", "hash", "if", "kill", "let", "local", "printf", "pwd", "read", "readonly", "select", "set"),
    *("shopt", "source", "test", "time", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias"),
    *("unset", "until", "wait", "while"),
}
"""Names that a shell understands by itself: no program, and no user."""

NAME_CHARS = 40
"""Characters of a name that is made of a command, without the number that makes it unique."""

SEPARATORS = re.compile(r"&&|\|\||[;|]")
"""What stands between the commands of a line."""

PASSED_OVER = {"cd", "test", "[", "export", "umask", "sleep", "exit", "command", "set", "true"}
"""Commands after which the one comes that a line is for."""

WRAPPERS = {
    *("sh", "bash", "env", "exec", "nice", "ionice", "sudo", "chronic", "flock", "timeout", "time", "nohup", "bundle"),
    *("python", "python3", "php", "perl", "ruby", "node", "uv", "poetry", "run"),
}
"""Words before the one that says what a command does."""

SCRIPT = re.compile(r"\.(sh|bash|py|php|pl|rb|js)$")


def convert(
    text: str, *, zone: str, tube: str, has_users: bool, is_program: Callable[[str], object]
) -> tuple[list[str], int]:
    """Convert a crontab whose times are those of a zone; return a file's lines, and how many need a look.

    `has_users`: there is a user behind the times, as in /etc/crontab; one line where that is root says it of all.
    Without it, a comment asks about each name before another word that `is_program` does not know.
    """
    lines: list[str] = []
    names: set[str] = set()
    refused = 0
    given = [line.strip() for line in text.split("\n")]
    has_users = has_users or any((found := ENTRY.fullmatch(line)) and AS_ROOT.match(found[2] or "") for line in given)
    for number, line in enumerate(given, 1):
        try:
            if not line:
                lines += [""] if lines and lines[-1] else []
            elif line.startswith("#"):
                lines.append(comment(line[1:].strip()))
            elif setting := SETTING.fullmatch(line):
                zone = zone_of(*(word.strip("\"'") for word in setting.groups()))
            else:
                cron, user, command = entry_of(line, has_users=has_users)
                values = {"cron": cron, "tube": tube} | ({} if zone == "UTC" else {"zone": zone})
                document = document_of(values, command.encode(errors="surrogateescape"))
                names.add(title := unique(name_of(command) or f"line-{number}", names))
                if user:
                    refused += 1
                    lines.append(comment(f"line {number}: jobs have no user; whoever runs this one must be {user}"))
                elif (name := MAYBE_USER.fullmatch(command)) and not (name[1] in SHELL or is_program(name[1])):
                    refused += 1
                    lines.append(comment(f"line {number}: is {name[1]} a user? then import with --user-column"))
                lines += [*section(title, document.text), ""]
        except EntryError as error:
            refused += 1
            lines += [comment(f"line {number}: {error.why}"), comment(f"  {line}")]
    return lines, refused


def zone_of(name: str, value: str) -> str:
    """Return the zone that a line sets for those below it. Raises EntryError: it sets something else."""
    if name != "CRON_TZ":
        raise EntryError(name, "jobs have no environment, and send no mail: that is up to whoever runs them")
    document_of({"cron": "@daily", "zone": value})
    return value


def entry_of(line: str, *, has_users: bool) -> tuple[str, str, str]:
    """Return the times, the user and the command of a line. Raises EntryError: it is none, or can't be carried over."""
    found = ENTRY.fullmatch(line)
    if found is None or not found[2]:
        raise EntryError("", "this is no line of a crontab: times and a command are wanted")
    cron, user, command = found[1], "", found[2]
    if has_users:
        words = USER_AND_COMMAND.fullmatch(command)
        if words is None:
            raise EntryError("", "there is no command behind the user")
        user, command = words.groups()
    if re.search(r"(?<!\\)%", command):
        raise EntryError("", "% is a line end to cron, and what is behind it is input: write the body as it shall be")
    return cron, user, command.replace("\\%", "%")


def name_of(command: str) -> str:
    """Return what a command does, in a word or two; empty: it has no such words."""
    for part in SEPARATORS.split(command):
        words = [word.strip("\"'(){}") for word in re.split(r"\s\d?[<>]", part)[0].split()]
        words = [word for word in words if word]
        if words and words[0] not in PASSED_OVER:
            words = [word for word in words if re.match(r"[\w./:~-]+$", word) and not re.match(r"-|\d", word)]
            words = [SCRIPT.sub("", word.rstrip("/").rpartition("/")[2]) for word in words]
            words = [word for word in words if word and word not in WRAPPERS][:2]
            name = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(words))[:NAME_CHARS].strip("-")
            if name:
                return name
    return ""


def unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: with a number behind it, if need be."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found
