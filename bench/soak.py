"""Does memory stay flat for weeks? `python -m bench.soak`: what may pile up while a relay runs.

Each kind of churn has a relay of its own, whose RSS is read from outside after each round, once it has
confirmed everything. A change writes one row, with a key of its own; every key is looked for afterwards.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.contenders import relay
from bench.drain import Void, streaming
from bench.procfs import memory_mb
from bench.stage import PUBLICATION, Connection, Stage, loaded, servers
from bench.topics import Topics
from bench.workloads import ORDER, ORDER_COLUMNS, Workload

_TIMEOUT_S = 120.0
_ORDERS: Final = f"CREATE TABLE orders ({ORDER_COLUMNS})"
_CUT: Final = "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE active"


@dataclass(frozen=True, slots=True)
class Churn:
    """`change` gives the statements of a change by its number, from 1, and `table` where its row is.

    `share`: of the usual number of changes. `alone`: each is confirmed before the next. `source` is that
    section of the configuration.
    """

    name: str
    what: str
    change: Callable[[int], Sequence[str]]
    setup: str = _ORDERS
    table: Callable[[int], str] = lambda n: "orders"
    share: float = 1.0
    alone: bool = False
    source: Mapping[str, Any] = field(default_factory=dict)


def _row(table: str, key: int) -> str:
    return f"INSERT INTO {table} SELECT {ORDER} FROM generate_series({key}, {key}) AS i"


CHURNS: Final = (
    Churn("rows", "one-row transactions, for comparison", lambda n: [_row("orders", n)]),
    Churn(
        "tables",
        "a table is created, filled and dropped, under the same name",
        lambda n: [f"CREATE TABLE staging ({ORDER_COLUMNS})", _row("staging", n), "DROP TABLE staging"],
        table=lambda n: "staging",
    ),
    Churn(
        "names",
        "a table is created, filled and dropped, under a name that was never there",
        lambda n: [f"CREATE TABLE job{n} ({ORDER_COLUMNS})", _row(f"job{n}", n), f"DROP TABLE job{n}"],
        table=lambda n: f"job{n}",
        share=0.2,
    ),
    Churn(
        "partitions",
        "a partition is created, published as its root, and dropped",
        lambda n: [
            f"CREATE TABLE part{n} PARTITION OF orders FOR VALUES FROM ({n}) TO ({n + 1})",
            _row("orders", n),
            f"DROP TABLE part{n}",
        ],
        f"{_ORDERS} PARTITION BY RANGE (id)",
    ),
    Churn(
        "renames",
        "a table takes the next of five names",
        lambda n: [f"ALTER TABLE t{(n - 1) % 5} RENAME TO t{n % 5}", _row(f"t{n % 5}", n)],
        f"CREATE TABLE t0 ({ORDER_COLUMNS})",
        table=lambda n: f"t{n % 5}",
    ),
    Churn(
        "columns",
        "a column takes a name that was never there",
        lambda n: [f"ALTER TABLE orders RENAME note{n - 1} TO note{n}", _row("orders", n)],
        f"{_ORDERS}; ALTER TABLE orders RENAME note TO note0",
    ),
    Churn(
        "types",
        "an enum is created, with a table, and both are dropped",
        lambda n: [
            f"CREATE TYPE mood{n} AS ENUM ('fine')",
            f"CREATE TABLE staging (id bigint PRIMARY KEY, mood mood{n})",
            f"INSERT INTO staging VALUES ({n}, 'fine')",
            "DROP TABLE staging",
            f"DROP TYPE mood{n}",
        ],
        table=lambda n: "staging",
    ),
    Churn(
        "prepared",
        "a transaction is prepared, then committed",
        lambda n: ["BEGIN", _row("orders", n), f"PREPARE TRANSACTION 'p{n}'", f"COMMIT PREPARED 'p{n}'"],
        source={"two_phase": True},
    ),
    Churn(
        "savepoints",
        "a row is rolled back and written again",
        lambda n: ["BEGIN", "SAVEPOINT s", _row("orders", n), "ROLLBACK TO s", _row("orders", n), "COMMIT"],
    ),
    Churn(
        "messages",
        "a logical message",
        lambda n: [f"SELECT pg_logical_emit_message(true, 'soak', 'number {n}')", _row("orders", n)],
    ),
    Churn(
        "cuts",
        "the connection to Postgres is cut, then there is a row",
        lambda n: [_CUT, _row("orders", n)],
        share=0.1,
        alone=True,
    ),
)


class Soak:
    """One relay under one kind of churn."""

    def __init__(self, churn: Churn, connection: Connection, slot: str, process: subprocess.Popen[bytes]):
        self.done = 0
        self._churn = churn
        self._connection = connection
        self._slot = slot
        self._process = process

    def round(self, changes: int) -> float:
        """Make the changes and wait until all are confirmed; returns the RSS then, in MB. Raises Void."""
        # So that the slot's restart_lsn moves on, which prepared transactions are kept for.
        self._connection.execute("CHECKPOINT")
        for _ in range(changes):
            self.done += 1
            for statement in self._churn.change(self.done):
                self._connection.execute(statement.encode())
            if self._churn.alone:
                self._wait_confirmed()
        self._wait_confirmed()
        return memory_mb(self._process.pid, "VmRSS")

    def _wait_confirmed(self) -> None:
        end = self._connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert end is not None
        query = (
            "SELECT active AND confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots "
            "WHERE slot_name = %s"
        )
        deadline = time.monotonic() + _TIMEOUT_S
        while self._connection.execute(query, [*end, self._slot]).fetchone() != (True,):
            if self._process.poll() is not None:
                raise Void(f"the relay ended with exit code {self._process.returncode}")
            if time.monotonic() > deadline:
                raise Void(f"{end[0]} was not confirmed within {_TIMEOUT_S:g} s")
            time.sleep(0.02)


def soak(stage: Stage, churn: Churn, rounds: int, changes: int) -> bool:
    """Print one line of figures; returns whether every change was delivered."""
    contender = relay("compiled", "soak", {"source": churn.source})
    a_round = max(1, round(changes * churn.share))
    tables = tuple({churn.table(number + 1) for number in range(rounds * a_round)})
    workload = Workload(churn.name, churn.what, 1, "NULL;", churn.setup, tables=tables)
    print(f"{churn.name:<11}", end="", flush=True)
    with ExitStack() as stack:
        load = stack.enter_context(loaded(stage, workload))
        topics = stack.enter_context(Topics(stage.bootstrap, contender.prefix, workload.tables))
        topics.mark()
        connection = stack.enter_context(psycopg.connect(load.dsn, autocommit=True))
        connection.execute(f"ALTER PUBLICATION {PUBLICATION} SET (publish_via_partition_root)".encode())
        # The stage's servers commit asynchronously, and a walsender only sends flushed WAL.
        connection.execute("SET synchronous_commit = on")
        try:
            process = stack.enter_context(streaming(stage, load, contender))
            done = Soak(churn, connection, contender.prefix, process)
            rss: list[float] = []
            for _ in range(rounds):
                rss.append(done.round(a_round))
                print(f"{rss[-1]:>7.1f}", end="", flush=True)
        except Void as reason:
            print(f" VOID: {reason}")
            return False
        half = (rounds - 1) // 2
        each = (rss[-1] - rss[half]) / (done.done * (1 - (half + 1) / rounds)) * 1e3 if rounds > 1 else 0.0
        print(f" MB {each:>6.1f} kB each  {done.done:>6,} x {churn.what}")
        records, keys = topics.read()
    if keys != done.done:
        print(f"VOID: {records:,} records under {keys:,} keys, not {done.done:,}")
    return keys == done.done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--changes", type=int, default=400, help="in a round (%(default)s)")
    kinds = [churn.name for churn in CHURNS]
    parser.add_argument(
        "--only", nargs="+", choices=kinds, default=kinds, metavar="KIND", help=", ".join(kinds)
    )
    options = parser.parse_args()
    complete = True
    print("RSS of the relay after each round; what each change cost in the second half")
    with tempfile.TemporaryDirectory(prefix="pgrelay-bench-") as folder, servers(Path(folder)) as stage:
        for churn in CHURNS:
            if churn.name in options.only:
                complete = soak(stage, churn, options.rounds, options.changes) and complete
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
