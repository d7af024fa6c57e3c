"""The outbox: a table of an application's database, into which its transactions insert jobs.

The same columns in PostgreSQL, MariaDB, MySQL and SQLite; moments are seconds since 1970, by the database's clock. Each
row has a token of its own, by which the server knows a put that it has done. Its number would not do: a database gives
numbers again after a crash, a restore or a TRUNCATE, and the job of the later row would be taken for done.

Several relays share a table of a server: each locks the rows that it takes, and skips those of others. In SQLite there
is one relay, which holds a lock beside the file, and none of the database's while it waits for the server.
"""

import fcntl
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa

from beanpole.errors import ExitCode, StartError
from beanpole.relay.table import COLUMNS, WORDS, ddl

DRIVERS = {"postgresql": "psycopg", "mysql": "pymysql", "mariadb": "pymysql", "sqlite": "pysqlite"}
"""The databases that can have an outbox, each with the driver that is taken where the URL names none."""

CONNECT_TIMEOUT_S = 10
ASIDE_SHOWN = 100  # rows that were set aside and are shown
BODY_BYTES_MAX = 16_777_216  # of what is larger not one byte is read

NAME = re.compile(r"(?:[\w$-]{1,63}\.)?[\w$-]{1,63}", re.ASCII)
"""What a table may be called, with its schema."""

DELETE_ONE_BY_ONE = """
delete {0} from json_table(:numbers, '$[*]' columns (done bigint path '$')) numbers straight_join {0} on number = done
"""
"""For MariaDB and MySQL, which by `number in (…)` read a small table from end to end, and wait for rows of others."""

REFUSALS = re.compile(
    r"password|authentication|pg_hba|does not exist|doesn't exist|denied|unknown database|no such (?:table|column)"
    r"|readonly|read-only|unable to open|not a database|not support|syntax|\bview\b",
    re.IGNORECASE,
)
"""What databases say when a person must do something; the rest may pass."""


def said(error: sa.exc.DBAPIError) -> str:
    """Return the first line of what a database or its driver says."""
    arguments = error.orig.args if error.orig is not None else ()
    return (str(arguments[-1] if arguments else error).strip().splitlines() or [type(error.orig).__name__])[0]


def is_refusal(error: sa.exc.DBAPIError) -> bool:
    """Whether a person must do something about an error, which else may pass."""
    may_pass = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
    return not may_pass or REFUSALS.search(said(error)) is not None


def parsed_url(url: str) -> sa.URL:
    """Return the URL of a database. Raises StartError: it is none that can have an outbox."""
    try:
        parsed = sa.make_url(url)
        known = parsed.get_backend_name() in DRIVERS
    except (sa.exc.ArgumentError, ValueError):
        known = False
    if not known:
        form = "postgresql://USER@HOST/DATABASE, mariadb://…, mysql://… or sqlite:///PATH"
        raise StartError(f"the URL of a database is {form}", ExitCode.USAGE)
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise StartError("an outbox in SQLite is in a file: sqlite:///PATH", ExitCode.USAGE)
    return parsed


def read_any_text(connection: Any, _record: object) -> None:  # noqa: ANN401 - of the driver
    """Let text of SQLite that is not UTF-8 fail none of the rows that are read with it."""
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Status:
    """What waits in an outbox."""

    rows: int
    oldest_s: float
    """The age of the oldest row that waits; 0: none does."""

    aside: int
    """How many rows were set aside."""

    reasons: list[Mapping[str, object]]
    """The first of them: `number`, `tube` and `error`."""


class Outbox:
    """The outbox in a database, over one connection.

    `is_new` is given to make one: a file of SQLite need not be there then.

    Raises StartError: the URL is none, the driver is missing, or the file.
    """

    def __init__(self, url: str, name: str, *, is_new: bool = False) -> None:
        parsed = parsed_url(url)
        family, _, driver = parsed.drivername.partition("+")
        options: dict[str, Any] = {}
        if family != "sqlite":
            # With more isolation MariaDB would lock the end of the table, too, and whoever inserts would wait.
            options = {"isolation_level": "READ COMMITTED", "connect_args": {"connect_timeout": CONNECT_TIMEOUT_S}}
        try:
            parsed = parsed.set(drivername=f"{family}+{driver or DRIVERS[family]}")
            self._engine = sa.create_engine(parsed, poolclass=sa.NullPool, **options)
        except (ImportError, sa.exc.NoSuchModuleError) as error:
            how = f"install {driver}, or leave it out of the URL" if driver else "pip install 'beanpole[relay]'"
            raise StartError(f"the driver of the database is missing ({error}): {how}", ExitCode.NOT_FOUND) from error
        if family == "sqlite":
            sa.event.listen(self._engine, "connect", read_any_text)
        self.name = name
        self.shown = sa.make_url(url).render_as_string(hide_password=True)
        self._family = {"mariadb": "mysql"}.get(family, family)
        self._now: sa.ColumnElement[float] = sa.literal_column(WORDS[self._family]["now"], sa.Double())
        if not NAME.fullmatch(name):
            text = "a table is called NAME or SCHEMA.NAME, each of 1 to 63 letters, digits, _, $ and -"
            raise StartError(text, ExitCode.USAGE)
        schema, _, plain = name.rpartition(".")
        self._table = sa.table(plain, *map(sa.column, COLUMNS), schema=schema or None)
        self._path = Path(parsed.database or "") if family == "sqlite" else None
        if self._path is not None and not is_new and not self._path.is_file():
            raise StartError(f"there is no file {self._path}", ExitCode.NOT_FOUND)
        if self._path is not None and not self._path.parent.is_dir():
            raise StartError(f"there is no folder {self._path.parent}", ExitCode.NOT_FOUND)
        self._lock: IO[bytes] | None = None
        self._connection: sa.Connection | None = None

    def connected(self) -> sa.Connection:
        """Return the connection; a new one if there is none."""
        if self._connection is None:
            try:
                self._connection = self._engine.connect()
            except TypeError as error:
                raise StartError(f"the driver does not take this URL: {error}", ExitCode.USAGE) from error
        return self._connection

    def disconnect(self) -> None:
        """Close the connection, which may be broken."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    @property
    def sql_name(self) -> str:
        """The table's name as it stands in a statement."""
        return self._engine.dialect.identifier_preparer.format_table(self._table)

    def close(self) -> None:
        self.disconnect()
        if self._lock is not None:
            self._lock.close()

    # --- Whether it is there ---

    def make(self) -> bool:
        """Make the table; return whether it was there already. Raises StartError: something else is called so."""
        with self.connected().begin():
            existed = self._columns() is not None
            if existed:
                self._check_columns()
            else:
                self.connected().exec_driver_sql(ddl(self._family, self.sql_name))
        return existed

    def check(self) -> None:
        """Raise StartError if the table is missing, or this user may not take rows from it."""
        with self.connected().begin() as transaction:
            self._check_columns()
            try:
                self.finish({}, [0])
                self.finish({0: ""}, [])
                self.take(1, ())
            except sa.exc.DBAPIError as error:
                if not is_refusal(error):
                    raise
                rights = "the relay needs the rights to select, update and delete"
                raise StartError(f"{self.name}: {said(error)}; {rights}", ExitCode.NOT_FOUND) from error
            transaction.rollback()

    def _columns(self) -> set[str] | None:
        """Return the names of the columns; None: there is no such table."""
        inspector = sa.inspect(self.connected())
        if not inspector.has_table(self._table.name, self._table.schema):
            return None
        return {each["name"] for each in inspector.get_columns(self._table.name, self._table.schema)}

    def _check_columns(self) -> None:
        columns = self._columns()
        if columns is None:
            how = f"beanpole relay init {self.shown} --table {self.name}"
            raise StartError(f"there is no table {self.name}; make it: {how}", ExitCode.NOT_FOUND)
        if missing := [each.name for each in self._table.columns if each.name not in columns]:
            raise StartError(f"{self.name} is no outbox: it has no column {missing[0]}", ExitCode.NOT_FOUND)

    def claim(self) -> None:
        """Keep other relays away, in SQLite. Raises StartError: there is one."""
        if self._path is None or self._lock is not None:
            return
        # Not the file itself: with the first descriptor of it that is closed, a process loses SQLite's locks.
        path = self._path.with_name(f"{self._path.name}-{self._table.name}-relay")
        try:
            self._lock = path.open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            text = f"another relay takes from {self.name}, and SQLite can have one"
            raise StartError(text, ExitCode.NOT_FOUND) from error
        except OSError as error:
            raise StartError(f"{path} can't be locked: {error.strerror}", ExitCode.NOT_FOUND) from error

    # --- Its rows ---

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep what is done inside, or nothing of it."""
        with self.connected().begin():
            yield

    def take(self, count: int, shut: Collection[tuple[str, str]]) -> Sequence[Any]:
        """Return rows by their numbers, each with the time as `now`; they are locked until the transaction ends.

        Those of tubes and groups that are shut stay.
        """
        table = self._table
        # The columns have no types: in SQLite a body may be text, and another column anything.
        body = sa.case((sa.func.length(table.c.body) <= BODY_BYTES_MAX, table.c.body)).label("body")
        columns = [body if each is table.c.body else each for each in table.columns]
        chosen = sa.select(*columns, self._now.label("now")).where(table.c.error.is_(None))
        if shut:
            place = sa.tuple_(table.c.tube, sa.func.coalesce(table.c.job_group, ""))
            chosen = chosen.where(place.not_in(list(shut)))
        chosen = chosen.order_by(table.c.number).limit(count).with_for_update(skip_locked=True)
        return self.connected().execute(chosen).all()

    def finish(self, aside: Mapping[int, str], done: Sequence[int]) -> None:
        """Delete rows whose jobs are put, and set others aside, each with its reason."""
        table, connection = self._table, self.connected()
        if done and self._family == "mysql":
            connection.execute(sa.text(DELETE_ONE_BY_ONE.format(self.sql_name)), {"numbers": str(list(done))})
        elif done:
            connection.execute(sa.delete(table).where(table.c.number.in_(done)))
        for number, reason in aside.items():
            connection.execute(sa.update(table).where(table.c.number == number).values(error=reason))

    def status(self) -> Status:
        table, connection = self._table, self.connected()
        with connection.begin():
            self._check_columns()
            count = sa.func.count()
            waiting = sa.select(count, self._now - sa.func.min(table.c.put_at)).where(table.c.error.is_(None))
            rows, oldest_s = connection.execute(waiting).one()
            aside = connection.execute(sa.select(count).where(table.c.error.is_not(None))).scalar_one()
            first = sa.select(table.c.number, table.c.tube, table.c.error).where(table.c.error.is_not(None))
            reasons = connection.execute(first.order_by(table.c.number).limit(ASIDE_SHOWN)).mappings().all()
        return Status(rows, max(float(oldest_s or 0), 0.0), aside, [dict(each) for each in reasons])
