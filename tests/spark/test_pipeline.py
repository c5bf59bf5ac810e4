"""Postgres to pgrelay to Kafka to Spark to Delta and Iceberg: the lake equals the tables, despite kills."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.integration.relays import Relay
from tests.integration.waiting import wait_until
from tests.long import long
from tests.spark.tables import CREATE, TABLES, Workload, in_lake, in_postgres

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0  # seconds; on an idle machine a session starts in ten


class MirrorProcess:
    """The mirror of a relay's tables, in a process."""

    def __init__(self, relay: Relay, warehouse: Path) -> None:
        self._relay = relay
        self._warehouse = warehouse
        self.log = warehouse / "mirror.log"

    def start(self, how: str) -> subprocess.Popen[bytes]:
        given = [how, str(self._warehouse), self._relay.kafka.bootstrap, self._relay.prefix, *TABLES]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.spark.mirror_process", *given],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_after(self, commits: int) -> None:
        """Run it, and kill it once the orders have this many commits in Delta, during the next one."""
        process = self.start("for ever")
        log = self._warehouse / "lake.db" / "orders" / "_delta_log"
        before = len(list(log.glob("*.json")))

        def far_enough() -> bool:
            assert process.poll() is None, self.log.read_text()[-4000:]
            return len(list(log.glob("*.json"))) >= before + commits

        try:
            wait_until(far_enough, f"{commits} commits", PATIENCE)
        finally:
            _kill(process)

    def finish(self) -> None:
        """Run it up to the end of the topics."""
        process = self.start("once")
        try:
            code = process.wait(PATIENCE)
        finally:
            _kill(process)
        assert code == 0, self.log.read_text()[-4000:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill all of it: Python, and the Java below it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@long
@pytest.mark.timeout(900)
def test_the_lake_equals_postgres_after_kills_of_both_ends(
    spark: SparkSession, warehouse: Path, new_relay: NewRelay, database: Database, tmp_path: Path
) -> None:
    database.execute(CREATE)
    relay = new_relay().start().wait_streaming()
    workload = Workload(database, 7)
    mirror = MirrorProcess(relay, tmp_path)
    workload.run(60)
    relay.caught_up()
    mirror.kill_after(2)
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
    mirror.kill_after(2)
    database.execute("ALTER TABLE orders ALTER COLUMN price TYPE numeric(14,2), DROP COLUMN tags")
    database.execute("UPDATE orders SET price = price * 1000 WHERE id % 2 = 0")
    relay.caught_up()
    mirror.finish()
    for table in TABLES:
        expected = in_postgres(database, table)
        for using in ("delta", "iceberg"):
            assert _in_lake(spark, tmp_path, table, using, expected[0]) == expected[1], f"{table} in {using}"


def _in_lake(spark: SparkSession, warehouse: Path, table: str, using: str, names: list[str]) -> Counter[str]:
    if using == "delta":
        frame = spark.read.format("delta").load(f"{warehouse}/lake.db/{table}")
    else:
        frame = spark.read.format("iceberg").load(f"{warehouse}/iceberg/lake/{table}")
    assert set(frame.columns) == {*names, "__commit_lsn", "__seq"}
    return in_lake(frame, names)
