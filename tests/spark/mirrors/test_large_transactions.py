"""While a large transaction goes on, what is held back of it is not read again in each batch."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.spark.mirrors import whole_transactions
from pgrelay.spark.mirrors.whole_transactions import WholeTransactions
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Message, change, produce

ID = Column("id", "int4", key=True, encoding="integer")


def test_what_is_held_is_read_when_an_end_comes(
    spark: SparkSession,
    handmade: HandmadeRelay,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    progress = WholeTransactions._progress

    def counting(self: WholeTransactions, batch: Any, *arguments: Any) -> Any:
        looked.append(batch.number)
        return progress(self, batch, *arguments)

    monkeypatch.setattr(WholeTransactions, "_progress", counting)
    monkeypatch.setattr(whole_transactions, "_MANY_HELD_ROWS", 0)
    handmade.table("a", ID)
    target = f"iceberg.lake.{prefix}"
    begin = {"status": "BEGIN", "data_collections": None, "ts_ms": 100_000, "commit_lsn": 100}
    produce(handmade.bootstrap, f"{handmade.prefix}.transaction", [Message(json.dumps(begin).encode())])
    handmade.write("a", *(change("c", 100, n, after={"id": n}) for n in range(3)))
    with handmade.mirroring({"a": target}, whole_transactions=True) as query:
        query.processAllAvailable()
        first = len(looked)
        assert first >= 1
        for part in range(1, 3):
            handmade.write(
                "a", *(change("c", 100, 3 * part + n, after={"id": 3 * part + n}) for n in range(3))
            )
            query.processAllAvailable()
        assert len(looked) == first
        assert not spark.catalog.tableExists(target) or spark.table(target).isEmpty()
        handmade.end(100, begun=False, a=9)
        query.processAllAvailable()
        assert len(looked) > first
        assert spark.table(target).count() == 9
        # The next one begins anew.
        handmade.write("a", change("c", 200, 0, after={"id": 10}))
        handmade.end(200, a=1)
        query.processAllAvailable()
        assert spark.table(target).count() == 10
        assert str(pg.mirror_position(spark, target, using="iceberg")) == "0/C8"
