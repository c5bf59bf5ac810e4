"""Mirrors of whole transactions if a record of the transaction topic can't be read."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import RecordError
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Message, change, produce

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.mark.parametrize("corrupt_to", [None, "iceberg.lake.corrupt"], ids=["fail", "set aside"])
def test_it_ends_the_mirror_before_half_a_transaction_shows(
    spark: SparkSession, handmade: HandmadeRelay, prefix: str, corrupt_to: str | None
) -> None:
    """Without that end, the next one's rows and all before them would pass for whole transactions."""
    handmade.table("a", ID)
    handmade.table("b", ID)
    targets = {table: f"iceberg.lake.{prefix}_{table}" for table in ("a", "b")}
    handmade.write("a", change("c", 100, 0, after={"id": 1}))
    produce(handmade.bootstrap, f"{handmade.prefix}.transaction", [Message(b"\0\0\0\0\x07in Avro")])
    handmade.write("b", change("c", 200, 0, after={"id": 1}))
    handmade.end(200, b=1)
    for _ in range(2):
        with pytest.raises(StreamingQueryException) as caught:
            handmade.mirror(targets, whole_transactions=True, corrupt_to=corrupt_to)
        error = pg.query_error(caught.value)
        assert isinstance(error, RecordError)
        place = f"{handmade.prefix}.transaction partition 0 offset 0"
        assert str(error).startswith(f"{place}: not the begin or end of a transaction that can be read")
        assert str(error).endswith("; pass the registry if the relay writes Avro")
    assert not spark.catalog.tableExists(targets["a"])
