"""Several sessions that write concurrently, and continue through failures of the server.

All sessions share the rows of `counter`: each update adds 1 to `n`, so a row's history in commit order is 1,
2, 3 and so on without a gap. Each session has its own rows of `entry`: it changes a few at a time, or
so many that the transaction is streamed. Some savepoints and transactions are rolled back. With `two_phase`
some are prepared first; if that connection is lost, the session ends them over a new one.
"""

import math
import random
import threading
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.integration.databases import Database
from tests.integration.waiting import wait_until

TABLES = ("counter", "entry")

_SCHEMA = """
CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE entry (session int, number int, body text NOT NULL, PRIMARY KEY (session, number));
"""
_INSERT = """
INSERT INTO entry SELECT %(session)s, i, repeat(md5(i::text), 10)
FROM generate_series(%(first)s::int, %(last)s) i
"""
_COUNTERS = 10
_LARGE = (400, 400, 400, 4000)  # rows of 350 bytes: streamed, the last more than memory_mb: 1 holds
_PAUSE = 0.005  # seconds between transactions, so that the relay can keep up

Connection = psycopg.Connection[Any]


def prepare(database: Database) -> None:
    """Create the tables, and make the server stream what exceeds the smallest logical_decoding_work_mem."""
    database.execute(_SCHEMA)
    database.execute(f"ALTER DATABASE \"{database.name}\" SET logical_decoding_work_mem = '64kB'")


class Workload:
    """Writes while its block lasts. `prepare` the database first.

    `ahead`: how many transactions a session may end beyond those that were waited for. Without it, the longer
    a fault takes, the more there is to relay and to check.
    """

    def __init__(
        self, database: Database, sessions: int = 3, *, two_phase: bool = False, ahead: float = math.inf
    ) -> None:
        self._database = database
        self._ahead = ahead
        self._stopping = threading.Event()
        self._sessions = [_Session(database, number, self._stopping, two_phase) for number in range(sessions)]
        self._permit(0)

    def __enter__(self) -> Self:
        self._database.execute(f"INSERT INTO counter SELECT i, 0 FROM generate_series(1, {_COUNTERS}) i")
        for session in self._sessions:
            session.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for session in self._sessions:
            session.join()

    @property
    def ended(self) -> int:
        """How many transactions have ended, including those rolled back."""
        return sum(session.ended for session in self._sessions)

    def wait_for(self, transactions: int) -> None:
        """Wait until this many more have ended."""
        target = self.ended + transactions
        self._permit(transactions)
        wait_until(lambda: self.ended >= target, f"{transactions} transactions", 60)

    def _permit(self, transactions: int) -> None:
        for session in self._sessions:
            session.last_permitted = session.ended + transactions + self._ahead


class _Session(threading.Thread):
    def __init__(self, database: Database, number: int, stopping: threading.Event, two_phase: bool) -> None:
        super().__init__(name=f"session {number}")
        self.ended = 0
        self.last_permitted = math.inf
        self._weights = (65, 20, 3, 2, 10) if two_phase else (75, 20, 3, 2, 0)
        # Names of prepared transactions are unique in the whole cluster.
        self._gid = f"{database.name} {number}"
        self._database = database
        self._number = number
        self._stopping = stopping
        self._last = 0
        self._random = random.Random(number)

    def run(self) -> None:
        finished = False
        while not finished:
            try:
                with self._database.connect() as connection:
                    self._end_prepared(connection)
                    self._write(connection)
                finished = True
            except psycopg.OperationalError:
                self._stopping.wait(_PAUSE)  # the server is down, or was: connect again

    def _write(self, connection: Connection) -> None:
        kinds = (self._small, self._savepoint, self._large, self._rolled_back)
        while not self._stopping.wait(_PAUSE):
            if self.ended >= self.last_permitted:
                continue
            [kind] = self._random.choices((*kinds, self._prepared), self._weights)
            if kind == self._prepared:
                self._prepared(connection)
            else:
                with connection.transaction():
                    kind(connection)
            self.ended += 1

    def _prepared(self, connection: Connection) -> None:
        connection.execute("BEGIN")
        self._random.choice((self._small, self._savepoint, self._large))(connection)
        connection.execute(f"PREPARE TRANSACTION '{self._gid}'".encode())
        self._stopping.wait(self._random.choice((0, 0.05)))
        self._end_prepared(connection)

    def _end_prepared(self, connection: Connection) -> None:
        """Commit or roll back what this session has prepared, if anything."""
        found = connection.execute("SELECT FROM pg_prepared_xacts WHERE gid = %s", [self._gid])
        if found.fetchone() is not None:
            end = self._random.choice(("COMMIT", "COMMIT", "ROLLBACK"))
            connection.execute(f"{end} PREPARED '{self._gid}'".encode())

    def _small(self, connection: Connection) -> None:
        self._insert(connection, 2)
        self._change(connection)
        self._count(connection)

    def _savepoint(self, connection: Connection) -> None:
        self._insert(connection, 1)
        with connection.transaction(force_rollback=True):
            self._insert(connection, 2)
            self._count(connection)
        with connection.transaction():
            self._insert(connection, 1)
        self._count(connection)

    def _large(self, connection: Connection) -> None:
        self._insert(connection, self._random.choice(_LARGE))
        with connection.transaction(force_rollback=True):
            self._insert(connection, 400)
        with connection.transaction():
            self._change(connection)
        self._count(connection)

    def _rolled_back(self, connection: Connection) -> None:
        with connection.transaction(force_rollback=True):
            self._large(connection)

    def _insert(self, connection: Connection, rows: int) -> None:
        first = self._last + 1
        self._last += rows
        connection.execute(_INSERT, {"session": self._number, "first": first, "last": self._last})

    def _change(self, connection: Connection) -> None:
        """Update a few rows and delete one, if they still exist."""
        some = self._random.randrange(self._last) + 1
        connection.execute(
            "UPDATE entry SET body = body || '+' WHERE session = %s AND number BETWEEN %s AND %s",
            [self._number, some - 2, some],
        )
        connection.execute(
            "DELETE FROM entry WHERE session = %s AND number = %s",
            [self._number, self._random.randrange(self._last) + 1],
        )

    def _count(self, connection: Connection) -> None:
        """Update counters in the order of ids, so that sessions can't deadlock."""
        for counter in sorted(self._random.sample(range(1, _COUNTERS + 1), 2)):
            connection.execute("UPDATE counter SET n = n + 1 WHERE id = %s", [counter])
