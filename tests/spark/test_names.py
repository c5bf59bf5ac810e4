"""Tables whose columns have the names of our own in the plans must be mirrored like any other."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgrelay import spark as pg
from pgrelay.errors import SetupError
from pgrelay.spark.lake.history import HistoryTarget
from pgrelay.spark.lake.iceberg import IcebergTable
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.lake.target import Target
from pgrelay.spark.records.changes import Decoder
from pgrelay.spark.records.json_records import JsonRecords
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from tests.spark.handmade_records import Message, Topic, as_read, change, changes_of, rows, table

# Names of columns, views and sides in the plans, and names that SQL must quote.
AS_OURS = ["ts", "unchanged", "lost", "__deleted", "__missing", "__last", "__absent_0", "__last_0", "__held"]
AS_OURS += ["__there", "__number", "__content", "__change", "__net", "__rank", "__found", "__was_lsn"]
TO_QUOTE = ["t", "s", "{rows}", "{versions}", "it's", "a`b", "a.b", "row:ts", "${x}", "${env:HOME}"]
ID = Column("ts", "int4", key=True, encoding="integer")
LARGE = [Column(name, "text") for name in [*AS_OURS[1:], *TO_QUOTE]]

both_formats = pytest.mark.parametrize("using", ["delta", "iceberg"])


def row(number: int, text: str | None) -> dict[str, object]:
    return {"ts": number} | {column.name: text for column in LARGE}


def apply(target: Target, topic: Topic, schema: TableSchema, messages: Iterable[Message]) -> None:
    start = len(topic.written)
    topic.write(*messages)
    target.apply(topic.changes(schema).where(F.col("offset") >= start), schema)


def found(target: Target, *more: str) -> Counter[tuple[object, ...]]:
    """The rows. All their texts are equal, so one stands for them."""
    rows: DataFrame = target.table.rows()
    texts = F.array_distinct(F.array(*(rows[f"`{c.name.replace('`', '``')}`"] for c in LARGE)))
    return Counter((r[0], *r[1], *r[2:]) for r in rows.select("ts", texts, *more).collect())


@both_formats
def test_a_table_with_our_names_is_kept_by_key(
    spark: SparkSession, topic: Topic, target: str, using: Using
) -> None:
    schema = table(topic.name, ID, *LARGE)
    kept = Target(lake_table(spark, target, using), schema)
    names = [column.name for column in LARGE]
    apply(kept, topic, schema, [change("c", 10 + n, after=row(n, "a")) for n in range(4)])
    apply(
        kept,
        topic,
        schema,
        [
            change("u", 20, after={"ts": 0}, unchanged=names),
            change("u", 21, after=row(1, "b")),
            change("d", 22, before={"ts": 2}),
            change("u", 23, before=row(3, "a"), after=row(4, "moved")),
        ],
    )
    assert found(kept) == Counter([(0, "a"), (1, "b"), (4, "moved")])


@both_formats
def test_a_table_with_our_names_has_a_history(
    spark: SparkSession, topic: Topic, target: str, using: Using
) -> None:
    schema = table(topic.name, ID, *LARGE)
    kept = HistoryTarget(lake_table(spark, target, using), schema)
    apply(kept, topic, schema, [change("c", 10, after=row(1, "a"))])
    names = [column.name for column in LARGE]
    apply(
        kept,
        topic,
        schema,
        [
            change("u", 20, after={"ts": 1}, unchanged=names),
            change("u", 21, after=row(1, "b")),
            change("t", 30),
        ],
    )
    ends = found(kept, "__commit_lsn", "__end_lsn")
    assert ends == Counter([(1, "a", 10, 20), (1, "a", 20, 21), (1, "b", 21, 30)])


def test_a_thread_reads_such_names_too(spark: SparkSession) -> None:
    """Java's thread for a new one of Python's has no session, and so none of its settings."""
    schema = table("app.public.t", ID, *LARGE)
    records = as_read(spark, "app.public.t", [change("c", 10, after=row(1, "a"))])
    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(JsonRecords(schema, None).changes, records).result()
    assert [row.corrupt for row in changes.collect()] == [None]


def test_a_name_that_the_session_would_replace_a_part_of_is_refused(spark: SparkSession) -> None:
    schema = table("app.public.t", Column("${env:HOME}", "text"))
    setting = "spark.sql.variable.substitute"
    refused = (
        rf"^app.public.t: .* the name of column '\$\{{env:HOME\}}' for a variable: set {setting} to false"
    )
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(SetupError, match=refused):
            pg.read_changes(spark, "127.0.0.1:1", "app.public.t", schema=schema)
        with pytest.raises(SetupError, match=refused):
            Decoder().changes(as_read(spark, "app.public.t", []), schema)
    finally:
        spark.conf.set(setting, "false")


def test_a_column_named_like_one_of_a_history_is_refused(
    spark: SparkSession, topic: Topic, target: str
) -> None:
    schema = table(topic.name, ID, Column("__Valid_To", "text"))
    with pytest.raises(SetupError, match="pgrelay adds a column named '__Valid_To' itself: rename it"):
        HistoryTarget(lake_table(spark, target, "delta"), schema).apply(topic.changes(schema), schema)


@both_formats
def test_a_table_with_our_names_and_no_key_is_kept(
    spark: SparkSession, topic: Topic, target: str, using: Using
) -> None:
    columns = [Column("ts", "int4", encoding="integer"), *LARGE]
    schema = table(topic.name, *columns)
    kept = Target(lake_table(spark, target, using), schema)
    apply(kept, topic, schema, [change("c", 10, n, after=row(1, "a")) for n in range(2)])
    apply(kept, topic, schema, [change("c", 11, after=row(1, "b"))])
    whole = table(topic.name, *columns, identity="full")
    apply(kept, topic, whole, [change("u", 12, before=row(1, "a"), after=row(1, "b"))])
    assert found(kept) == Counter({(1, "a"): 1, (1, "b"): 2})


def test_a_column_named_like_one_of_the_format_is_refused_until_renamed(
    spark: SparkSession, target: str
) -> None:
    """Spark's MERGE into Iceberg writes its own code into `__row_operation`."""
    column = Column("__Row_Operation", "text")
    known_versions = (
        TableVersion((1, 0), (ID, column)),
        TableVersion((20, 0), (ID, replace(column, name="operation"))),
    )
    schema = TableSchema("app.public.t", "public", "t", known_versions, "1", taken=IcebergTable.taken)
    before = replace(schema, versions=known_versions[:1])
    messages = [change("c", 10, after={"ts": 1, "__Row_Operation": "a"})]
    with pytest.raises(
        SetupError, match="the lake format has a column named '__Row_Operation' itself: rename it"
    ):
        pg.apply_changes(changes_of(spark, before, messages), target, schema=before, using="iceberg")
    first = changes_of(spark, schema, messages)
    pg.apply_changes(first, target, schema=schema.until((1, 0)), using="iceberg")
    assert rows(spark.table(f"iceberg.{target}"), "ts", "operation") == {(1, "a"): 1}
