"""`pgrelay spark-mirror` as users run it: by itself, and with spark-submit on a cluster."""

import logging
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyspark
import pytest
import yaml
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pgrelay import spark as pg
from pgrelay.early_stop import SignalRecorder
from pgrelay.errors import SetupError
from pgrelay.spark_mirror.run import _await_query, _silence_failures, _stop_on_signal
from tests.docs.pages import blocks
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.long import long
from tests.spark.handmade_records import Message, produce
from tests.spark.mirror_command import MirrorCommand
from tests.spark.standalone import cluster

CREATE = """
CREATE TABLE orders (id int PRIMARY KEY, price numeric(10,2));
CREATE TABLE notes (id int PRIMARY KEY, note text);
"""


def in_postgres(database: Database, table: str) -> Counter[tuple[Any, ...]]:
    with database.connect() as connection:
        return Counter(connection.execute(f"SELECT * FROM {table}".encode()).fetchall())


def in_lake(spark: SparkSession, mirror: MirrorCommand, table: str) -> Counter[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(f"{mirror.warehouse}/lake.db/{table}")
    return Counter(tuple(row) for row in frame.drop("__commit_lsn", "__seq").collect())


@pytest.fixture
def relay_of_orders(database: Database, new_relay: NewRelay) -> Any:
    database.execute(CREATE)
    relay = new_relay().start().wait_streaming()
    database.execute("INSERT INTO orders SELECT i, i + 0.5 FROM generate_series(1, 30) i")
    database.execute("INSERT INTO notes VALUES (1, 'one'); UPDATE orders SET price = 0 WHERE id < 10")
    relay.caught_up()
    return relay


@long
def test_it_mirrors_and_reports_until_asked_to_stop(
    spark: SparkSession, relay_of_orders: Any, database: Database, tmp_path: Path
) -> None:
    relay = relay_of_orders
    orders = f'{{table="{relay.topic("orders")}"}}'
    with MirrorCommand(relay, tmp_path, ["orders", "notes"]) as mirror:
        mirror.start()
        mirror.wait_metric(f"pgrelay_mirror_records_total{orders}", 39)
        database.execute("DELETE FROM orders WHERE id > 20; INSERT INTO notes VALUES (2, NULL)")
        relay.caught_up()
        mirror.wait_metric(f"pgrelay_mirror_records_total{orders}", 59)  # a delete is followed by a tombstone
        mirror.wait_metric(f"pgrelay_mirror_lag_records{orders}", 0)
        last = max(record.json["source"]["commit_lsn"] for record in relay.records("orders") if record.value)
        mirror.wait_metric(f"pgrelay_mirror_lsn{orders}", last)
        mirror.wait_metric(f"pgrelay_mirror_lag_bytes{orders}", 0)
        mirror.wait_metric(f"pgrelay_mirror_lag_seconds{orders}", 0)
        assert mirror.metric("pgrelay_mirror_batch_seconds_count") >= 2
        assert mirror.metric("pgrelay_mirror_running") == 1
        assert mirror.stop() == 0
        assert " ERROR " not in mirror.log_text  # as in Spark's error entries, not in its own settings
        assert "[Stage " not in mirror.log_text
        batches = mirror.events("batch")
        assert sum(event["records"] for event in batches if event["target"] == "lake.orders") == 59
        assert mirror.events("stopped")
        for table in ("orders", "notes"):
            assert in_lake(spark, mirror, table) == in_postgres(database, table)


@long
def test_it_compacts_its_targets_between_batches_and_goes_on(
    spark: SparkSession, relay_of_orders: Any, database: Database, tmp_path: Path
) -> None:
    relay = relay_of_orders
    orders = f'{{table="{relay.topic("orders")}"}}'
    with MirrorCommand(relay, tmp_path, ["orders"], lake={"upkeep_every_h": 0.001}) as mirror:
        mirror.start()
        for deleted, records in ((30, 39), (20, 59)):
            database.execute(f"DELETE FROM orders WHERE id > {deleted}")
            relay.caught_up()
            mirror.wait_metric(f"pgrelay_mirror_records_total{orders}", records)
            mirror.wait_more_events("compacted and purged")
        assert mirror.stop() == 0
        assert not mirror.events("a target can't be compacted and purged")
        assert in_lake(spark, mirror, "orders") == in_postgres(database, "orders")


def test_it_keeps_every_version_of_every_row_if_asked_to(
    spark: SparkSession, relay_of_orders: Any, tmp_path: Path
) -> None:
    relay = relay_of_orders
    with MirrorCommand(relay, tmp_path, ["orders"], lake={"history": True}) as mirror:
        mirror.start("--once")
        assert mirror.wait_exit() == 0, mirror.log_text
        assert mirror.events("stopped")
        versions = spark.read.format("delta").load(f"{mirror.warehouse}/lake.db/orders")
        counted = versions.groupBy(F.expr("__valid_to IS NULL"), F.expr("price = 0")).count().collect()
        assert Counter({(holds, free): count for holds, free, count in counted}) == Counter(
            {(True, True): 9, (False, False): 9, (True, False): 21}
        )
        assert (mirror.warehouse / "_checkpoints" / f"{relay.prefix}__history").is_dir()


@long
def test_a_record_that_can_not_be_read_ends_it_with_one_line(relay_of_orders: Any, tmp_path: Path) -> None:
    relay = relay_of_orders
    produce(relay.kafka.bootstrap, relay.topic("notes"), [Message(b"garbage")])
    with MirrorCommand(relay, tmp_path, ["notes"]) as mirror:
        mirror.start()
        assert mirror.wait_exit() == 4
        assert re.search(
            rf"^pgrelay: {relay.topic('notes')} partition 0 offset 1: .*garbage", mirror.log_text, re.M
        )
        assert "Traceback" not in mirror.log_text


def test_spark_submit_runs_it_on_two_workers(
    spark: SparkSession, relay_of_orders: Any, database: Database, tmp_path: Path
) -> None:
    """With the lines of docs/spark-operations.md."""
    options = {"spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with (
        cluster(tmp_path) as nodes,
        MirrorCommand(relay_of_orders, tmp_path, ["orders", "notes"], spark={"options": options}) as mirror,
    ):
        [shown] = [b for b in blocks("sh") if b.page == "docs/spark-operations.md" and "spark://" in b.text]
        script = shown.text.replace("spark://spark-master:7077", nodes.master)
        script = script.replace("mirror.yaml", f"{shlex.quote(str(mirror.config))} --once")
        path = f"{Path(sys.executable).parent}:{Path(pyspark.__file__).parent / 'bin'}:"
        environment = {**nodes.environment, "PATH": path + nodes.environment["PATH"]}
        mirror.run(["bash", "-ec", script], environment)
        assert mirror.wait_exit() == 0, mirror.log_text
        for table in ("orders", "notes"):
            assert in_lake(spark, mirror, table) == in_postgres(database, table)
        for work in nodes.works:
            assert list(work.glob("app-*/*")), "no executor ran there"


def test_a_signal_at_the_start_is_no_error_of_the_call_that_it_interrupts() -> None:
    """Py4J catches every Exception that ends a call, and takes it for the end of Java's process."""
    stop, before = threading.Event(), SignalRecorder()
    try:
        with pytest.raises(KeyboardInterrupt), _stop_on_signal(stop), suppress(Exception):
            signal.raise_signal(signal.SIGTERM)
    finally:
        before.restore()
    assert stop.is_set()


def test_a_refused_statement_is_logged_by_nobody_else(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, records = PySparkLogger.getLogger("SQLQueryContextLogger"), list[logging.LogRecord]()
    monkeypatch.setattr(logger, "handle", records.append)
    level = logger.level
    for _ in range(2):
        with pytest.raises(AnalysisException):
            spark.sql("ALTER TABLE nowhere ADD COLUMN a INT")
        _silence_failures(spark)
    logger.setLevel(level)
    assert len(records) == 1  # before it was left to us


@pytest.mark.parametrize(
    "mistaken", [{"master": "lokal[2]"}, {"options": {"spark.driver.memory": "1x"}}], ids=["master", "memory"]
)
def test_what_java_does_not_start_with_is_named(tmp_path: Path, mistaken: dict[str, Any]) -> None:
    """Java's own text is above it; the one line is what an operator reads first."""
    lake = {"warehouse": str(tmp_path), "tables": {"app.public.t": "lake.t"}}
    config = tmp_path / "mirror.yaml"
    config.write_text(yaml.safe_dump({"kafka": {"servers": "127.0.0.1:1"}, "lake": lake, "spark": mistaken}))
    command = [sys.executable, "-m", "pgrelay", "spark-mirror", "--config", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("pgrelay: Spark's Java process did not start: ")


def test_the_reason_of_its_end_is_our_own_error(
    spark: SparkSession, relay_of_orders: Any, tmp_path: Path, target: str
) -> None:
    relay = relay_of_orders
    query = pg.mirror(
        spark,
        relay.kafka.bootstrap,
        {relay.topic("orders"): target},
        prefix=f"{relay.prefix}.not",
        checkpoint=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
    )
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    error = pg.query_error(caught.value)
    assert type(error) is SetupError
    assert re.fullmatch(rf"{re.escape(relay.topic('orders'))}: [^\n]+", str(error))


def test_a_query_that_ends_by_itself_while_a_stop_waits_for_it_has_read_all(spark: SparkSession) -> None:
    """Its last batch ends in that wait, with `--once`."""
    query = Mock(isActive=True, lastProgress=None, status={"isTriggerActive": True})

    def end(*_: float) -> bool:
        query.isActive = False
        return True

    query.awaitTermination.side_effect = end
    stop = threading.Event()
    stop.set()
    assert _await_query(spark, query, stop, 60) is True
