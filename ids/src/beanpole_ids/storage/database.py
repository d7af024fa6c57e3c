"""What differs between databases: connecting, locks, time-outs, and what makes a commit durable.

A lock has a number, belongs to a connection, and ends with it or with the process. No call takes longer than
`timeout_s`, whether the database is slow, hangs, or its machine is gone. The database's clock is not used.
"""

import fcntl
import glob
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import sqlalchemy as sa

from beanpole_ids import limits
from beanpole_ids.errors import DatabaseLostError, ExitCode, StartError, StorageError

START = -1  # the number of the lock that a process holds while it starts. The lock of a node has the number of the node
NOTED_BYTES = 20  # of the note in a lock's file: a number of 63 bits, and the end of the line
MAX_TIMEOUT = "4294967295"  # the longest in milliseconds that every version lets a commit wait for a replica: 49 days

DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "postgresql": "postgresql+psycopg",
}
"""Kinds of databases, and the drivers that their time-outs are made for."""

FORM = "sqlite:///FILE, or KIND://USER:PASSWORD@HOST/NAME with one of " + ", ".join(list(DRIVERS.values())[1:])
"""What an address looks like."""

PAIRS: sa.BindParameter[Any] = sa.bindparam("pairs", expanding=True)
"""Pairs of a rule and an application in a statement."""


class Database(ABC):
    """One kind of database."""

    pairs: ClassVar[str] = ":pairs"  # how a statement compares with `PAIRS`, so that an index is used

    def __init__(self, url: sa.URL, timeout_s: int, isolation_level: str, **connect_arguments: object) -> None:
        self.timeout_s = timeout_s
        self.engine = sa.create_engine(
            url,
            poolclass=sa.NullPool,
            isolation_level=isolation_level,
            connect_args={key: value for key, value in connect_arguments.items() if key not in url.query},
        )

    @abstractmethod
    def prepare(self, connection: sa.Connection) -> None:
        """Set up a new connection: time-outs, and commits that are durable.

        Raises StorageError: the database does not keep what it commits.
        """

    def make(self, connection: sa.Connection) -> None:  # noqa: B027 - most need nothing
        """Do what a new database needs before it has tables. The caller holds the lock for starting."""

    def find(
        self, connection: sa.Connection, table: sa.Table, pairs: Sequence[tuple[bytes, bytes]], node: int | None = None
    ) -> Sequence[Any]:
        """Return the rows of pairs of a rule and an application, of one node or all."""
        where = "" if node is None else "node = :node AND "
        # As text: SQLAlchemy would take longer to build so many conditions than databases to look for them.
        text = sa.text(f"SELECT * FROM {table.name} WHERE {where}(rule, app) IN {self.pairs}")  # noqa: S608 - ours
        # Drivers keep what they have prepared: a few lengths take less memory than all, and are found there.
        same = [pairs[-1]] * ((1 << (len(pairs) - 1).bit_length()) - len(pairs))
        return connection.execute(text.bindparams(PAIRS), {"pairs": [*pairs, *same], "node": node}).all()

    @property
    def name(self) -> str:
        """What people call it."""
        return "the database"

    def place(self) -> str:
        """Return what tells the database from its copies; empty if nothing does."""
        return ""

    def writes_seen(self, number: int) -> int:  # noqa: ARG002 - only a file has something beside it
        """Return how many writes of a node there were, as noted beside the database; 0 if that is not known."""
        return 0

    def note_writes(self, number: int, count: int) -> None:  # noqa: B027 - see above
        """Note how many writes of a node are durable beside the database, whose backup will not know it."""

    def check(self, *, is_connected: bool) -> None:  # noqa: B027 - only a file can be lost unnoticed
        """Check that the database is the one that it was. Raises DatabaseLostError: it is not."""

    @abstractmethod
    def write(self, connection: sa.Connection, table: sa.Table, rows: list[tuple[Any, ...]]) -> None:
        """Insert rows, or update those with the same primary key: values of all columns, each row once.

        In the driver's own words: SQLAlchemy would take longer to bind the values than databases to store them.
        """

    def lock(self, connection: sa.Connection, number: int) -> bool:
        """Take a lock; return whether we have it."""
        return bool(connection.execute(sa.select(self.lock_calls(number)[0])).scalar())

    def unlock(self, connection: sa.Connection, number: int) -> None:
        connection.execute(sa.select(self.lock_calls(number)[1]))

    def lock_calls(self, number: int) -> tuple[Any, Any]:  # noqa: ARG002 - servers have locks
        """Return the functions of SQL that take a lock and give it back."""
        raise AssertionError("a file is locked in its own way")

    def is_away(self, error: BaseException) -> bool:  # noqa: ARG002 - a file is there or not
        """Return whether a database could not be reached, and might be in a moment."""
        return False

    def sentence(self, error: BaseException) -> str:
        """Return the first line of what a database or the system says."""
        if isinstance(error, OSError) and error.filename:
            return f"{error.filename}: {error.strerror}"
        return str(getattr(error, "orig", None) or error).partition("\n")[0]

    def close(self) -> None:
        """Give back what does not end with the connection."""
        self.engine.dispose()


class Sqlite(Database):
    """A file. Its locks are files beside it."""

    pairs = "(SELECT * FROM :pairs)"

    def __init__(self, url: sa.URL, timeout_s: int) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise StartError(
                f"cannot use the database: {url} is no file, and what is in memory is forgotten; write sqlite:///FILE",
                ExitCode.USAGE,
            )
        super().__init__(url, timeout_s, "SERIALIZABLE", timeout=timeout_s)
        self._path = Path(url.database).resolve()
        self._files: dict[int, IO[bytes]] = {}
        self._file: IO[bytes] | None = None
        """The database. It stays open, so that no other file gets its number; it is closed last, for SQLite loses its
        locks when its process closes any file that is the same."""

        self._log: tuple[int, int] | None = None
        """The device and number of the connection's write-ahead log; None: not known yet."""

    def prepare(self, connection: sa.Connection) -> None:
        """Sync each commit. Keep few pages: what the system has of the file is nearly as near."""
        connection.exec_driver_sql("PRAGMA synchronous = FULL")
        connection.exec_driver_sql("PRAGMA cache_size = -512")  # KiB

    def make(self, connection: sa.Connection) -> None:
        """Switch the file to a write-ahead log. SQLite refuses a second process that does so at the same moment.

        Raises StorageError: the file is new, and those beside it are not.
        """
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        locks = sorted(self._path.parent.glob(f"{glob.escape(self._path.name)}.node-*"))
        if locks and not connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first():
            connection.close()
            self._path.unlink()  # it is empty: the next start must not take it for one that counts
            raise StorageError(
                f"{self._path} was there and is gone: numbers would begin again and repeat. Put it back, or a backup "
                f"in which `reserved` is above all numbers that were given; if they may begin again, remove {locks[0]}"
            )

    def check(self, *, is_connected: bool) -> None:
        """Check that the files are those that they were. The log is a connection's: the last one deletes it."""
        if not is_connected:
            self._log = None
        if self._file is None:
            self._file = self._path.open("rb")
        known = identity(os.fstat(self._file.fileno()))
        log, expected = identity_at(f"{self._path}-wal"), self._log
        if identity_at(self._path) != known or (expected is not None and log != expected):
            raise DatabaseLostError(
                f"storage: the file {self._path} or its -wal was deleted, moved or replaced: what it says is not what "
                "was reserved. Put it back, or a backup in which `reserved` is above all numbers that were given"
            )
        self._log = log if is_connected else None

    def write(self, connection: sa.Connection, table: sa.Table, rows: list[tuple[Any, ...]]) -> None:
        """See `Database.write`. A stop writes nearly all pages: they should be written once."""
        if len(rows) > limits.ROUND_ROWS:
            connection.exec_driver_sql("PRAGMA cache_size = -32768")  # KiB
        connection.exec_driver_sql(upsert(table, values_of(table, "?")), rows)

    @property
    def name(self) -> str:
        return str(self._path)

    def place(self) -> str:
        """Return the machine and the number of the file: a copy has another one, on this machine or elsewhere.

        Not the device, which a restart of the machine may call otherwise.
        """
        return f"{machine()} {self._path.stat().st_ino}"

    def writes_seen(self, number: int) -> int:
        """Return what the lock's file says. A crash of the machine may have left an older number there, or none."""
        found = os.pread(self._files[number].fileno(), NOTED_BYTES, 0)
        return int(found) if len(found) == NOTED_BYTES and found.strip().isdigit() else 0

    def note_writes(self, number: int, count: int) -> None:
        if number in self._files:
            os.pwrite(self._files[number].fileno(), f"{count:0{NOTED_BYTES - 1}}\n".encode(), 0)  # without a sync

    def lock(self, connection: sa.Connection, number: int) -> bool:  # noqa: ARG002 - it is the process that has it
        if number in self._files:
            return True

        def make(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_CREAT, 0o666)

        name = "start" if number == START else f"node-{number}"
        # Neither empties nor appends: the file has a note.
        file = open(f"{self._path}.{name}", "rb+", 0, opener=make)  # noqa: SIM115 - closed by `unlock`
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self._files[number] = file
        return True

    def unlock(self, connection: sa.Connection | None, number: int) -> None:  # noqa: ARG002 - see `lock`
        self._files.pop(number).close()

    def sentence(self, error: BaseException) -> str:
        """Return what SQLite says, and of which file, if that can't be used."""
        text = super().sentence(error)
        return f"{self._path}: {text}; {ADVICE[text]}" if text in ADVICE else text

    def close(self) -> None:
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None
        for number in list(self._files):
            self.unlock(None, number)


ADVICE = dict.fromkeys(
    ("unable to open database file", "attempt to write a readonly database"),
    "its folder must be there, and this user must be able to write there and into the file",
) | {"file is not a database": "write another name, or put a backup there"}
"""What helps with errors of SQLite."""


class Mysql(Database):
    """MySQL or MariaDB. Its locks are for all databases of a server, so their names have that of ours."""

    def __init__(self, url: sa.URL, timeout_s: int) -> None:
        waits = {"connect_timeout": timeout_s, "read_timeout": timeout_s, "write_timeout": timeout_s}
        super().__init__(url, timeout_s, "REPEATABLE READ", **waits)

    def prepare(self, connection: sa.Connection) -> None:
        """Limit how long a statement waits, refuse values that would be cut, and have tables made with transactions."""
        if connection.exec_driver_sql("SELECT @@GLOBAL.read_only").scalar():
            raise StorageError("storage: the server is read-only, as a replica is: set read_only to 0 to promote it")
        refuse_lax_replication(connection)
        level = connection.exec_driver_sql("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit").scalar()
        if int(level or 0) != 1:
            raise StorageError(
                f"storage: innodb_flush_log_at_trx_commit is {level}: a crash would lose what was committed, "
                "and numbers would repeat; set it to 1"
            )
        connection.exec_driver_sql(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES', SESSION default_storage_engine = InnoDB,"
            f" SESSION innodb_lock_wait_timeout = {self.timeout_s}, SESSION wait_timeout = {limits.STORE_IDLE_S}"
        )

    def write(self, connection: sa.Connection, table: sa.Table, rows: list[tuple[Any, ...]]) -> None:
        connection.exec_driver_sql(upsert(table, values_of(table, "%s"), is_mysql=True), rows)

    def is_away(self, error: BaseException) -> bool:
        match getattr(getattr(error, "orig", None), "args", ()):
            case (int(number), *_):
                return number in MYSQL_AWAY
        return False

    def sentence(self, error: BaseException) -> str:
        """Return what the driver or the server says; PyMySQL's errors are pairs of a number and a text."""
        match getattr(getattr(error, "orig", None), "args", ()):
            case (int(number), str(text)):
                first = text.partition("\n")[0]
                return f"{first} (error {number})"
        return super().sentence(error)

    def lock_calls(self, number: int) -> tuple[Any, Any]:
        # A name has up to 64 characters, like that of a database.
        name = sa.func.concat(f"beanpole_ids_{number}_", sa.func.sha1(sa.func.database()))
        return sa.func.get_lock(name, 0), sa.func.release_lock(name)


MYSQL_AWAY = frozenset({1040, 1053, 1152, 1927, 2002, 2003, 2006, 2013, 2055})
"""Errors of MySQL and MariaDB: too many connections, it is stopping, and all ways in which a connection is not made."""


def refuse_lax_replication(connection: sa.Connection) -> None:
    """Refuse a primary that waits for its replica, but not always: numbers would repeat when that is promoted.

    Raises StorageError: a commit may return before the replica has it.
    """
    rows = connection.exec_driver_sql("SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_%%'").all()
    found: dict[str, str] = {row[0]: row[1] for row in rows}
    for role, replica in (("master", "slave"), ("source", "replica")):  # newer MySQL has the second words
        prefix = f"rpl_semi_sync_{role}_"
        if "ON" not in {found.get(f"{prefix}enabled"), found.get(f"rpl_semi_sync_{replica}_enabled")}:
            continue
        found["sync_binlog"] = str(connection.exec_driver_sql("SELECT @@GLOBAL.sync_binlog").scalar())
        timeout = f"{prefix}timeout"
        if int(found[timeout]) >= limits.SEMI_SYNC_TIMEOUT_MS_MIN:
            found[timeout] = MAX_TIMEOUT
        wanted = {
            f"{prefix}enabled": "ON",
            timeout: MAX_TIMEOUT,
            f"{prefix}wait_point": "AFTER_SYNC",
            f"{prefix}wait_no_{replica}": "ON",
            "sync_binlog": "1",
        }
        for name, value in wanted.items():
            if found.get(name) != value:
                raise StorageError(
                    f"storage: {name} is {found.get(name)}: a commit could return before a replica has it, and numbers "
                    f"would repeat when that is promoted; set it to {value}"
                )


class Postgresql(Database):
    """PostgreSQL. Its locks are for one database; ours are for one schema in it."""

    def __init__(self, url: sa.URL, timeout_s: int) -> None:
        super().__init__(
            url,
            timeout_s,
            "READ COMMITTED",
            connect_timeout=timeout_s,
            application_name="beanpole-ids",
            tcp_user_timeout=timeout_s * 1000,
        )
        connection_class = impatient_connection(timeout_s)
        sa.event.listen(
            self.engine, "do_connect", lambda _, __, given, named: connection_class.connect(*given, **named)
        )

    def prepare(self, connection: sa.Connection) -> None:
        """Limit how long a statement waits, and how long others wait for our locks."""
        if connection.exec_driver_sql("SHOW fsync").scalar() != "on":
            raise StorageError(
                "storage: fsync is off: a crash would lose what was committed, and numbers would repeat; set it to on"
            )
        if connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off":
            connection.exec_driver_sql("SET synchronous_commit = on")
        connection.exec_driver_sql(
            f"SET statement_timeout = '{self.timeout_s}s'; SET lock_timeout = '{self.timeout_s}s';"
            f"SET idle_in_transaction_session_timeout = '{2 * self.timeout_s}s';"
            f"SET tcp_keepalives_idle = {limits.STORE_IDLE_S // 2};"
            f"SET tcp_keepalives_interval = {limits.STORE_IDLE_S // 6}; SET tcp_keepalives_count = 3"
        )

    def is_away(self, error: BaseException) -> bool:
        """Return whether the server could not be reached, or is starting, stopping or full.

        libpq tells these from a wrong password only by what the server says in its own words, after ``FATAL``.
        """
        import psycopg  # noqa: PLC0415 - megabytes that others need not

        reason = getattr(error, "orig", None)
        if not isinstance(reason, psycopg.OperationalError):
            return False
        text = str(reason)
        return "FATAL:" not in text or any(each in text for each in POSTGRESQL_AWAY)

    def write(self, connection: sa.Connection, table: sa.Table, rows: list[tuple[Any, ...]]) -> None:
        """See `Database.write`. One statement has all rows, as an array of each column."""
        # The types without their lengths: a cast cuts a text that is too long, where the insertion refuses it.
        types = (column.type.compile(connection.dialect).partition("(")[0] for column in table.columns)
        arrays = ", ".join(f"%s::{each}[]" for each in types)
        statement = upsert(table, f"SELECT * FROM unnest({arrays})")  # noqa: S608 - ours
        connection.exec_driver_sql(statement, tuple(list(values) for values in zip(*rows, strict=True)))

    def lock_calls(self, number: int) -> tuple[Any, Any]:
        ours = sa.func.hashtext(sa.func.concat("beanpole_ids_", sa.func.current_schema()))
        return sa.func.pg_try_advisory_lock(ours, number), sa.func.pg_advisory_unlock(ours, number)


POSTGRESQL_AWAY = ("starting up", "shutting down", "in recovery mode", "too many clients", "terminating connection")
"""What PostgreSQL says when a client should come back later."""


def upsert(table: sa.Table, rows: str, *, is_mysql: bool = False) -> str:
    """Return the statement that inserts rows, or updates those that are there."""
    names, keys = list(table.columns.keys()), table.primary_key.columns.keys()
    others = [name for name in names if name not in keys]
    then = f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in others)
    if is_mysql:
        then = "ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in others)
    return f"INSERT INTO {table.name} ({', '.join(names)}) {rows} {then}"


def values_of(table: sa.Table, mark: str) -> str:
    """Return where a driver puts the values of a row."""
    return f"VALUES ({', '.join([mark] * len(table.columns))})"


def impatient_connection(timeout_s: int) -> Any:  # noqa: ANN401 - a class of a package that is optional
    """Return psycopg's class of connections, made so that it waits for an answer only so long."""
    import psycopg  # noqa: PLC0415 - see above

    class Impatient(psycopg.Connection[Any]):
        """A connection that gives up a server that hangs: libpq by itself waits for ever."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = timeout_s) -> Any:  # noqa: ANN401
            try:
                return super().wait(gen, interval, timeout)
            except psycopg.OperationalError:
                if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                    self.pgconn.finish()  # its answer would be taken for that of the next question
                raise

    return Impatient


def database_at(address: str, timeout_s: int) -> Database:
    """Return the database at an address of SQLAlchemy; no call of it takes more than `timeout_s`. It isn't asked yet.

    Raises StartError: the address makes no sense, or the driver of that kind of database is not installed.
    """
    try:
        url = sa.make_url(address)
        kind = url.get_backend_name()
        if url.drivername not in {kind, DRIVERS.get(kind)} or kind not in DRIVERS:
            raise ValueError(f"{url.drivername} is no kind of database that can be used")  # noqa: TRY301 - as others
        return KINDS[kind](url if kind == "sqlite" else url.set(drivername=DRIVERS[kind]), timeout_s)
    except ImportError as error:
        reason = f"{error.name} is not installed: pip install 'beanpole-ids[databases]'"
        raise StartError(f"cannot use the database: {reason}", ExitCode.FAILED) from error
    except (sa.exc.ArgumentError, ValueError) as error:
        reason = str(error).replace("invalid literal for int() with base 10", "there is no number where one must be")
        raise StartError(f"cannot use the database: {reason}; write {FORM}", ExitCode.USAGE) from error


KINDS: dict[str, type[Sqlite | Mysql | Postgresql]] = {
    "sqlite": Sqlite,
    "mysql": Mysql,
    "mariadb": Mysql,
    "postgresql": Postgresql,
}


# --- Files ------------------------------------------------------------------------------------------------------------


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return what a file has as long as it exists, whatever its name is."""
    return status.st_dev, status.st_ino


def identity_at(path: str | Path) -> tuple[int, int] | None:
    """Return what the file at a path is; None: there is none."""
    try:
        return identity(os.stat(path))  # noqa: PTH116 - many times a second
    except FileNotFoundError:
        return None


def machine() -> str:
    """Return what names this machine; empty if nothing does, as in many containers. Not its id, which is secret."""
    try:
        found = Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""
    return hashlib.blake2b(found.encode(), digest_size=8, person=b"beanpole-ids").hexdigest() if found else ""


def is_elsewhere(known: str, place: str) -> bool:
    """Return whether a database is not where it was: on another machine, if both are known, or in another file."""
    if not known or not place:
        return False
    (before, file), (machine, now) = known.split(" "), place.split(" ")
    return file != now or bool(before and machine and before != machine)
