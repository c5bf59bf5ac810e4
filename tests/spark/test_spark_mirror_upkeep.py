"""`lake.upkeep_every_h`: when `pgrelay spark-mirror` compacts and purges its targets."""

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from pgrelay import spark as pg
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark_mirror.config import Lake
from pgrelay.spark_mirror.upkeep import Upkeep
from tests.spark.handmade_records import Topic, change, table

ID = Column("id", "int4", key=True, encoding="integer")
DAY_S = 24 * 3600.0


def upkeep(
    spark: SparkSession, *targets: str, using: Using = "iceberg", every_h: float | None = 24
) -> Upkeep:
    tables = {f"app.public.{number}": target for number, target in enumerate(targets)}
    return Upkeep(spark, Lake(warehouse="/lake", tables=tables, using=using, upkeep_every_h=every_h))


def created(spark: SparkSession, topic: Topic, target: str, using: Using = "iceberg") -> str:
    """A target of two small files. Returns its full name."""
    schema = table(topic.name, ID)
    for lsn in (10, 20):
        topic.write(change("c", lsn, after={"id": lsn}))
        pg.apply_changes(topic.changes(schema), target, schema=schema, using=using)
    return lake_table(spark, target, using).name


def files(spark: SparkSession, name: str, using: Using) -> int:
    column = "_metadata.file_path" if using == "delta" else "_file"
    return spark.table(name).select(column).distinct().count()


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_a_target_is_kept_up_once_in_the_interval_whichever_process_did_it(
    spark: SparkSession, topic: Topic, target: str, using: Using
) -> None:
    name = created(spark, topic, target, using)
    first = upkeep(spark, target, using=using)
    assert first.until_due_s() == 0
    first.run(threading.Event())
    assert files(spark, name, using) == 1
    assert sorted(row["id"] for row in spark.table(name).collect()) == [10, 20]
    assert DAY_S - 60 < first.until_due_s() <= DAY_S
    following = upkeep(spark, target, using=using)
    assert DAY_S - 60 < following.until_due_s() <= DAY_S
    version = lake_table(spark, target, using).version()
    following.run(threading.Event())
    assert lake_table(spark, target, using).version() == version


def test_a_target_that_is_due_soon_goes_along(
    spark: SparkSession, topic: Topic, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(Upkeep, "_maintain", lambda _self, target, *_: kept.append(target))
    name = created(spark, topic, target)
    for hours, other in ((23, "soon"), (2, "later")):
        spark.sql(f"CREATE TABLE {name[:-1]}_{other}` (id int) USING iceberg")
        ago = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - hours * 3600))
        lake_table(spark, f"{target}_{other}", "iceberg").set_properties({"pgrelay.upkeep": ago})
    upkeep(spark, target, f"{target}_soon", f"{target}_later").run(threading.Event())
    assert kept == [target, f"{target}_soon"]


def test_a_target_that_does_not_exist_yet_is_due_after_the_interval(spark: SparkSession, target: str) -> None:
    missing = upkeep(spark, target)
    assert DAY_S - 60 < missing.until_due_s() <= DAY_S
    missing.run(threading.Event())
    assert not spark.catalog.tableExists(f"iceberg.{target}")
    missing._due[target] = 0  # the interval is over, and it still does not exist
    missing.run(threading.Event())
    assert missing.until_due_s() > DAY_S - 60, "otherwise the query would pause again and again"


def test_without_an_interval_nothing_is_ever_due(spark: SparkSession, topic: Topic, target: str) -> None:
    name = created(spark, topic, target)
    never = upkeep(spark, target, every_h=None)
    assert never.until_due_s() == float("inf")
    never.run(threading.Event())
    assert files(spark, name, "iceberg") == 2


def test_what_fails_is_logged_and_has_its_next_turn(spark: SparkSession, topic: Topic, target: str) -> None:
    name = created(spark, topic, target, "delta")
    for row in spark.table(name).select("_metadata.file_path").collect():
        Path(row["file_path"].removeprefix("file:")).unlink()
    failing = upkeep(spark, target, using="delta")
    with capture_logs() as logs:
        failing.run(threading.Event())
    [failure] = [entry for entry in logs if entry["log_level"] == "error"]
    assert failure["reason"].startswith(f"compact {target}: ")
    assert failing.until_due_s() > DAY_S - 60


def test_a_target_that_can_not_be_looked_at_is_named(
    spark: SparkSession, topic: Topic, target: str, warehouse: Path
) -> None:
    created(spark, topic, target)
    for file in (warehouse / "iceberg" / target.replace(".", "/") / "metadata").glob("*.metadata.json"):
        file.write_text("{")
    with pytest.raises(pg.PgrelayError, match=f"^upkeep of {target}: "):
        upkeep(spark, target).until_due_s()


def test_a_stop_ends_it_with_the_current_target(
    spark: SparkSession, topic: Topic, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr("pgrelay.spark_mirror.upkeep._POLL_INTERVAL_S", 0.01)
    name = created(spark, topic, target)
    spark.sql(f"CREATE TABLE {name[:-1]}_other` (id int) USING iceberg")
    with capture_logs() as logs:
        upkeep(spark, target, f"{target}_other").run(stop)
    assert [entry.get("target") for entry in logs if entry["log_level"] != "debug"] == [target]
    assert sorted(row["id"] for row in spark.table(name).collect()) == [10, 20]
