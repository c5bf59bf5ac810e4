"""The table of what a mirror of whole transactions holds back."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from pgrelay.spark.lake import iceberg
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.mirrors import held_records
from pgrelay.spark.mirrors.held_records import HeldRecords
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change


def test_what_was_held_back_and_applied_leaves_no_files(
    spark: SparkSession, handmade: HandmadeRelay, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy mirror holds something back in nearly every batch, for years."""
    monkeypatch.setattr(held_records, "_SWEEP_EVERY", 1)
    monkeypatch.setattr(held_records, "_REMOVE_EVERY", 1)
    monkeypatch.setattr(iceberg, "INTERNAL_RETENTION", timedelta(0))
    handmade.table("a", Column("id", "int4", key=True, encoding="integer"))
    handmade.end(50)
    for lsn in range(100, 500, 100):
        handmade.write("a", change("c", lsn, after={"id": lsn}))
        query = handmade.mirror({"a": f"iceberg.lake.{prefix}"}, whole_transactions=True)
        handmade.end(lsn, a=1)
    held = lake_table(spark, f"lake.{prefix}__held_{str(query.id)[:8]}", "iceberg")
    assert held.rows().count() == 1
    assert spark.table(f"{held.name}.snapshots").count() == 1


def test_files_that_can_not_be_deleted_do_not_end_the_mirror(spark: SparkSession, prefix: str) -> None:
    """Rows do not depend on it."""
    held = HeldRecords(lake_table(spark, f"lake.{prefix}__held_12345678", "iceberg"))
    with capture_logs() as logs:
        held.remove_old_files()  # the table does not even exist
    [warning] = logs
    assert warning["event"] == "old files stay"
    assert "__held_12345678" in warning["reason"]
