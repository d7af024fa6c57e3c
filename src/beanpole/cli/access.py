"""``beanpole token|access|rights``: the files of a server's users and tokens, and what a server says of a user."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from beanpole.access import tokens
from beanpole.access.access import Access, UserConfig
from beanpole.access.file import load
from beanpole.access.tokens import DATE_FORM, NAME, NAME_FORM, Token, date_of, date_text, read
from beanpole.cli.common import EXIT_CODES, Output, Server, file_verb, verb
from beanpole.cli.errors import Failure, note
from beanpole.cli.inspect import unix_s
from beanpole.cli.wrapping import SETTINGS
from beanpole.engine.commands.rights import ASKED, WORDS, Of
from beanpole.errors import ExitCode, UnsupportedError
from beanpole.protocol.commands import COMMANDS, Verb
from beanpole.protocol.extensions import EXTENSIONS
from beanpole.protocol.names import PATTERN, TUBE, name_fault
from beanpole.protocol.replies import Word
from beanpole.protocol.rights import Grants, Right
from beanpole.quantities import ALONE, seconds_of

PREFIX_DIGITS_MIN = 6
"""Digits of a digest that name a token: fewer may be the number of a line."""

FILE: dict[str, Any] = {"type": click.Path(path_type=Path), "metavar": "FILE", "show_envvar": True}


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES)
def token() -> None:
    """Make and remove the tokens by which users log in.

    The file has a line for each, NAME sha256:HEX [until=DATE] [# words], but no token: that is written once, when it is
    made. A server reads the file again within seconds, or at once by SIGHUP, and closes the connections of tokens that
    are gone.
    """


@click.group(context_settings=SETTINGS, epilog=EXIT_CODES)
def access() -> None:
    """Check the file of a server's users, and say what each of them may do. No server is asked."""


class UserName(click.ParamType[str]):
    """The name of a user."""

    name = "user"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not NAME.fullmatch(str(value)):
            self.fail(f"{NAME_FORM}: {value!r}", param, ctx)
        return str(value)


class End(click.ParamType[float]):
    """A moment to come, in seconds since 1970: a date, or a time from now on."""

    name = "end"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text, now_s = str(value), unix_s()
        seconds = None if ALONE.fullmatch(text) else seconds_of(text)
        end = date_of(text) if seconds is None else now_s + float(seconds)
        if end is None:
            self.fail(f"{text!r} is no time as in 90d, and no date; {DATE_FORM}", param, ctx)
        if end <= now_s:
            self.fail(f"{text!r} is over", param, ctx)
        return end


USER = UserName()
token_verb = functools.partial(file_verb, token)
access_verb = functools.partial(file_verb, access)
tokens_option = functools.partial(click.option, "--tokens", "path", envvar="BEANPOLE_TOKENS", **FILE)
access_option = functools.partial(click.option, "--access", "file", envvar="BEANPOLE_ACCESS", **FILE)
token_file = tokens_option(required=True, help="The server's file of tokens.")


def user_of(file: Path, name: str) -> UserConfig:
    """Return what a file says of a user. Raises Failure: there is none of this name."""
    user = load(file).users.get(name)
    if user is None:
        raise Failure(f"there is no user {name} in {file}", ExitCode.NOT_FOUND)
    return user


def record_of(line: int, found: Token) -> dict[str, object]:
    now_s = unix_s()
    return {
        "line": line,
        "user": found.user,
        "token": f"sha256:{found.digest.hex()}",
        "until": "" if found.until is None else date_text(found.until),
        "is-over": found.until is not None and found.until <= now_s,
        "words": found.words,
    }


@token_verb("add")
@click.argument("name", type=USER)
@click.argument("words", nargs=-1)
@click.option("--until", metavar="DURATION|DATE", type=End(), help="When it ends, as in 90d or 2027-03-01.")
@access_option(help="Make none if the user is not in this file of users.")
@token_file
def add(out: Output, name: str, *, words: tuple[str, ...], until: float | None, file: Path | None, path: Path) -> None:
    """Make a token for the user NAME, and write it once.

    It can't be shown again. Its line is appended to the file, which is made if there is none. WORDS, behind --, stand
    in that line: for whom the token is, say.
    """
    text = " ".join(words)
    if not text.isprintable():
        raise click.BadParameter("these stand on one line, and are printable", param_hint="WORDS")
    if file is not None:
        user_of(file, name)
    secret = tokens.add(path, name, until, text).decode()
    ends = {} if until is None else {"until": date_text(until)}
    out.record({"token": secret, "user": name, **ends}, secret)
    note(f"this is a token of {name}" + (f" until {ends['until']}" if ends else "") + ", and is not shown again")


@token_verb("list")
@token_file
def list_(out: Output, path: Path) -> None:
    """List the tokens of the file, by the beginnings of their digests."""
    rows = [record_of(line, found) for line, found in read(path).lines.items()]
    if not out.as_json:
        rows = [row | {"token": str(row["token"])[:19]} for row in rows]
    out.table(("line", "user", "token", "until", "is-over", "words"), rows)


@token_verb("remove")
@click.argument("name", type=USER)
@click.argument("which", metavar="[LINE|DIGEST]", default="")
@token_file
def remove(out: Output, name: str, which: str, path: Path) -> None:
    """Remove a token of the user NAME from the file.

    Where the user has several, say which: by the number of its line or the beginning of its digest, six digits of it at
    least, both as `beanpole token list` shows them.
    """
    theirs = {line: found for line, found in read(path).lines.items() if found.user == name}
    digits = which.removeprefix("sha256:")
    if which.isdecimal() and len(which) < PREFIX_DIGITS_MIN:
        found = {line: each for line, each in theirs.items() if line == int(which)}
    elif which and len(digits) < PREFIX_DIGITS_MIN:
        raise click.UsageError(f"{which!r} is no line, and of a digest {PREFIX_DIGITS_MIN} digits are wanted")
    else:
        found = {line: each for line, each in theirs.items() if each.digest.hex().startswith(digits)}
    if not found:
        raise Failure(f"{name} has no such token in {path}", ExitCode.NOT_FOUND)
    if len(found) > 1:
        lines = ", ".join(f"line {line}: {each}" for line, each in found.items())
        raise click.UsageError(f"{name} has {len(found)} tokens; say which ({lines})")
    ((line, one),) = found.items()
    tokens.remove(path, one)
    record = record_of(line, one)
    rest = "".join(f", {word} {record[key]}" for key, word in (("until", "until"), ("words", "#")) if record[key])
    out.record(record, f"removed {one} (line {line}{rest})")


@access_verb("check")
@click.argument("file", envvar="BEANPOLE_ACCESS", type=FILE["type"])
@tokens_option(help="The file of their tokens.")
def check(out: Output, file: Path, path: Path | None) -> None:
    """Check the FILE of users, and that of their tokens.

    What is wrong is said with its file and line. Warnings are users that nobody can be, and tokens that are over or
    soon will be. A server refuses what this refuses.
    """
    found = load(file, path)
    if not out.as_json:
        counts = {"user": len(found.users), "token": len(found.tokens)}
        counts |= {"space": len(found.spaces)} if found.spaces else {}
        parts = [f"{number} {word}{'s' * (number != 1)}" for word, number in counts.items()]
        out.prose(f"{file}: {', '.join(parts)}")
    out.table(("user", "known-by", "may"), [row_of(found, each) for each in found.users.values()])
    for each in found.warnings(unix_s()):
        note(f"warning: {each}")


def row_of(found: Access, user: UserConfig) -> Mapping[str, object]:
    """Return what is shown of a user."""
    count = sum(each.user == user.name for each in found.tokens.values())
    known_by = [*sorted(user.certificates), *(f"uid {uid}" for uid in sorted(user.uids))]
    known_by += [f"{count} token{'s' * (count != 1)}"] if count else []
    rights = {right: [each.decode() for each in patterns] for right, patterns in user.patterns.items() if patterns}
    may = may_of(rights, admin=user.admin, stats=user.stats)
    may += [f"links {' '.join(sorted(user.links))}"] if user.links else []
    return {"user": user.name, "known-by": ", ".join(known_by), "may": "; ".join(may), "rights": rights}


def may_of(rights: Mapping[str, Sequence[str]], *, admin: bool, stats: bool) -> list[str]:
    """Return what a user may do that has rights to tubes by patterns."""
    if admin:
        return ["everything"]
    return [f"{right} {' '.join(patterns)}" for right, patterns in rights.items() if patterns] + ["stats"] * stats


@verb("rights")
def rights(server: Server, out: Output) -> None:
    """Say which user this is to a server, what it may do, and how much of its limits is used.

    First comes the user, with its rights and the patterns of tubes to which it has them. Below are its connections and
    commands, of who has stats also those of other users, and what lies in spaces in which it may have tubes. -max is a
    limit; 0 is none.
    """
    try:
        found = server.client().rights()
    except UnsupportedError as error:
        raise Failure("the server has no users: whoever reaches it may do everything") from error
    if out.as_json:
        out.record(asdict(found), "")
        return
    may = may_of(found.patterns, admin=found.admin, stats=found.stats)
    out.prose(f"user {found.user}: {'; '.join(may) or 'may do nothing'}")
    for what, rows in (("user", {found.user: found.used} | found.users), ("space", found.spaces)):
        if rows:
            out.table((what, *next(iter(rows.values()))), [{what: each, **row} for each, row in rows.items()])


# --- What a user may do -----------------------------------------------------------------------------------------------

SECOND = {Of.CHANGED: Right.PUT, Of.MOVED: Right.PUT, Of.PATTERN: Right.PUT, Of.DOCUMENT: Right.RULES}
"""The right to a second tube, of what may have one: where jobs go, or the tube that a schedule has had."""

TUBES = {Of.NOTHING: (0, 1), Of.SERVER: (0, 0)} | dict.fromkeys(SECOND, (1, 2))
"""How many tubes a command is about, at least and at most; else one."""

NOTES = {
    Of.NOTHING: "it needs no right, or leaves out what there is no right to",
    Of.WATCHED: "one of the watched tubes is enough",
    Of.HOLDER: "manage where the job is not ready, and no right where the user has reserved it",
}
"""What there is to know besides."""

COMMAND_NAMES = [text.strip().decode() for text, *_ in (*COMMANDS, *EXTENSIONS)]


@access_verb("test")
@click.argument("name", metavar="USER", type=USER)
@click.argument("words", nargs=-1, required=True, metavar="COMMAND [TUBE [TUBE]]")
@access_option(required=True, help="The file of users.")
def test(out: Output, name: str, words: tuple[str, ...], file: Path) -> ExitCode:
    """Say whether USER may send COMMAND, and by which pattern. The exit code is 1 if not.

    COMMAND is one of the protocol, such as put. TUBE is the tube that it is about: which it names, which is in use, or
    where the job lies that it names. A second TUBE is where jobs go: by move-jobs, by change-job, or by the rule dead
    of set-rules, which takes a pattern; for set-schedule it is the tube that the schedule has had. The tube of mail;42
    is mail where a rule splits groups.
    """
    user = user_of(file, name)
    word, *tubes = " ".join(words).split() or [""]
    if word not in COMMAND_NAMES:
        raise click.UsageError(f"there is no command {word!r}")
    right, of, refusal = ASKED[Verb[word.upper().replace("-", "_")]]
    check_tubes(word, of, tubes)
    first = right | Right.MANAGE if of == Of.HOLDER else right
    questions = zip((first, SECOND.get(of, 0)), tubes or [""], strict=False) if of != Of.NOTHING else ()
    answers = [(f"{WORDS[bits].decode()} {tube}".strip(), reason_for(user, of, bits, tube)) for bits, tube in questions]
    missing = [needed for needed, reason in answers if not reason]
    reasons = list(dict.fromkeys(reason for _, reason in answers if reason))
    answer, besides = Word(refusal).name if missing else "", NOTES.get(of, "")
    record = {"user": name, "command": " ".join((word, *tubes)), "allowed": not missing, "by": reasons}
    if missing:
        text = f"refused with {answer}: nothing gives {' and '.join(missing)}"
    else:
        text = f"allowed by {' and '.join(reasons)}" if reasons else "allowed"
    record |= {"missing": missing, "answer": answer, "note": besides}
    out.record(record, f"{text} ({besides})" if besides else text)
    return ExitCode.FAILED if missing else ExitCode.OK


def check_tubes(word: str, of: Of, tubes: Sequence[str]) -> None:
    """Check what a command is about. Raises UsageError."""
    least, most = TUBES.get(of, (1, 1))
    if not least <= len(tubes) <= most:
        wanted = f"{least} to {most}" if least < most else str(least)
        raise click.UsageError(f"{word} is about {wanted} tube{'s' * (most != 1)}, not {len(tubes)}")
    for number, each in enumerate(tubes):
        kind = PATTERN if of == Of.PATTERN and not number else TUBE
        if not kind.fullmatch(each.encode(errors="replace")):
            raise click.UsageError(name_fault(each))


def reason_for(user: UserConfig, of: Of, bits: int, tube: str) -> str:
    """Return what gives a user one of some rights to a tube, or to all tubes of a pattern; empty: nothing does."""
    if user.admin:
        return "admin"
    if user.stats and bits & Right.STATS:
        return "stats"
    for right, patterns in user.patterns.items():
        for pattern in patterns:
            one = Grants({right: (pattern,)})
            is_for_all = of == Of.PATTERN and bits == Right.RULES
            if one.covers("rules", tube.encode()) if is_for_all else one.of(tube.encode()) & bits:
                return f"{right} {pattern.decode()}"
    return ""
