"""The store: the marks of counters, and which process owns a node.

Two tables of our own. `beanpole_ids_node` has a row for each node: its epoch, which each start raises, and the number
of the last transaction that wrote marks. A database that has an older one has lost commits, as a replica that was
promoted too early: nothing more is reserved there. A start looks for a file of SQLite that is a copy or a backup: its
place is in the row, and the number of the last transaction is noted beside it.
`beanpole_ids_counter` has a row for each counter of a node. A store locks its node while it is connected, so
that a second process is refused. It checks its epoch in every transaction, so that a process that has lost the lock
without noticing writes nothing more.

Adding nodes: the step is the same for all nodes that run. Each step is a generation. A counter whose row is of an older
generation, or that has no row, goes on above the rows of all nodes.

Names are bytes in the database too: no collation makes two of them one. All values are parameters. A store is used by
one thread at a time. It reads no clock.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from beanpole_ids import limits
from beanpole_ids.errors import DatabaseAwayError, ExitCode, LeaseLostError, MovedError, StartError, StorageError
from beanpole_ids.hand import Mark
from beanpole_ids.original import table
from beanpole_ids.rules.fingerprint import merged
from beanpole_ids.rules.sequence import Key
from beanpole_ids.storage.database import START, database_at, is_elsewhere

T = TypeVar("T")

ADOPT = (
    "numbers that were given since then, or that the other one gives, would be given again. If nobody uses another "
    "copy, and `reserved` in beanpole_ids_counter is above all numbers that were given, start once with --adopt"
)
"""What to do with a database that is not the one that it was."""

LOCK_TRIES_PER_S = 50  # to take a lock that another process holds

NAME = sa.LargeBinary(limits.NAME_BYTES_MAX).with_variant(sa.VARBINARY(limits.NAME_BYTES_MAX), "mysql", "mariadb")
NUMBER = sa.BigInteger()
METADATA = sa.MetaData()

NODES = sa.Table(
    "beanpole_ids_node",
    METADATA,
    sa.Column("node", sa.Integer, primary_key=True, autoincrement=False),
    *(sa.Column(name, NUMBER, nullable=False) for name in ("epoch", "generation", "step")),
    sa.Column("writes", NUMBER, nullable=False, server_default="0"),
    sa.Column("place", sa.String(255), nullable=False, server_default=""),
)

COUNTERS = sa.Table(
    "beanpole_ids_counter",
    METADATA,
    sa.Column("node", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("rule", NAME, primary_key=True),
    sa.Column("app", NAME, primary_key=True),
    *(sa.Column(name, NUMBER, nullable=False) for name in ("generation", "cycle_s", "reserved", "time_s")),
    sa.Column("kind", sa.String(255), nullable=False),
    sa.Column("texts", sa.String(limits.RECORD_MAX), nullable=False, server_default=""),
    # The primary key begins with the node, and a counter is looked for in the rows of all nodes.
    sa.Index("beanpole_ids_counter_names", "rule", "app"),
)


class Store:
    """The numbers of one node in one database."""

    def __init__(
        self,
        url: str,
        node: int | None,
        step: int,
        timeout_s: int = limits.STORE_TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.node = node or 0  # known when the store is open, if it is leased
        self.step = step
        self._is_leased = node is None
        self.epoch = 0
        self.generation = 0
        self.has_original = False
        self._database = database_at(url, timeout_s)
        self._connection: sa.Connection | None = None
        self._has_lock = False
        self._write_count = 0  # the number of the last transaction that wrote marks, or tried to
        self._durable_count = 0  # that of the last one that was committed: the database must not have an older one
        self._sleep = sleep
        self.is_adopting = False
        """Whether a copy or a backup is taken for the database that counts: an operator says so."""

    def open(self) -> None:
        """Connect, make the tables, take the node, raise its epoch. One process at a time does this.

        Raises DatabaseAwayError: the database can't be reached now; StartError: it can't be used, or another process
        has the node.
        """
        with self._starting() as connection:
            self._database.make(connection)
            METADATA.create_all(connection)
            connection.commit()
            self.has_original = table.is_in(connection)
            self._lock_node(connection)
            self._has_lock = True
            with connection.begin():
                self._take_node(connection)
            self._database.note_writes(self.node, self._durable_count)
            self._database.unlock(connection, START)
            connection.commit()
            self._database.check(is_connected=True)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[sa.Connection]:
        """Connect, and hold the lock for starting. Raises as `open` does, and disconnects then."""
        try:
            connection = self._connect()
            wait_s = self._database.timeout_s
            self._wait_for_lock(connection, START, wait_s, "another process is starting, and does not come to an end")
            yield connection
        except MovedError as error:
            self.close()
            raise StartError(f"{self._database.name}: {error}; {ADOPT}", ExitCode.DATABASE_LOST) from error
        except LeaseLostError as error:
            self.close()
            raise StartError(str(error), ExitCode.NODE_TAKEN) from error
        except (sa.exc.SQLAlchemyError, StorageError, OSError) as error:
            self.close()
            sentence = f"cannot use the database: {self._database.sentence(error)}"
            if self._database.is_away(error):
                raise DatabaseAwayError(sentence) from error
            raise StartError(sentence, ExitCode.FAILED) from error

    def _connect(self) -> sa.Connection:
        """Return a new connection, which is ours until it is dropped."""
        try:
            connection = self._database.engine.connect()
        except TypeError as error:
            raise StorageError(f"the driver knows no such parameter in the address: {error}") from error
        self._connection = connection
        self._has_lock = False
        self._database.prepare(connection)
        connection.commit()
        return connection

    def _lock_node(self, connection: sa.Connection) -> None:
        """Take the lock of the node; if it is leased, of the first one that is free.

        Only the one process that is starting leases, so no two find the same number free.

        Raises LeaseLostError: another process holds it, or others hold all.
        """
        wait_s = limits.STORE_LOCK_WAIT_S
        if not self._is_leased:
            self._wait_for_lock(connection, self.node, wait_s, f"node {self.node} is in use by another process")
            return
        for _ in range(wait_s * LOCK_TRIES_PER_S):  # a process that was killed may hold the last one for a moment
            for node in range(self.step):
                if self._database.lock(connection, node):
                    connection.commit()
                    self.node = node
                    return
            self._sleep(1 / LOCK_TRIES_PER_S)
        raise LeaseLostError(f"storage: all {self.step} numbers of nodes are in use; step says how many there are")

    def _wait_for_lock(self, connection: sa.Connection, number: int, wait_s: int, otherwise: str) -> None:
        """Take a lock, if need be after a while: a database notices late that the process that held it was killed."""
        has_lock = self._gets_lock(connection, number, wait_s)
        connection.commit()
        if not has_lock:
            raise LeaseLostError(f"storage: {otherwise}")

    def _gets_lock(self, connection: sa.Connection, number: int, wait_s: int) -> bool:
        """Try for a while to take a lock; return whether we hold it."""
        for _ in range(wait_s * LOCK_TRIES_PER_S):
            if self._database.lock(connection, number):
                return True
            self._sleep(1 / LOCK_TRIES_PER_S)
        return False

    def _is_running(self, connection: sa.Connection, node: int) -> bool:
        """Return whether a process holds the lock of another node, and keeps it for a while."""
        if not self._gets_lock(connection, node, limits.STORE_LOCK_WAIT_S):
            return True
        self._database.unlock(connection, node)
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
        self._check_place(rows)
        newest = max(rows.values(), key=lambda row: int(row.generation), default=None)
        self.generation = 1 if newest is None else newest.generation + (newest.step != self.step)
        if newest is not None and newest.step != self.step:
            # Nobody has their locks, but a process may live that has lost its own with the database's last crash. Its
            # numbers are of the old step: it must reserve no more of them.
            connection.execute(sa.update(NODES).where(NODES.c.node != self.node).values(epoch=NODES.c.epoch + 1))
        mine = rows.get(self.node)
        self.epoch = mine.epoch + 1 if mine else 1
        self._write_count = self._durable_count = mine.writes if mine else 0
        values = {"epoch": self.epoch, "generation": self.generation, "step": self.step}
        values["place"] = self._database.place()
        if mine:
            connection.execute(sa.update(NODES).where(NODES.c.node == self.node).values(**values))
        else:
            connection.execute(sa.insert(NODES).values(node=self.node, **values))

    def _check_place(self, rows: Mapping[int, Any]) -> None:
        """Check that the database is where it was, and has all that was written into it.

        Raises MovedError: it is a copy, or a backup.
        """
        if self.is_adopting:
            if place := self._database.place():
                connection = self._connection
                assert connection is not None, "a start is connected"
                connection.execute(sa.update(NODES).values(place=place))
            return
        for row in rows.values():
            if is_elsewhere(row.place, self._database.place()):
                raise MovedError("it is a copy, or was moved from another machine or file system")
        mine = rows.get(self.node)
        seen = self._database.writes_seen(self.node)
        if seen > (mine.writes if mine else 0):
            raise MovedError(f"it is older than what node {self.node} wrote last, as a restored backup is")

    def saved(self, *, even_of_running: bool = False) -> dict[Key, Mark]:
        """Return the marks of all counters above the numbers of all nodes. No node starts while they are read.

        Raises StartError: the database can't be read, has no counters of ours, or a node runs.
        """
        rows: dict[Key, list[Mark]] = {}
        with self._starting() as connection:
            if not sa.inspect(connection).has_table(COUNTERS.name):
                raise StorageError("it has no counters of ours")
            connection.commit()
            with connection.begin():
                nodes = connection.execute(sa.select(NODES.c.node)).scalars().all()
                for node in [] if even_of_running else nodes:
                    if self._is_running(connection, node):
                        raise LeaseLostError(f"storage: node {node} runs, and gives numbers: stop it first")
                for row in connection.execute(sa.select(COUNTERS)):
                    rows.setdefault(Key(row.rule, row.app), []).append(mark_of(row))
        self.close()
        return {key: goes_on_from(marks) for key, marks in rows.items()}

    def load(self, wanted: Mapping[Key, int]) -> dict[Key, Mark]:
        """Return the marks from which counters go on, without those that are new. Values: see `original.table`.

        Raises LeaseLostError: another process has the node now; StorageError: the database can't be asked.
        """
        # The node need not be held: a mark is used only after the next reservation, which holds it.
        found = self._run(lambda connection: self._find_marks(connection, wanted), is_held=False)
        return {key: goes_on_from(marks) for key, marks in found.items() if marks}

    def _find_marks(self, connection: sa.Connection, wanted: Mapping[Key, int]) -> dict[Key, list[Mark]]:
        """Return the marks above which counters go on."""
        all_rows: dict[Key, list[Any]] = {key: [] for key in wanted}
        for row in self._database.find(connection, COUNTERS, list(wanted)):
            all_rows[Key(row.rule, row.app)].append(row)
        marks = {key: self._marks(rows) for key, rows in all_rows.items()}
        if self.has_original:
            for key, found in table.marks(connection, wanted, self.step).items():
                marks[key] = table.newer(found, marks[key])
        return marks

    def _marks(self, rows: list[Any]) -> list[Mark]:
        """Return the marks of the rows of all nodes above which this one goes on."""
        rows.sort(key=lambda row: (row.cycle_s, row.reserved))
        own = [row for row in rows if row.node == self.node and row.generation == self.generation] or rows
        # Many counters have the same texts, which then take the memory of one.
        record = sys.intern(merged([row.texts for row in own], [row.texts for row in rows]))
        return [mark_of(row, record) for row in own]

    def reserve(self, wanted: Sequence[tuple[Key, Mark]]) -> None:
        """Make ranges durable, all or none; when this returns they are.

        Raises LeaseLostError: another process has the node now; nothing was written. Raises StorageError: the
        database failed; the marks may be written or not.
        """
        self._write(wanted, forward=True)

    def give_back(self, rests: Iterable[tuple[Key, Mark]]) -> None:
        """Write the marks of counters that hand out nothing more.

        Raises StorageError: as `reserve` does; the numbers are a gap then.
        """
        self._write(list(rests), forward=False)

    def beat(self) -> None:
        """Check that the node is still ours.

        Raises LeaseLostError: it is not; StorageError: the database can't be asked.
        """
        self._run(lambda _: None, is_held=False)

    def _write(self, marks: Sequence[tuple[Key, Mark]], *, forward: bool) -> None:
        def write(connection: sa.Connection) -> None:
            if forward:
                self._check_forward(connection, dict(marks))
            node, generation = self.node, self.generation
            rows = [  # the last column has kept its first name
                (node, *key, generation, mark.cycle_s, mark.reserved, mark.time_s, mark.kind, mark.fingerprints)
                for key, mark in marks
            ]
            self._database.write(connection, COUNTERS, rows)

        self._write_count += 1
        self._run(write if marks else lambda _: None)
        self._durable_count = self._write_count
        self._database.note_writes(self.node, self._durable_count)

    def _check_forward(self, connection: sa.Connection, marks: Mapping[Key, Mark]) -> None:
        """Assert that no counter would go back."""
        for row in self._database.find(connection, COUNTERS, list(marks), self.node):
            if row.generation == self.generation:
                key, old = Key(row.rule, row.app), mark_of(row)
                assert marks[key].may_follow(old), f"the counter {key} would go back from {old} to {marks[key]}"

    def _run(self, work: Callable[[sa.Connection], T], *, is_held: bool = True) -> T:
        """Do work in a transaction of the node's owner. `is_held`: no other process can take the node until the commit.

        It is done again if the connection was lost since the last one. That is harmless: the same marks are written.
        """
        is_new = self._connection is None
        try:
            try:
                return self._transact(work, is_held)
            except sa.exc.DBAPIError as error:
                if is_new or not error.connection_invalidated:
                    raise
                self._drop()
                return self._transact(work, is_held)
        except sa.exc.SQLAlchemyError as error:
            self._drop()
            raise StorageError(f"storage: {self._database.sentence(error)}") from error
        except LeaseLostError:
            raise
        except StorageError:
            self._drop()
            raise

    def _transact(self, work: Callable[[sa.Connection], T], is_held: bool) -> T:
        self._database.check(is_connected=self._connection is not None)
        connection = self._connection or self._connect()
        with connection.begin():
            # After a lost connection the database may believe for a while that it lives and has our lock. The lock only
            # refuses a start; what protects the numbers is the epoch.
            self._has_lock = self._has_lock or self._database.lock(connection, self.node)
            ours = (NODES.c.node == self.node) & (NODES.c.epoch == self.epoch)
            where = ours & (NODES.c.writes >= self._durable_count)
            if is_held:
                # This locks the row. For a transaction that only reads it changes nothing.
                writes = self._write_count
                count = connection.execute(sa.update(NODES).where(where).values(writes=writes)).rowcount
            else:
                count = len(connection.execute(sa.select(NODES.c.epoch).where(where)).all())
            if count != 1:
                raise self._refusal(connection.execute(sa.select(NODES.c.writes).where(ours)).scalar())
            done = work(connection)
        self._database.check(is_connected=True)  # what was committed into a file that is gone was not
        return done

    def _refusal(self, writes: int | None) -> StorageError:
        """Return why a transaction is refused; `writes`: what the node's row has, None if the row is not ours."""
        if writes is None:
            return LeaseLostError(f"storage: node {self.node} was taken over by another process")
        return StorageError(
            f"storage: the database has lost what it had committed ({writes} of {self._durable_count} writes of node "
            f"{self.node} are left), so numbers would repeat: let it have them again; a start could not know of them"
        )

    def _drop(self) -> None:
        """Drop a connection that failed; the next transaction opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Disconnect and release the lock of the node."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._database.close()


def mark_of(row: Any, fingerprints: str = "") -> Mark:  # noqa: ANN401 - a row of `COUNTERS`
    return Mark(row.cycle_s, row.reserved, row.time_s, sys.intern(row.kind), fingerprints)


def goes_on_from(marks: list[Mark]) -> Mark:
    """Return the mark above some marks."""
    latest = max(marks, key=lambda mark: (mark.cycle_s, mark.reserved))
    # Starts of two kinds of cycle can't be compared: then the numbers must be above those of all.
    of_one_kind = len({mark.kind for mark in marks}) == 1
    reserved = latest.reserved if of_one_kind else max(mark.reserved for mark in marks)
    return Mark(latest.cycle_s, reserved, max(mark.time_s for mark in marks), latest.kind, latest.fingerprints)
