"""Postgres to pgrelay to Kafka to Spark to Delta and Iceberg: the lake equals the tables, despite kills."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.spark.mirror_runs import MirrorRuns
from tests.spark.tables import CREATE, TABLES, Workload, in_lake, in_postgres, mirrored


@pytest.mark.timeout(900)
def test_the_lake_equals_postgres_after_kills_of_both_ends(
    spark: SparkSession, warehouse: Path, new_relay: NewRelay, database: Database, tmp_path: Path
) -> None:
    database.execute(CREATE)
    relay = new_relay().start().wait_streaming()
    workload = Workload(database, 7)
    given = relay.kafka.bootstrap, relay.prefix, *TABLES
    mirror = MirrorRuns("tests.spark.mirror_process", tmp_path, *given)
    workload.run(60)
    relay.caught_up()
    mirror.kill_when(_commits(tmp_path, 2), "two commits")
    workload.run(60)
    relay.kill()
    workload.run(40)
    database.execute(
        "ALTER TABLE orders ADD COLUMN extra int; ALTER TABLE orders RENAME COLUMN title TO name"
    )
    database.execute(
        "UPDATE orders SET extra = id WHERE id % 3 = 0; TRUNCATE log; INSERT INTO log VALUES (1, 'z')"
    )
    relay.start().wait_streaming()
    relay.caught_up()
    mirror.kill_when(_commits(tmp_path, 2), "two commits")
    database.execute("ALTER TABLE orders ALTER COLUMN price TYPE numeric(14,2), DROP COLUMN tags")
    database.execute("UPDATE orders SET price = price * 1000 WHERE id % 2 = 0")
    relay.caught_up()
    mirror.finish()
    for table in TABLES:
        names, expected = in_postgres(database, table)
        for using in ("delta", "iceberg"):
            rows = mirrored(spark, tmp_path, using, table)
            assert set(rows.columns) == {*names, "__commit_lsn", "__seq"}
            assert in_lake(rows, names) == expected, f"{table} in {using}"


def _commits(warehouse: Path, more: int) -> Callable[[], bool]:
    """Whether the orders have this many more commits in Delta than now."""
    log = warehouse / "lake.db" / "orders" / "_delta_log"
    before = len(list(log.glob("*.json")))
    return lambda: len(list(log.glob("*.json"))) >= before + more
