"""A mirror's micro-batches: versions of a schema inside one, and records that can't be read."""

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgrelay.spark.batches import Batches
from pgrelay.spark.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.records import Message, change, rows

ID = Column("id", "int4", key=True, encoding="integer")
NAME = Column("name", "text")


def test_a_batch_of_nothing_readable_while_a_later_version_is_known(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    handmade.table("a", ID)
    handmade.table("a", ID, NAME, since=50)
    handmade.write("a", Message(b"garbage"))
    handmade.mirror({"a": target}, corrupt_to=f"{target}_corrupt")
    assert rows(spark.table(f"{target}_corrupt"), "offset") == {(0,): 1}
    handmade.write("a", change("c", 10, after={"id": 1}), change("c", 60, after={"id": 2, "name": "b"}))
    handmade.mirror({"a": target}, corrupt_to=f"{target}_corrupt")
    assert rows(spark.table(target), "id", "name") == {(1, None): 1, (2, "b"): 1}


def test_a_table_without_records_is_looked_at_once(
    spark: SparkSession, handmade: HandmadeRelay, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Counter[str]()
    apply_table = Batches.apply_table

    def noting(self: Batches, records: Any, topic: str, schemas: Any) -> None:
        seen[topic] += 1
        apply_table(self, records, topic, schemas)

    monkeypatch.setattr(Batches, "apply_table", noting)
    busy, idle = handmade.table("busy", ID), handmade.table("idle", ID)
    handmade.write("busy", change("c", 10, after={"id": 1}), change("c", 20, after={"id": 2}))
    names = {"busy": f"{target}_busy", "idle": f"{target}_idle"}
    handmade.mirror(names, options={"maxOffsetsPerTrigger": "1"})
    assert seen == {busy: 2, idle: 1}
    assert [spark.table(name).count() for name in names.values()] == [2, 0]
