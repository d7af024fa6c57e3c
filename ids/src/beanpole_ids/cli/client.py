"""``beanpole-ids get``, ``rules``, ``counters`` and ``reload``: what asks a service that runs.

Numbers come over UDP, as any client gets them; the rest is the HTTP API.
"""

import functools
import http.client
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import click

from beanpole_ids import limits
from beanpole_ids.cli.output import SETTINGS, Failure, Number, Output, forget_output, reason_of
from beanpole_ids.client import IdClient
from beanpole_ids.client.calls import pieces, read_url
from beanpole_ids.errors import ArgumentError, ExitCode, IdsError, IdServiceError, NoNodeError

EXIT_CODES = """\b
Exit codes:
  0    done
  1    the service refused, or something else failed
  2    no such rule, or nobody has used the counter
  4    the service can't be reached
  5    wrong arguments
  130  interrupted
"""

NOT_FOUND = frozenset({"unknown-rule", "unused"})
"""The problems that say that there is no such thing."""


class Nodes(click.ParamType[str]):
    """The nodes of a service, for UDP."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the URL of one or more addresses."""
        url = str(value) if "://" in str(value) else f"ids://{value}"
        try:
            read_url(url)
        except ArgumentError as error:
            self.fail(str(error), param, ctx)
        return url


class HttpUrl(click.ParamType[str]):
    """The address of a node's HTTP."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the URL of an address."""
        url = str(value) if "://" in str(value) else f"http://{value}"
        try:
            parts = urlsplit(url)
            is_good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            is_good = False
        if not is_good:
            self.fail(f"{value!r} is no URL as in http://HOST:PORT", param, ctx)
        return url


RULE_COLUMNS = ("rule", "kind", "source", "cycle", "counters", "numbers", "remaining", "resets_at")
"""What a table shows of a rule; with --json there is more."""

COUNTER_COLUMNS = ("app", "counter", "remaining", "reserved", "resets_at")
"""What a table shows of a counter."""

URL = functools.partial(click.Option, ["--url"], show_default=True, show_envvar=True)
NODES = URL(
    type=Nodes(),
    default=f"ids://127.0.0.1:{limits.PORT_DEFAULT}",
    envvar="BEANPOLE_IDS_URL",
    help="The nodes of the service: HOST, HOST:PORT, ids://HOST:PORT,HOST:PORT.",
)
HTTP = URL(
    type=HttpUrl(),
    default=f"http://127.0.0.1:{limits.HTTP_PORT_DEFAULT}",
    envvar="BEANPOLE_IDS_HTTP_URL",
    help="The HTTP of a node, which its configuration must have: HOST, HOST:PORT, http://HOST:PORT.",
)

COMMAND_PAGE = 500  # counters that a command asks a node for at a time: it answers others in between


def verb(name: str, address: click.Option, short_help: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a verb of a function: --url and --json belong to each, and what goes wrong is one line."""

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def run(*, as_json: bool, **given: Any) -> ExitCode:
            out = Output(as_json=as_json)
            try:
                function(out, **given)
                out.flush()
            except BrokenPipeError:
                forget_output()
                return ExitCode.FAILED
            except NoNodeError as error:
                forget_output()
                raise Failure(
                    f"{reason_of(error)} (--url or {address.envvar} says where)", ExitCode.NO_SERVER
                ) from error
            except IdServiceError as error:
                forget_output()
                is_unknown = error.code == -1 and str(error).endswith("unknown rule")
                raise Failure(str(error), ExitCode.NOT_FOUND if is_unknown else ExitCode.FAILED) from error
            except (IdsError, OSError) as error:
                forget_output()
                code = ExitCode.USAGE if isinstance(error, ArgumentError) else ExitCode.FAILED
                raise Failure(reason_of(error), code) from error
            return ExitCode.OK

        command = click.command(name, context_settings=SETTINGS, epilog=EXIT_CODES, short_help=short_help)(run)
        command.params += [
            address,
            click.Option(["--json", "as_json"], is_flag=True, help="Write JSON, one object a line."),
        ]
        return command

    return decorate


def ask(url: str, method: str, *path: str, query: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return what a node answers over HTTP.

    Raises Failure: it can't be reached, or refuses.
    """
    parts = urlsplit(url)
    assert parts.hostname, "the option has checked it"
    port = parts.port or (443 if parts.scheme == "https" else limits.HTTP_PORT_DEFAULT)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname, port, timeout=limits.COMMAND_TIMEOUT_S)
    text = "&".join(f"{key}={quoted(str(value))}" for key, value in (query or {}).items())
    target = "/".join([parts.path.rstrip("/"), "v1", *(quoted(each) for each in path)])
    try:
        connection.request(method, f"{target}?{text}" if text else target, headers={"X-Beanpole": "1"})
        response = connection.getresponse()
        found = json.loads(response.read())
    except OSError as error:
        text = f"{url}: {reason_of(error) if error.errno else error} (--url or {HTTP.envvar} says where the HTTP is)"
        raise Failure(text, ExitCode.NO_SERVER) from error
    except (http.client.HTTPException, ValueError) as error:
        raise Failure(f"{url}: no ID service answers there") from error
    finally:
        connection.close()
    if response.status != 200:
        name = str(found.get("type", "")).rpartition("#")[2]
        text = str(found.get("detail") or found.get("title") or response.reason)
        raise Failure(text, ExitCode.NOT_FOUND if name in NOT_FOUND else ExitCode.FAILED)
    return dict(found)


def quoted(text: str) -> str:
    """Return a text as a part of a URL; bytes that are no UTF-8 stay what they are."""
    return quote(text, safe="", errors="surrogateescape")


@verb("get", NODES, "Get numbers.")
@click.argument("rule")
@click.argument("app")
@click.option("-n", "--count", type=Number("n", 1, 10**9), default=1, show_default=True, help="How many numbers.")
@click.option("--salt", help="What the rule puts into the number.")
def get(out: Output, url: str, *, rule: str, app: str, count: int, salt: str | None) -> None:
    """Get numbers of RULE for the application APP, and print them, one a line.

    A number that is printed is given to nobody else. With several nodes, the next one is asked where one does not
    answer.
    """
    with IdClient.from_url(url) as client:
        if count == 1:
            batches = iter([[client.get(rule, app, salt=salt)]])
        else:
            batches = (client.get_many(rule, app, piece, salt=salt) for piece in pieces(count))
        for batch in batches:
            for number in batch:
                out.record({"id": number}, number)


@verb("rules", HTTP, "Show the rules of a node.")
def rules(out: Output, url: str) -> None:
    """Show the rules of a node: what they make, when counting starts again, and how many numbers a cycle has left."""
    show(out, RULE_COLUMNS, ask(url, "GET", "rules")["rules"])


@verb("counters", HTTP, "Show the counters of a rule.")
@click.argument("rule")
@click.argument("app", required=False)
def counters(out: Output, url: str, *, rule: str, app: str | None) -> None:
    """Show the counters of RULE that a node has in memory, or the one of the application APP."""
    rows = list(all_counters(url, rule)) if app is None else [ask(url, "GET", "counters", rule, app)]
    show(out, COUNTER_COLUMNS, rows)


def all_counters(url: str, rule: str) -> Iterator[dict[str, Any]]:
    """Return the counters of a rule, page by page."""
    after: dict[str, object] = {}
    while True:
        page = ask(url, "GET", "counters", rule, query={"limit": COMMAND_PAGE} | after)
        yield from page["counters"]
        if page["next"] is None:
            return
        after = {"after": page["next"]}


def show(out: Output, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows; in a table, what a row lacks is empty."""
    filled = ({column: "" if row.get(column) is None else row[column] for column in columns} for row in rows)
    out.table(columns, rows if out.as_json else filled)


@verb("reload", HTTP, "Have a node read its rules again.")
def reload(out: Output, url: str) -> None:
    """Have a node read its rules again, all or none, and accept its clock, as SIGHUP does.

    Only from the networks that the configuration names; that is the node's own machine, unless it says otherwise.
    """
    found = ask(url, "POST", "reload")
    changes = [f"{what}: {', '.join(names)}" for what, names in found.items() if isinstance(names, list) and names]
    out.record(found, "; ".join(["reloaded", *changes]))
