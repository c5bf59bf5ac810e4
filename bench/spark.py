"""`python -m bench.spark`: the Spark side compared with references, all in one run and one session.

Reading: typed changes from JSON and from Avro, compared with the raw values of the same rows, in one task and
in as many as ours, and with Spark's JSON parser for a single field and for all of them. Writing: the first
load, 100,000 changes all over it and 100,000 of its last rows, by `apply_changes`, compared with a MERGE
written by hand, in our session and with the default settings of Spark and Delta. The records are a relay's;
the clock runs from Kafka to the end of the write; a read writes nowhere (Spark's `noop`).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.procfs import memory_mb, spark_java
from pgrelay import spark as pg
from pgrelay.embedded.kafka import Kafka
from pgrelay.embedded.postgres import Postgres
from pgrelay.embedded.registry import SchemaRegistry
from pgrelay.spark.kafka import read_topics

_PLAIN = "plain MERGE"

_COLUMNS = """
    id bigint PRIMARY KEY, customer_id bigint NOT NULL, status text NOT NULL, total numeric(12,2) NOT NULL,
    currency char(3) NOT NULL, quantity integer NOT NULL, discount double precision, express boolean NOT NULL,
    note text, placed_at timestamptz NOT NULL, due date NOT NULL
"""

_ROW = """
    i, i * 7919 % 100000, 'placed', i % 90000 / 100.0, 'EUR', i % 9, i / 3.0, i % 7 = 0,
    'note of order ' || i, timestamptz '2026-01-01' + i * interval '1 second',
    date '2026-01-01' + (i % 365)::int
"""

_SPARK = {
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}

# Defaults of Spark and Delta that our session overrides.
_STOCK = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.databricks.delta.snapshotPartitions": "50",
}

# The fields that the reader's own parser extracts from such records: see json_records.
_TEXTS = """
    before map<string, string>, after map<string, string>, op string,
    source struct<commit_lsn: bigint, seq: bigint, txId: bigint, ts_us: bigint>
"""

_TIMEOUT_S = 900.0


def main() -> None:
    options = _options()
    began = time.monotonic()
    print(f"load average at the start {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors")
    with (
        tempfile.TemporaryDirectory(prefix="pgrelay-bench-") as name,
        Postgres(settings={"wal_level": "logical", "max_wal_size": "8GB"}) as postgres,
        Kafka() as kafka,
        SchemaRegistry() as registry,
    ):
        bench = _Bench(Path(name), postgres.create_database("bench"), kafka.bootstrap, registry.url)
        bench.fill(options.rows, options.sample, options.changes, options.rounds)
        spark = pg.session(f"{name}/lake", "local[2]", options=_SPARK)
        try:
            _reads(bench, spark, options.sample, options.rounds)
            for using in filter(None, options.using.split(",")):
                _writes(bench, spark, options, using)
            # One process is both driver and executor here.
            peak, heap = memory_mb(spark_java(), "VmHWM"), _SPARK["spark.driver.memory"]
            print(f"\nSpark's peak memory {peak:,.0f} MB, its heap at most {heap}")
        finally:
            spark.stop()
    print(f"load average at the end {os.getloadavg()[0]:.1f}; {time.monotonic() - began:.0f} s in all")


class _Bench:
    """Two tables and their topics: `sample` in JSON and in Avro, `orders` in JSON."""

    def __init__(self, folder: Path, dsn: str, servers: str, registry: str) -> None:
        self.servers = servers
        self.registry = registry
        self.marks: list[int] = []  # offsets of orders: after the load, after each round of either changes
        self._folder = folder
        self._dsn = dsn

    def fill(self, rows: int, sample: int, changes: int, rounds: int) -> None:
        """Write all rows, and let a relay deliver them."""
        avro = {"format": "avro", "schema_registry": {"url": self.registry}}
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE orders ({_COLUMNS}); CREATE TABLE sample ({_COLUMNS})".encode())
            with (
                self._relay(connection, "json", ["public.*"], {}),
                self._relay(connection, "avro", ["public.sample"], avro),
            ):
                _insert(connection, "sample", 1, sample)
                _insert(connection, "orders", 1, rows)
                self.marks.append(rows)
                for number in range(rounds):
                    self.marks.append(self.marks[-1] + _change(connection, rows, changes, number))
                for _ in range(rounds):
                    self.marks.append(self.marks[-1] + _change_last(connection, changes))
                self._wait(connection)

    @contextmanager
    def _relay(
        self, connection: psycopg.Connection[Any], name: str, tables: list[str], records: dict[str, Any]
    ) -> Iterator[None]:
        config = self._folder / f"{name}.yaml"
        sections = {
            "source": {"dsn": self._dsn, "slot": name, "publications": [name], "tables": tables},
            "sink": {"kafka": {"bootstrap.servers": self.servers}},
            "records": {"prefix": name, "tombstones": False, **records},
            "transactions": {"spool_dir": str(self._folder / f"{name}-spool")},
            "http": {"listen": None},
        }
        config.write_text(yaml.safe_dump(sections))
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "pgrelay", "run", "--config", str(config)]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        active = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
        try:
            _until(lambda: connection.execute(active, [name]).fetchone() is not None, process)
            yield
        finally:
            process.terminate()
            process.wait()

    def _wait(self, connection: psycopg.Connection[Any]) -> None:
        behind = "SELECT 1 FROM pg_replication_slots WHERE confirmed_flush_lsn < %s::pg_lsn"
        end = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        _until(lambda: connection.execute(behind, end).fetchone() is None)


def _until(condition: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline or (process is not None and process.poll() is not None):
            raise SystemExit("the relay did not come so far; see its log")
        time.sleep(0.1)


def _insert(connection: psycopg.Connection[Any], table: str, first: int, last: int) -> None:
    rows = f"SELECT {_ROW} FROM generate_series({first}::bigint, {last}) i"
    connection.execute(f"INSERT INTO {table} {rows}".encode())


def _change(connection: psycopg.Connection[Any], rows: int, changes: int, number: int) -> int:
    """Nine in ten changes update rows all over the table, the others delete and insert. Return the count."""
    step = max(1, rows // changes)
    every = f"id <= {rows} AND (id + {number}) % {step} = 0"
    update = f"UPDATE orders SET status = 'paid' WHERE {every} AND id % {step * 10} >= {step}"
    delete = f"DELETE FROM orders WHERE {every} AND id % {step * 20} < {step}"
    updated, deleted = (connection.execute(statement.encode()).rowcount for statement in (update, delete))
    left = changes - updated - deleted
    first = rows + 1 + number * changes
    _insert(connection, "orders", first, first + left - 1)
    return changes


def _change_last(connection: psycopg.Connection[Any], changes: int) -> int:
    """Nine in ten changes update the table's last rows, the others insert. Return the count."""
    [last] = connection.execute("SELECT max(id) FROM orders").fetchone() or [0]
    update = f"UPDATE orders SET status = 'sent' WHERE id > {last - changes * 9 // 10}"
    updated = connection.execute(update.encode()).rowcount
    _insert(connection, "orders", last + 1, last + changes - updated)
    return changes


def _reads(bench: _Bench, spark: SparkSession, sample: int, rounds: int) -> None:
    """Each way of reading in turn, once to warm up and then `rounds` times."""
    schema = pg.table_schemas(spark, bench.servers, "json")["json.public.sample"]
    avro = pg.table_schemas(spark, bench.servers, "avro")["avro.public.sample"]
    ways: dict[str, Callable[[], DataFrame]] = {
        "raw bytes": lambda: _raw(spark, bench.servers, "json.public.sample"),
        "raw, split": lambda: _text(read_topics(spark, bench.servers, "json.public.sample")),
        "JSON, op alone": lambda: _parsed(bench, spark, "op string"),
        "JSON, texts alone": lambda: _parsed(bench, spark, _TEXTS),
        "JSON, typed": lambda: pg.read_changes(spark, bench.servers, schema.topic, schema=schema),
        "Avro, typed": lambda: pg.read_changes(
            spark, bench.servers, avro.topic, schema=avro, registry=bench.registry
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, frame in ways.items():
            taken = _timed(lambda frame=frame: frame().write.format("noop").mode("overwrite").save())  # type: ignore[misc]
            if number:
                seconds[name].append(taken)
    print(f"\nreading {sample:,} records of 11 columns")
    _print(seconds, sample, "raw bytes")


def _raw(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    return _text(reader.load())


def _text(records: DataFrame) -> DataFrame:
    return records.select(F.col("value").cast("string"))


def _parsed(bench: _Bench, spark: SparkSession, fields: str) -> DataFrame:
    """The records as Spark's own parser parses them."""
    records = read_topics(spark, bench.servers, "json.public.sample")
    return records.select(F.from_json(F.col("value").cast("string"), fields).alias("envelope"))


def _writes(bench: _Bench, spark: SparkSession, options: argparse.Namespace, using: Any) -> None:
    """Write the same batches to a table of each way."""
    schema = pg.table_schemas(spark, bench.servers, "json")["json.public.orders"]

    def batch(start: int, stop: int) -> DataFrame:
        where = {"startingOffsets": f'{{"{schema.topic}":{{"0":{start}}}}}'}
        where["endingOffsets"] = f'{{"{schema.topic}":{{"0":{stop}}}}}'
        return pg.read_changes(spark, bench.servers, schema.topic, schema=schema, options=where)

    namespace = "iceberg.bench" if using == "iceberg" else "bench"
    plain, stock, ours = (f"{namespace}.{name}" for name in ("plain", "stock", "ours"))
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.row_type)
    for table in (plain, stock):
        spark.sql(f"CREATE TABLE {table} ({columns}, __commit_lsn bigint, __seq bigint) USING {using}")

    def merge_as_it_comes(changes: DataFrame) -> None:
        with _settings(spark, _STOCK):
            _plain_merge(spark, changes, stock)

    ways: dict[str, Callable[[DataFrame], None]] = {
        _PLAIN: lambda changes: _plain_merge(spark, changes, plain),
        "the same, stock settings": merge_as_it_comes,
        "apply_changes": lambda changes: pg.apply_changes(changes, "bench.ours", schema=schema, using=using),
    }
    loaded = batch(0, bench.marks[0])
    print(f"\n{using}: first load of {bench.marks[0]:,} rows")
    _print({name: [_timed(lambda: way(loaded))] for name, way in ways.items()}, bench.marks[0], _PLAIN)  # noqa: B023
    starts = range(len(bench.marks) - 1)
    for where, numbers in (
        ("all over", starts[: options.rounds]),
        ("of the last rows of", starts[options.rounds :]),
    ):
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in numbers:
            changes = batch(bench.marks[number], bench.marks[number + 1])
            for name, way in ways.items():
                seconds[name].append(_timed(lambda: way(changes)))  # noqa: B023
        print(f"\n{using}: {options.changes:,} changes {where} {bench.marks[0]:,} rows")
        _print(seconds, options.changes, _PLAIN)
    rows = [spark.table(table) for table in (ours, plain, stock)]
    same = len({each.count() for each in rows}) == 1 and all(
        rows[0].exceptAll(each).isEmpty() for each in rows[1:]
    )
    print("the tables are equal" if same else "VOID: THE TABLES DIFFER")


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Other settings in the session, for the block."""
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def _plain_merge(spark: SparkSession, changes: DataFrame, target: str) -> None:
    """The usual hand-written form: the last change of each key, and one MERGE."""
    row = F.struct("commit_lsn", "seq", "op", "after")
    last = changes.groupBy("key.id").agg(F.max_by(row, F.struct("commit_lsn", "seq")).alias("last"))
    names = [name for name in changes.schema["after"].dataType.names if name != "id"]  # type: ignore[attr-defined]
    rows = last.select(
        "id",
        *(F.col(f"last.after.{name}").alias(name) for name in names),
        F.col("last.commit_lsn").alias("__commit_lsn"),
        F.col("last.seq").alias("__seq"),
        (F.col("last.op") == "d").alias("__deleted"),
    )
    rows.createOrReplaceTempView("plain_changes")
    written = [*names, "__commit_lsn", "__seq"]
    newer = "(s.__commit_lsn > t.__commit_lsn OR s.__commit_lsn = t.__commit_lsn AND s.__seq > t.__seq)"
    spark.sql(
        f"MERGE INTO {target} t USING plain_changes s ON t.id = s.id"
        f" WHEN MATCHED AND {newer} AND s.__deleted THEN DELETE"
        f" WHEN MATCHED AND {newer} THEN UPDATE SET {', '.join(f't.{n} = s.{n}' for n in written)}"
        f" WHEN NOT MATCHED AND NOT s.__deleted THEN INSERT (id, {', '.join(written)})"
        f" VALUES (s.id, {', '.join(f's.{n}' for n in written)})"
    )


def _timed(action: Callable[[], None]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _print(seconds: dict[str, list[float]], rows: int, reference: str) -> None:
    """Print medians; a ratio is a median divided by the reference's."""
    base = median(seconds[reference])
    for name, each in seconds.items():
        spread = f"{rows / max(each):,.0f}-{rows / min(each):,.0f}"
        ratio = base / median(each)
        print(f"  {name:<26}{rows / median(each):>10,.0f}/s  {spread:<18} {ratio:.2f} x {reference}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="of the table that is written (%(default)s)")
    add("--changes", type=int, default=100_000, help="of a batch (%(default)s)")
    add("--sample", type=int, default=300_000, help="records that are read (%(default)s)")
    add("--rounds", type=int, default=3, help="of each measurement but the first load (%(default)s)")
    add("--using", default="delta,iceberg", metavar="FORMATS", help="that are written (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
