"""How fresh is a mirror? `python -m bench.mirror`: from a COMMIT to its rows in the target.

Each commit updates a row and inserts others, in every table, and comes when the last one's rows are in the
targets: no batch waits for another, and none is larger. CPU is that of Spark's process for a batch; Java's
compilers, which are busy for hundreds of batches, are a part of it. The first batch, which creates the
targets, is reported by itself. At the end each target must be equal to its table.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.contenders import relay
from bench.drain import Void, streaming
from bench.procfs import cpu_s, spark_java
from bench.stage import Connection, Load, Stage, flushing, loaded, servers
from bench.topics import Topics
from bench.workloads import Workload
from pgrelay import spark as pg
from pgrelay.embedded.registry import SchemaRegistry
from pgrelay.spark.lake.lookup import lake_table

_COMMIT = """
    WITH moved AS (UPDATE {table} SET note = 'number ' || {first} WHERE id = 0)
    INSERT INTO {table} (id, note) SELECT i, 'row ' || i FROM generate_series({first}, {last}) AS i
"""
_SPARK = {"spark.ui.showConsoleProgress": "false"}
_TIMEOUT_S = 600.0


def workload(tables: int, columns: int) -> Workload:
    """So many tables, each of so many columns, two or more: `id`, `note`, and texts with a default."""
    more = "".join(f", c{number} text DEFAULT 'text {number}'" for number in range(columns - 2))
    names = tuple(f"fresh{number}" for number in range(tables))
    return Workload(
        "mirror",
        "one row each: the commits come later",
        tables,
        "".join(f"INSERT INTO {name} VALUES (0, 'first');" for name in names),
        "".join(f"CREATE TABLE {name} (id bigint PRIMARY KEY, note text{more});" for name in names),
        tables=names,
    )


def measure(
    stage: Stage,
    load: Load,
    spark: SparkSession,
    using: Any,
    registry: str | None,
    options: argparse.Namespace,
) -> None:
    """Print one line of figures. Raises Void if a target is not equal to its table in the end."""
    names = load.workload.tables
    avro = {"records": {"format": "avro", "schema_registry": {"url": registry}}}
    contender = relay("compiled", sections=avro if registry else None)
    targets = {name: f"bench.{name}_{using}" for name in names}
    with ExitStack() as stack:
        stack.enter_context(Topics(stage.bootstrap, contender.prefix, names))
        stack.enter_context(streaming(stage, load, contender))
        connection = stack.enter_context(flushing(load.dsn))
        began = time.monotonic()
        query = pg.mirror(
            spark,
            stage.bootstrap,
            {f"{contender.prefix}.public.{name}": target for name, target in targets.items()},
            prefix=contender.prefix,
            checkpoint=stage.folder / f"checkpoint-{using}",
            using=using,
            registry=registry,
            trigger={"processingTime": "0 seconds"},
            options=dict(options.option),
        )
        stack.callback(query.stop)
        _wait(query, len(names))
        first = time.monotonic() - began
        _commits(connection, query, names, options.rows, range(options.warm_up))
        java = spark_java()
        idle = cpu_s(java)
        numbers = range(options.warm_up, options.warm_up + options.batches)
        seconds = _commits(connection, query, names, options.rows, numbers)
        used = (cpu_s(java) - idle) / len(numbers)
        rows = {targets[name]: sorted(connection.execute(f"SELECT * FROM {name}".encode())) for name in names}
    _refuse_other_rows(spark, rows, using)
    print(
        f"{using:<8} {median(seconds):.2f} s from a commit to the last table ({min(seconds):.2f} to "
        f"{max(seconds):.2f}), {used:.2f} s of CPU; {len(seconds)} batches of {options.rows} changes in each "
        f"of {len(names)}; the first batch {first:.1f} s"
    )


def _refuse_other_rows(spark: SparkSession, rows: Mapping[str, list[Any]], using: Any) -> None:
    """Raise Void if a target does not have exactly these rows."""
    for target, expected in rows.items():
        kept = lake_table(spark, target, using).rows().drop("__commit_lsn", "__seq").collect()
        if sorted(map(tuple, kept)) != expected:
            raise Void(f"{target} is not equal to its table")


def _commits(
    connection: Connection, query: StreamingQuery, tables: Sequence[str], rows: int, numbers: range
) -> list[float]:
    """Make these commits, one by one; return the seconds that each took to be in the targets."""
    taken = []
    for number in numbers:
        first = 1 + number * rows
        began = time.monotonic()
        # Statements that are sent together are one transaction.
        changes = (_COMMIT.format(table=name, first=first, last=first + rows - 2) for name in tables)
        connection.execute(";".join(changes).encode())
        _wait(query, len(tables) * (first + rows))
        taken.append(time.monotonic() - began)
    return taken


def _wait(query: StreamingQuery, records: int) -> None:
    """Wait for the end of the batch by which so many records are in the target."""
    deadline = time.monotonic() + _TIMEOUT_S
    while _records(query) < records:
        if not query.isActive or time.monotonic() > deadline:
            raise Void(f"the mirror ended, or stands still: {query.exception()}")
        time.sleep(0.005)


def _records(query: StreamingQuery) -> int:
    """How many records the batches that have ended took in."""
    progress = query.lastProgress
    # As attributes, offsets are Python's text for a dict.
    offsets = None if progress is None else json.loads(progress.json)["sources"][0]["endOffset"]
    return sum(end for ends in (offsets or {}).values() for end in ends.values())


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mirror", description=__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=3, help="changes of a commit in a table (%(default)s)")
    add("--batches", type=int, default=60, help="(%(default)s)")
    add("--warm-up", type=int, default=60, help="batches before them (%(default)s)")
    add("--tables", type=int, default=1, help="(%(default)s)")
    add("--columns", type=int, default=2, help="of each table (%(default)s)")
    add("--avro", action="store_true", help="the relay writes Avro instead of JSON")
    add("--using", default="delta,iceberg", metavar="FORMATS", help="of the target (%(default)s)")
    kafka = "of Spark's Kafka source, such as kafka.fetch.max.wait.ms=500"
    add("--option", type=_pair, action="append", default=[], metavar="NAME=VALUE", help=kafka)
    options = parser.parse_args()
    if options.columns < 2:
        parser.error("--columns: a table has 2 or more")
    if options.tables < 1:
        parser.error("--tables: 1 or more")
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="pgrelay-bench-"))
        stage = stack.enter_context(servers(Path(name)))
        registry = stack.enter_context(SchemaRegistry()).url if options.avro else None
        spark = pg.session(f"{name}/lake", "local[2]", options=_SPARK)
        try:
            for using in filter(None, options.using.split(",")):
                with loaded(stage, workload(options.tables, options.columns)) as load:
                    measure(stage, load, spark, using, registry, options)
        except Void as error:
            print(f"VOID: {error}")
            return 1
        finally:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
