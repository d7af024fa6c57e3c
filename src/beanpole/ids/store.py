"""What is durable: marks of counters, and who owns the numbers of a node.

Two tables of our own. `beanpole_ids_node` has a row for each node: its epoch, which each start raises.
`beanpole_ids_counter` has a row for each counter of a node. A store locks its node as long as it is connected,
so that a second process is refused; and checks its epoch in every transaction, so that one that lost the lock unnoticed
writes nothing more.

Adding nodes: the step is the same for all nodes that run. Each step is a generation. A counter whose row is of an older
generation, or that has no row, goes on above the rows of all nodes.

Names are bytes in the database too: no collation makes two of them one. All values are parameters. A store is used by
one thread at a time. It reads no clock.
"""

import fcntl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from beanpole import limits
from beanpole.errors import ExitCode, LeaseLostError, StartError, StorageError
from beanpole.ids.sequence import Key, Mark

NAME = sa.LargeBinary(limits.IDS_NAME_BYTES_MAX).with_variant(
    mysql.VARBINARY(limits.IDS_NAME_BYTES_MAX), "mysql", "mariadb"
)
NUMBER = sa.BigInteger()
METADATA = sa.MetaData()

NODES = sa.Table(
    "beanpole_ids_node",
    METADATA,
    sa.Column("node", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", NUMBER, nullable=False),
    sa.Column("generation", NUMBER, nullable=False),
    sa.Column("step", NUMBER, nullable=False),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)

COUNTERS = sa.Table(
    "beanpole_ids_counter",
    METADATA,
    sa.Column("node", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("rule", NAME, primary_key=True),
    sa.Column("app", NAME, primary_key=True),
    sa.Column("generation", NUMBER, nullable=False),
    sa.Column("cycle_s", NUMBER, nullable=False),
    sa.Column("reserved", NUMBER, nullable=False),
    sa.Column("time_s", NUMBER, nullable=False),
    sa.Column("kind", sa.String(255), nullable=False),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)

ORIGINAL = sa.table(
    "counter",
    *(sa.column(name) for name in ("node_offset", "counter", "update_time", "rule_name", "app_name")),
)
"""The table of the original, which is read and never written."""


class Store:
    """The numbers of one node in one database."""

    def __init__(self, url: str, node: int, step: int) -> None:
        self.node = node
        self.step = step
        self.epoch = 0
        self.generation = 0
        self.has_original = False
        self._file: IO[bytes] | None = None
        try:
            self._url = sa.make_url(url)
            self._engine = sa.create_engine(self._url, poolclass=sa.NullPool)
        except (sa.exc.ArgumentError, ImportError) as error:
            raise StartError(f"cannot use the database: {sentence(error)}", ExitCode.FAILED) from error
        self._dialect = self._engine.dialect.name
        self._connection: sa.Connection | None = None

    def open(self) -> None:
        """Connect, make the tables, take the node, raise its epoch.

        Raises:
            StartError: the database can't be reached, or another process has the node.
        """
        try:
            connection = self._connect()
            METADATA.create_all(connection)
            connection.commit()
            self.has_original = sa.inspect(connection).has_table(ORIGINAL.name)
            connection.commit()
            with connection.begin():
                self._take_node(connection)
        except sa.exc.SQLAlchemyError as error:
            self.close()
            raise StartError(f"cannot use the database: {sentence(error)}", ExitCode.FAILED) from error
        except LeaseLostError as error:
            self.close()
            raise StartError(str(error), ExitCode.DATA_DIR_LOCKED) from error

    def _connect(self) -> sa.Connection:
        """Return a connection that holds the lock of the node.

        Raises:
            LeaseLostError: another process has the lock.
        """
        connection = self._engine.connect()
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: sa.Connection) -> None:
        """Make a new connection durable, and the holder of the lock."""
        if self._dialect == "sqlite":
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            connection.exec_driver_sql("PRAGMA synchronous = FULL")
            connection.exec_driver_sql("PRAGMA busy_timeout = 5000")
        elif self._dialect == "postgresql":
            connection.exec_driver_sql("SET synchronous_commit = on")
        connection.commit()
        if not self._lock(connection, self.node):
            raise LeaseLostError(f"storage: node {self.node} is in use by another process")
        connection.commit()

    def _lock(self, connection: sa.Connection, node: int) -> bool:
        """Take the lock of a node until the connection or the process ends; return whether we have it."""
        if self._dialect == "sqlite":
            if self._file is None and self._url.database and self._url.database != ":memory:":
                file = Path(f"{self._url.database}.node-{node}").open("ab")  # noqa: SIM115 - closed with the store
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    file.close()
                    return False
                self._file = file
            return True
        name = f"beanpole_ids_{self._url.database}_{node}"
        if self._dialect == "postgresql":
            question = sa.select(sa.func.pg_try_advisory_lock(sa.func.hashtext(name)))
        else:
            question = sa.select(sa.func.get_lock(name, 0))
        return bool(connection.execute(question).scalar())

    def _is_running(self, connection: sa.Connection, node: int) -> bool:
        """Return whether some process has the lock of another node."""
        if self._dialect == "sqlite":
            path = Path(f"{self._url.database}.node-{node}")
            if not path.exists():
                return False
            with path.open("ab") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return True
            return False
        if not self._lock(connection, node):
            return True
        name = f"beanpole_ids_{self._url.database}_{node}"
        unlock = (
            sa.func.pg_advisory_unlock(sa.func.hashtext(name))
            if self._dialect == "postgresql"
            else sa.func.release_lock(name)
        )
        connection.execute(sa.select(unlock))
        return False

    def _take_node(self, connection: sa.Connection) -> None:
        """Raise the node's epoch, and begin a generation if the step is another one."""
        rows = {row.node: row for row in connection.execute(sa.select(NODES))}
        for row in rows.values():
            if row.node != self.node and row.step != self.step and self._is_running(connection, row.node):
                raise LeaseLostError(
                    f"storage: node {row.node} runs with step {row.step}, this one has {self.step}: "
                    "stop all nodes, then start them with the new step"
                )
        newest = max(rows.values(), key=lambda row: int(row.generation), default=None)
        self.generation = 1 if newest is None else newest.generation + (newest.step != self.step)
        mine = rows.get(self.node)
        self.epoch = mine.epoch + 1 if mine else 1
        values = {"epoch": self.epoch, "generation": self.generation, "step": self.step}
        if mine:
            connection.execute(sa.update(NODES).where(NODES.c.node == self.node).values(**values))
        else:
            connection.execute(sa.insert(NODES).values(node=self.node, **values))

    def load(self, key: Key, margin: int) -> Mark | None:
        """Return the mark from which a counter goes on; None if nobody has used it. `margin`: see `_original`.

        Raises:
            StorageError: the database can't be asked.
        """
        try:
            with self._transaction() as connection:
                mine = (COUNTERS.c.rule == key.rule) & (COUNTERS.c.app == key.app)
                rows = connection.execute(sa.select(COUNTERS).where(mine)).all()
                own = [row for row in rows if row.node == self.node and row.generation == self.generation]
                marks = [Mark(row.cycle_s, row.reserved, row.time_s, row.kind) for row in own or rows]
                if not marks and self.has_original:
                    marks = self._original(connection, key, margin)
        except sa.exc.SQLAlchemyError as error:
            self._drop()
            raise StorageError(f"storage: {sentence(error)}") from error
        if not marks:
            return None
        latest = max(marks, key=lambda mark: (mark.cycle_s, mark.reserved))
        return Mark(latest.cycle_s, latest.reserved, max(mark.time_s for mark in marks), latest.kind)

    def _original(self, connection: sa.Connection, key: Key, margin: int) -> list[Mark]:
        """Return where the original stood: above what any of its nodes has saved, and a batch more.

        It handed out numbers before they were saved, so `margin` numbers above may be gone. Its table compares names as
        the database does, so several of our counters may go on from one of its rows: a gap, not a repetition.
        """
        rows = connection.execute(
            sa.select(ORIGINAL).where(
                (ORIGINAL.c.rule_name == key.rule.decode("utf-8", "replace"))
                & (ORIGINAL.c.app_name == key.app.decode("utf-8", "replace"))
            )
        ).all()
        # Another kind than any rule has: the cycle that is current when it is loaded inherits the number.
        return [Mark(0, int(row.counter) + margin, int(row.update_time), "original") for row in rows]

    def reserve(self, wanted: Sequence[tuple[Key, Mark]]) -> None:
        """Make ranges durable, all or none; when this returns they are.

        Raises:
            LeaseLostError: another process has the node now; nothing was written.
            StorageError: the database failed; nobody knows whether it was written.
        """
        self._write(wanted, forward=True)

    def give_back(self, rests: Iterable[tuple[Key, Mark]]) -> None:
        """Write the marks of counters that hand out nothing more.

        Raises:
            StorageError: as `reserve` does; the numbers are a gap then.
        """
        self._write(list(rests), forward=False)

    def beat(self) -> None:
        """Ask whether the node is still ours.

        Raises:
            LeaseLostError: it is not.
            StorageError: the database can't be asked.
        """
        self._write([], forward=True)

    def _write(self, marks: Sequence[tuple[Key, Mark]], *, forward: bool) -> None:
        try:
            with self._transaction() as connection:
                for key, mark in marks:
                    self._write_mark(connection, key, mark, forward=forward)
        except sa.exc.SQLAlchemyError as error:
            self._drop()
            raise StorageError(f"storage: {sentence(error)}") from error

    def _write_mark(self, connection: sa.Connection, key: Key, mark: Mark, *, forward: bool) -> None:
        where = (COUNTERS.c.node == self.node) & (COUNTERS.c.rule == key.rule) & (COUNTERS.c.app == key.app)
        row = connection.execute(sa.select(COUNTERS).where(where)).one_or_none()
        values: dict[str, Any] = {
            "generation": self.generation,
            "cycle_s": mark.cycle_s,
            "reserved": mark.reserved,
            "time_s": mark.time_s,
            "kind": mark.kind,
        }
        if row is None:
            connection.execute(sa.insert(COUNTERS).values(node=self.node, rule=key.rule, app=key.app, **values))
            return
        if forward and row.generation == self.generation:
            old = Mark(row.cycle_s, row.reserved, row.time_s, row.kind)
            assert mark.may_follow(old), f"the counter {key} would go back from {old} to {mark}"
        connection.execute(sa.update(COUNTERS).where(where).values(**values))

    def _transaction(self) -> "Transaction":
        """Return a transaction of the node's owner."""
        return Transaction(self)

    def current(self) -> sa.Connection:
        """Return the connection, a new one with the lock if it was lost.

        Raises:
            LeaseLostError: another process has taken the lock meanwhile.
        """
        return self._connection if self._connection is not None else self._connect()

    def _drop(self) -> None:
        """Give up a connection that failed; the next transaction makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Disconnect, and give the lock of the node back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._engine.dispose()
        if self._file is not None:
            self._file.close()
            self._file = None


class Transaction:
    """A transaction that begins with the question whether the node is still ours."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __enter__(self) -> sa.Connection:
        connection = self.store.current()
        self._begun = connection.begin()
        where = (NODES.c.node == self.store.node) & (NODES.c.epoch == self.store.epoch)
        # A write, so that the row is locked until the commit: nobody can take the node in between.
        owned = connection.execute(sa.update(NODES).where(where).values(step=self.store.step)).rowcount
        if owned != 1:
            self._begun.rollback()
            raise LeaseLostError(f"storage: node {self.store.node} was taken over by another process")
        return connection

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._begun.commit()
        elif self._begun.is_active:
            self._begun.rollback()


def sentence(error: BaseException) -> str:
    """Return the first line of what a database says."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0]
