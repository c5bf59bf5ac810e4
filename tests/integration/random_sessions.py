"""Several concurrent sessions that change a few tables at random.

The seed fixes what each session tries; how the sessions interleave, and what succeeds, is up to the server.
"""

import random
import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg

from tests.integration.databases import Database

SCHEMA: Final = """
CREATE TABLE keyed (id int PRIMARY KEY, n int, word text, big text);
CREATE TABLE whole (id int PRIMARY KEY, n int, word text, big text);
CREATE TABLE loose (id int, n int, word text, big text);
CREATE TABLE coded (id int, n int, word text NOT NULL UNIQUE, big text);
ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE loose REPLICA IDENTITY FULL;
ALTER TABLE coded REPLICA IDENTITY USING INDEX coded_word_key;
ALTER TABLE keyed ALTER big SET STORAGE EXTERNAL;
ALTER TABLE whole ALTER big SET STORAGE EXTERNAL;
ALTER TABLE loose ALTER big SET STORAGE EXTERNAL;
ALTER TABLE coded ALTER big SET STORAGE EXTERNAL;
"""

# The columns of each table's key.
TABLES: Final[dict[str, tuple[str, ...]]] = {
    "keyed": ("id",),
    "whole": ("id",),
    "loose": (),
    "coded": ("word",),
}

_WORDS: Final = [
    "",
    "plain",
    "it's",
    'say "so"',
    "back\\slash",
    "two\nlines",
    "naïve",
    "日本語",
    "🐘",
    "{a,b}",
]
_IDS: Final = 60
_LARGE: Final = 500  # rows; more than fit into logical_decoding_work_mem: 64kB

Connection = psycopg.Connection[Any]


def run_sessions(
    database: Database, seed: int, *, sessions: int, transactions: int, halfway: Callable[[], None]
) -> None:
    """Run the sessions to their end; call `halfway` when about half of the transactions are done."""
    half_done = threading.Semaphore(0)
    threads = [
        threading.Thread(
            target=_run_session,
            args=(database, random.Random(f"{seed}-{number}"), number, transactions, half_done.release),
        )
        for number in range(sessions)
    ]
    for thread in threads:
        thread.start()
    for _ in range(sessions // 2):
        half_done.acquire()
    halfway()
    for thread in threads:
        thread.join()


def _run_session(
    database: Database, rng: random.Random, number: int, transactions: int, half_done: Callable[[], object]
) -> None:
    try:
        with database.connect() as connection:
            connection.prepare_threshold = None
            connection.execute("SET lock_timeout = '200ms'; SET deadlock_timeout = '50ms'")
            session = _Session(connection, rng, f"{database.name}-{number}")
            for count in range(transactions):
                session.transaction()
                if count == transactions // 2:
                    half_done()
            session.finish_prepared()
    finally:
        half_done()


class _Session:
    def __init__(self, connection: Connection, rng: random.Random, name: str) -> None:
        self._connection = connection
        self._rng = rng
        self._name = name
        self._prepared: str | None = None
        self._extra = 0
        self._savepoints = 0
        # At most once per transaction: PostgreSQL's streaming fails on a table that is altered, rolled back
        # to a savepoint, and altered again (`pgrelay.postgres.errors`); TRUNCATE counts as altering.
        self._may_alter = True

    def transaction(self) -> None:
        """Run one transaction; any error of the server rolls all of it back."""
        self._may_alter, self._savepoints = True, 0
        try:
            self._run("BEGIN")
            for _ in range(self._rng.randint(1, 8)):
                self._statement()
            self._end()
        except psycopg.errors.Error:
            self._run("ROLLBACK")
        if self._prepared is not None and self._rng.random() < 0.5:
            self.finish_prepared()

    def finish_prepared(self) -> None:
        if self._prepared is not None:
            how = self._rng.choice(["COMMIT", "COMMIT", "ROLLBACK"])
            self._run(f"{how} PREPARED '{self._prepared}'")
            self._prepared = None

    def _end(self) -> None:
        choice = self._rng.random()
        if choice < 0.15:
            self._run("ROLLBACK")
        elif choice < 0.3 and self._prepared is None:
            name = f"{self._name}-{self._rng.getrandbits(32)}"
            self._run(f"PREPARE TRANSACTION '{name}'")
            self._prepared = name
        else:
            self._run("COMMIT")

    def _statement(self) -> None:
        table = self._rng.choice(list(TABLES))
        weighted: list[tuple[Callable[[str], None], int]] = [
            (self._insert, 8),
            (self._insert_many, 2),
            (self._update, 8),
            (self._update_key, 4),
            (self._delete, 4),
            (self._message, 2),
            (self._savepoint, 6),
            (self._alter, 1),
            (self._truncate, 1),
        ]
        actions, weights = zip(*weighted, strict=True)
        self._rng.choices(actions, weights)[0](table)

    def _insert(self, table: str) -> None:
        self._run(
            f"INSERT INTO {table} (id, n, word, big) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            *(self._id(), self._id(), self._word(table), self._big()),
        )

    def _insert_many(self, table: str) -> None:
        first = self._rng.randrange(1000, 100_000)
        self._run(
            f"INSERT INTO {table} (id, n, word) SELECT g, g, 'many ' || g FROM generate_series(%s::int, %s) g"
            " ON CONFLICT DO NOTHING",
            *(first, first + _LARGE),
        )

    def _update(self, table: str) -> None:
        column, value = self._rng.choice(
            [("n", self._id()), ("big", self._big()), (self._extra_of(table), "x")]
        )
        self._run(f"UPDATE {table} SET {column} = %s WHERE {self._some()}", value)

    def _update_key(self, table: str) -> None:
        column, value = ("word", self._word(table)) if table == "coded" else ("id", self._id())
        self._run(f"UPDATE {table} SET {column} = %s WHERE id = %s", value, self._id())

    def _delete(self, table: str) -> None:
        self._run(f"DELETE FROM {table} WHERE {self._some()}")

    def _message(self, _table: str) -> None:
        # Not inside savepoints, which may be rolled back: a streamed message does not say which one it is of
        # (docs/guarantees.md).
        if not self._savepoints:
            self._run("SELECT pg_logical_emit_message(true, 'session', %s)", self._word("keyed"))

    def _savepoint(self, table: str) -> None:
        if self._savepoints and self._rng.random() < 0.7:
            how = self._rng.choice(["RELEASE", "ROLLBACK TO"])
            self._run(f"{how} s{self._savepoints}")
            self._savepoints -= how == "RELEASE"
        else:
            self._savepoints += 1
            self._run(f"SAVEPOINT s{self._savepoints}")
            if self._rng.random() < 0.4:
                self._insert_many(table)

    def _alter(self, table: str) -> None:
        if not self._may_alter:
            return
        self._may_alter = False
        self._extra += 1
        new = f"extra_{self._name.rsplit('-', 1)[1]}_{self._extra}"
        action = self._rng.choice(
            [
                f"ADD {new} text",
                f"DROP {self._extra_of(table)}",
                f"ALTER n TYPE {self._rng.choice(['int', 'bigint'])}",
            ]
        )
        if action != "DROP n":
            self._run(f"ALTER TABLE {table} {action}")

    def _truncate(self, table: str) -> None:
        if not self._may_alter or self._rng.random() < 0.5:
            return
        self._may_alter = False
        both = ", ".join({table, self._rng.choice(list(TABLES))})
        self._run(f"TRUNCATE {both} {self._rng.choice(['', 'RESTART IDENTITY', 'CASCADE'])}")

    def _extra_of(self, table: str) -> str:
        """A column that some session has added, or n."""
        query = (
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attname LIKE 'extra%%'"
            " AND NOT attisdropped ORDER BY attnum"
        )
        found = [name for (name,) in self._connection.execute(query, [table])]
        return self._rng.choice(found) if found else "n"

    def _id(self) -> int:
        return self._rng.randrange(_IDS)

    def _some(self) -> str:
        """A condition on rows: one, several, or many."""
        first = self._id()
        return self._rng.choice(
            [f"id = {first}", f"id BETWEEN {first} AND {first + 3}", f"id > 1000 AND id % 97 = {first}"]
        )

    def _word(self, table: str) -> str:
        word = self._rng.choice(_WORDS)
        return f"{word} {self._id()}" if table == "coded" else word

    def _big(self) -> str | None:
        """A value that is null, stored inline, or stored out of line."""
        return self._rng.choice([None, "small", self._rng.choice("abc") * 3000])

    def _run(self, statement: str, *parameters: object) -> None:
        self._connection.execute(statement.encode(), parameters or None)
