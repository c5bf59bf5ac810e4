"""History as SCD type 2: every version of a row, and when it was valid."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.history import HistoryTarget
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.schemas.columns import Column
from tests.integration.conftest import NewRelay
from tests.integration.databases import Database
from tests.spark.earlier import forget
from tests.spark.handmade_records import Topic, change, changes_of, rows, table
from tests.spark.java_calls import A_COLUMN, counted_calls

ID = Column("id", "int4", key=True, encoding="integer")


@pytest.mark.parametrize("using", ["delta", "iceberg"])
def test_every_version_of_a_row_is_kept(
    spark: SparkSession, new_relay: NewRelay, database: Database, tmp_path: Path, prefix: str, using: Using
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text, big text)")
    database.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    relay = new_relay().start().wait_streaming()
    name = f"lake_{prefix}.t"
    table = f"iceberg.{name}" if using == "iceberg" else name

    def follow() -> None:
        relay.caught_up()
        query = pg.history(
            spark,
            relay.kafka.bootstrap,
            {relay.topic("t"): name},
            prefix=relay.prefix,
            checkpoint=str(tmp_path / "checkpoint"),
            using=using,
            trigger={"availableNow": True},
        )
        query.awaitTermination()

    database.execute("INSERT INTO t VALUES (1, 'a', repeat('x', 5000)), (2, 'b', NULL)")
    database.execute("UPDATE t SET name = 'A' WHERE id = 1")
    follow()
    database.execute("UPDATE t SET name = 'AA' WHERE id = 1")
    database.execute("DELETE FROM t WHERE id = 2")
    database.execute("INSERT INTO t VALUES (2, 'again', NULL)")
    database.execute("ALTER TABLE t DROP COLUMN big")
    database.execute("TRUNCATE t")
    database.execute("INSERT INTO t VALUES (3, 'c')")
    follow()
    found = spark.table(table)
    holds = found.selectExpr("id", "name", "length(big)", "__valid_to IS NULL")
    assert Counter(tuple(row) for row in holds.collect()) == Counter(
        [
            (1, "a", 5000, False),
            (1, "A", 5000, False),
            (1, "AA", 5000, False),
            (2, "b", None, False),
            (2, "again", None, False),
            (3, "c", None, True),
        ]
    )
    # A version ends where the next begins, and none ends before it began.
    one = found.where("id = 1").orderBy("__commit_lsn").collect()
    assert [r["__end_lsn"] for r in one[:2]] == [r["__commit_lsn"] for r in one[1:]]
    assert [r["__valid_to"] for r in one[:2]] == [r["__valid_from"] for r in one[1:]]
    assert found.where("__end_lsn <= __commit_lsn OR __valid_to < __valid_from").isEmpty()
    before = rows(found)
    follow()
    assert rows(found) == before


@pytest.mark.parametrize("last", ["d", "t"])
def test_a_batch_that_ended_a_row_can_come_again(topic: Topic, target: str, last: str) -> None:
    schema = table(topic.name, ID, Column("big", "text"))
    history = lake_table(topic.spark, target, "iceberg")

    def batch(start: int) -> None:
        changes = topic.changes(schema).where(f"offset >= {start}")
        HistoryTarget(history, schema).apply(changes, schema)

    topic.write(change("c", 10, after={"id": 1, "big": "x"}))
    batch(0)
    topic.write(
        change("u", 11, after={"id": 1}, unchanged=["big"]),
        change("d", 12, before={"id": 1}) if last == "d" else change("t", 12),
    )
    for _ in range(2):
        batch(1)
        assert rows(history.rows(), "big", "__commit_lsn", "__end_lsn") == Counter(
            [("x", 10, 11), ("x", 11, 12)]
        )
        # Killed before the batch's position was written.
        forget(history, topic.name)


def test_a_version_without_its_large_value_is_rejected(topic: Topic, target: str) -> None:
    schema = table(topic.name, ID, Column("big", "text"))
    history, rejects = (lake_table(topic.spark, name, "iceberg") for name in (target, f"{target}_corrupt"))
    topic.write(
        change("u", 10, after={"id": 1}, unchanged=["big"]), change("u", 11, after={"id": 1, "big": "x"})
    )
    HistoryTarget(history, schema, rejects=rejects).apply(topic.changes(schema), schema)
    assert rows(history.rows(), "big", "__commit_lsn") == Counter([("x", 11)])
    assert rows(rejects.rows(), "offset") == Counter([(0,)])


def test_a_history_target_is_not_a_mirror_target_and_vice_versa(topic: Topic, target: str) -> None:
    schema = table(topic.name, ID)
    lakes = [lake_table(topic.spark, f"{target}_{number}", "iceberg") for number in range(2)]
    topic.write(change("c", 10, after={"id": 1}))
    for lake, make in zip(lakes, (HistoryTarget, Target), strict=True):
        make(lake, schema).apply(topic.changes(schema), schema)
    # Nothing is new: otherwise a query would pass what it does not keep, and fail at the next change.
    for lake, other, kind in zip(lakes, (Target, HistoryTarget), ("history", "mirror"), strict=True):
        message = rf"is the target of a {kind}, not of a .*, or drop it with pgrelay\.spark\.drop\("
        with pytest.raises(SetupError, match=message):
            other(lake, schema).apply(topic.changes(schema), schema)


def test_a_table_without_a_key_has_no_history(topic: Topic, target: str) -> None:
    schema = table(topic.name, Column("id", "int4"))
    topic.write(change("c", 10, after={"id": 1}))
    lake = lake_table(topic.spark, target, "iceberg")
    with pytest.raises(
        SetupError,
        match=r"history needs a key.* from LSN 0/1 on there is none: give the table a primary key and .*; or",
    ):
        HistoryTarget(lake, schema).apply(topic.changes(schema), schema)
    assert not lake.exists()  # so that a mirror can have it


def test_a_history_that_gets_a_column_named_end_lsn_is_no_mirror(topic: Topic, target: str) -> None:
    """The cure for a mirror, to drop the target, would lose every version."""
    lake, schema = lake_table(topic.spark, target, "iceberg"), table(topic.name, ID)
    topic.write(change("c", 10, after={"id": 1}))
    HistoryTarget(lake, schema).apply(topic.changes(schema), schema)
    named = table(topic.name, ID, Column("__end_lsn", "text"))
    with pytest.raises(SetupError, match=r"a column named '__end_lsn' itself: rename it$"):
        HistoryTarget(lake, named).apply(topic.changes(named), named)


def test_a_tables_own_column_named_end_lsn_makes_it_no_history(topic: Topic, target: str) -> None:
    schema = table(topic.name, ID, Column("__end_lsn", "text"))
    lake = lake_table(topic.spark, target, "iceberg")
    for lsn in (10, 11):
        topic.write(change("c", lsn, after={"id": lsn, "__end_lsn": "x"}))
        Target(lake, schema).apply(topic.changes(schema), schema)
    assert rows(lake.rows(), "id", "__end_lsn") == Counter([(10, "x"), (11, "x")])


def test_a_column_with_a_left_out_value_takes_few_calls_into_java(spark: SparkSession, target: str) -> None:
    def calls(columns: int) -> int:
        names = [f"c{number}" for number in range(columns)]
        schema = table("app.public.t", ID, *(Column(name, "text") for name in names))
        history = HistoryTarget(lake_table(spark, f"{target}_{columns}", "iceberg"), schema)
        rest = {"id": 1, **dict.fromkeys(names[1:], "x")}
        written = [change("c", 10, after=rest | {"c0": "y"}), change("u", 11, after=rest, unchanged=["c0"])]
        changes = changes_of(spark, schema, written)
        with counted_calls(spark) as counted:
            history.apply(changes, schema)
        return counted.count

    assert calls(35) - calls(10) <= 25 * A_COLUMN
