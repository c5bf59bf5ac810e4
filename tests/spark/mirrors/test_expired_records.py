"""Records that retention deleted before a mirror read them."""

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from pgrelay.errors import SetupError
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import change, rows

ID = Column("id", "int4", key=True, encoding="integer")
ONCE = {"failOnDataLoss": "false"}


@pytest.fixture
def target(prefix: str) -> str:
    return f"iceberg.lake.{prefix}"


def test_a_new_table_whose_first_records_are_gone_needs_consent(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    for table in ("a", "b"):
        handmade.table(table, ID)
        handmade.write(table, *(change("c", 10 + n, after={"id": n}) for n in range(2)))
    handmade.mirror({"a": f"{target}_a"})
    handmade.expire("b", 1)
    targets = {table: f"{target}_{table}" for table in ("a", "b")}
    with pytest.raises(SetupError, match=rf"^{handmade.topic('b')}: new to .* failOnDataLoss: 'false'"):
        handmade.mirror(targets)
    handmade.mirror(targets, options=ONCE)
    handmade.write("b", change("c", 20, after={"id": 2}))
    handmade.mirror(targets)
    assert rows(spark.table(f"{target}_b"), "id") == {(1,): 1, (2,): 1}


def test_records_deleted_before_they_were_read_are_not_skipped_silently(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    topic = handmade.table("a", ID)
    handmade.write("a", change("c", 10, after={"id": 1}))
    handmade.mirror({"a": target})
    handmade.write("a", *(change("c", 20 + n, after={"id": 20 + n}) for n in range(3)))
    handmade.expire("a", 1)  # what was read
    handmade.expire("a", 3)
    with pytest.raises(SetupError, match=rf"^{topic} partition 0: offsets 1 to 2 are gone"):
        handmade.mirror({"a": target})
    handmade.mirror({"a": target}, options=ONCE)
    assert rows(spark.table(target), "id") == {(1,): 1, (22,): 1}


def test_a_new_checkpoint_that_comes_too_late_is_told(
    spark: SparkSession, handmade: HandmadeRelay, target: str
) -> None:
    topic = handmade.table("a", ID)
    handmade.table("b", ID)
    for table in ("a", "b"):
        handmade.write(table, *(change("c", 10 + n, after={"id": n}) for n in range(3)))
    handmade.expire("a", 2)
    targets = {table: f"{target}_{table}" for table in ("a", "b")}
    with capture_logs() as logs:
        handmade.mirror(targets)
    [warning] = [each for each in logs if each["log_level"] == "warning"]
    assert (warning["topic"], warning["records"]) == (topic, 2)
    assert "first records are gone" in warning["event"]
    with capture_logs() as logs:
        handmade.mirror(targets)
    assert not [each for each in logs if each["log_level"] == "warning"]
