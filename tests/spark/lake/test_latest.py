"""The last change of each key."""

from pyspark.sql import SparkSession

from pgrelay.spark.lake.applied_positions import AppliedPositions
from pgrelay.spark.lake.batch import Batch
from pgrelay.spark.lake.latest import latest_rows
from pgrelay.spark.names import row_column
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema
from tests.spark.handmade_records import change, changes_of, table
from tests.spark.java_calls import A_COLUMN, counted_calls

_ODD = "it's a `text`.\\"


def test_the_last_change_of_a_key_wins_column_by_column(spark: SparkSession) -> None:
    """A large value comes from the last change that carries it, and none is missing after a delete."""
    schema = _schema("note", _ODD)
    changes = changes_of(
        spark,
        schema,
        [
            change("u", 10, after={"id": 1, "note": "a", _ODD: "b"}),
            change("u", 20, after={"id": 1, "note": "c"}, unchanged=[_ODD]),
            change("u", 30, after={"id": 2, "note": "d"}, unchanged=[_ODD]),
            change("d", 40, before={"id": 3}),
        ],
    )
    found = latest_rows(Batch(changes, schema, AppliedPositions(schema.topic), has_unchanged=True))
    rows = {row[row_column("id")]: row for row in found.collect()}
    assert {key: (row[row_column("note")], row[row_column(_ODD)]) for key, row in rows.items()} == {
        1: ("c", "b"),
        2: ("d", None),
        3: (None, None),
    }
    assert {key: row["__missing"] for key, row in rows.items()} == {1: [], 2: [_ODD], 3: []}
    assert {key: (row["__commit_lsn"], row["__deleted"]) for key, row in rows.items()} == {
        1: (20, False),
        2: (30, False),
        3: (40, True),
    }


def test_a_column_takes_few_calls_into_java(spark: SparkSession) -> None:
    def calls(columns: int) -> int:
        schema = _schema(*(f"c{number}" for number in range(columns)))
        changes = changes_of(spark, schema, [change("d", 10, before={"id": 1})])
        with counted_calls(spark) as counted:
            latest_rows(Batch(changes, schema, AppliedPositions(schema.topic), has_unchanged=True))
        return counted.count

    assert calls(60) - calls(10) <= 50 * A_COLUMN


def _schema(*texts: str) -> TableSchema:
    columns = [Column(name, "text") for name in texts]
    return table("app.public.t", Column("id", "int4", key=True, encoding="integer"), *columns)
