"""What a mirror of whole transactions keeps in its own tables."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from pgrelay.errors import PgrelayError
from pgrelay.spark.lake import iceberg
from pgrelay.spark.lake.named import lake_table
from pgrelay.spark.mirrors import whole_transactions
from pgrelay.spark.mirrors.whole_tables import WholeTables
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change


def test_a_driver_that_wakes_up_behind_another_does_not_move_the_position_back(
    spark: SparkSession, prefix: str
) -> None:
    targets = {f"{prefix}.public.a": f"lake.{prefix}"}
    old, new = (WholeTables.of(spark, prefix, "12345678", targets, "iceberg") for _ in range(2))
    for number, driver in enumerate((old, new)):
        driver.begin(targets, number)
    new.set_until(20)
    with pytest.raises(PgrelayError, match=r"__position_12345678`: another mirror .* from LSN 0/0 on: end"):
        old.set_until(10)
    new.set_until(30)
    assert (old.until, new.until) == (0, 30)


def test_what_was_held_back_and_applied_leaves_no_files(
    spark: SparkSession, handmade: HandmadeRelay, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy mirror holds something back in nearly every batch, for years."""
    monkeypatch.setattr(whole_transactions, "_SWEEP_EVERY", 1)
    monkeypatch.setattr(whole_transactions, "_REMOVE_EVERY", 1)
    monkeypatch.setattr(iceberg, "OWN_KEPT", timedelta(0))
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
    own = WholeTables.of(spark, prefix, "12345678", {f"{prefix}.public.a": f"lake.{prefix}"}, "iceberg")
    with capture_logs() as told:
        own.remove_old_files()  # the table does not even exist
    [warning] = told
    assert warning["event"] == "old files stay"
    assert "__held_12345678" in warning["reason"]
