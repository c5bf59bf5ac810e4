"""Does memory stay flat for weeks? `python -m bench.soak`: what may pile up while a relay runs.

Each kind of churn has a relay of its own, whose RSS is read from outside after each round, once it has
confirmed everything. A change writes one row, with a key of its own; every key is looked for afterwards.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.contenders import relay
from bench.drain import Void, streaming, wait_confirmed
from bench.procfs import memory_mb
from bench.stage import PUBLICATION, Connection, Stage, flushing, loaded, servers
from bench.topics import Topics
from bench.workloads import ORDER, ORDER_COLUMNS, Workload

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


def _round(
    churn: Churn, numbers: range, connection: Connection, slot: str, process: subprocess.Popen[bytes]
) -> float:
    """Make the changes and wait until all are confirmed; returns the RSS then, in MB. Raises Void."""
    # So that the slot's restart_lsn moves on, which prepared transactions are kept for.
    connection.execute("CHECKPOINT")
    for number in numbers:
        for statement in churn.change(number):
            connection.execute(statement.encode())
        if churn.alone:
            wait_confirmed(connection, slot, process)
    wait_confirmed(connection, slot, process)
    return memory_mb(process.pid, "VmRSS")


def soak(stage: Stage, churn: Churn, rounds: int, changes: int) -> bool:
    """Print one line of figures; returns whether every change was delivered."""
    contender = relay("compiled", "soak", {"source": churn.source})
    a_round = max(1, round(changes * churn.share))
    numbers = range(1, rounds * a_round + 1)
    tables = tuple({churn.table(number) for number in numbers})
    workload = Workload(churn.name, churn.what, 1, "NULL;", churn.setup, tables=tables)
    print(f"{churn.name:<11}", end="", flush=True)
    with ExitStack() as stack:
        load = stack.enter_context(loaded(stage, workload))
        topics = stack.enter_context(Topics(stage.bootstrap, contender.prefix, workload.tables))
        topics.mark()
        connection = stack.enter_context(flushing(load.dsn))
        connection.execute(f"ALTER PUBLICATION {PUBLICATION} SET (publish_via_partition_root)".encode())
        try:
            process = stack.enter_context(streaming(stage, load, contender))
            rss: list[float] = []
            for first in range(0, len(numbers), a_round):
                now = numbers[first : first + a_round]
                rss.append(_round(churn, now, connection, contender.prefix, process))
                print(f"{rss[-1]:>7.1f}", end="", flush=True)
        except Void as reason:
            print(f" VOID: {reason}")
            return False
        half = (rounds - 1) // 2
        each = (rss[-1] - rss[half]) / (len(numbers) * (1 - (half + 1) / rounds)) * 1e3 if rounds > 1 else 0.0
        print(f" MB {each:>6.1f} kB each  {len(numbers):>6,} x {churn.what}")
        records, keys = topics.read()
    if keys != len(numbers):
        print(f"VOID: {records:,} records under {keys:,} keys, not {len(numbers):,}")
    return keys == len(numbers)


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
