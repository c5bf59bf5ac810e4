"""Targets whose rows, columns or files others have changed: followed exactly, or refused by name."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgrelay import spark as pg
from pgrelay.errors import RecordError, SetupError
from pgrelay.spark.lake.history import HistoryTarget
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.tables import Using
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from tests.spark.handmade import HandmadeRelay
from tests.spark.handmade_records import Message, change, changes_of, rows, table

TOPIC = "app.public.t"
ID = Column("id", "int4", key=True, encoding="integer")
NAME, BIG = Column("name", "text"), Column("big", "text")

both_formats = pytest.mark.parametrize("using", ["delta", "iceberg"])


def followed(first: list[Column], later: list[Column]) -> TableSchema:
    """A schema whose second version begins at LSN 101."""
    known_versions = TableVersion((1, 0), tuple(first)), TableVersion((101, 0), tuple(later))
    return TableSchema(TOPIC, "public", "t", known_versions, "1")


class Altered:
    """A target to which batches are applied, and which others change in between."""

    def __init__(self, spark: SparkSession, target: str, using: Using, schema: TableSchema) -> None:
        self._spark, self._target, self._using, self._schema = spark, target, using, schema
        self._written: list[Message] = []
        self.table = lake_table(spark, target, using)

    def batch(self, *messages: Message, schema: TableSchema | None = None) -> None:
        start = len(self._written)
        self._written += messages
        known = schema or self._schema
        changes = changes_of(self._spark, known, self._written).where(f"offset >= {start}")
        pg.apply_changes(changes, self._target, schema=known, using=self._using)

    def sql(self, statement: str) -> None:
        self._spark.sql(statement.format(self.table.name))


@both_formats
def test_a_row_that_somebody_wrote_without_a_position_is_older_than_every_change(
    spark: SparkSession, target: str, using: Using
) -> None:
    altered = Altered(spark, target, using, table(TOPIC, ID, NAME))
    altered.batch(change("c", 10, after={"id": 1, "name": "a"}))
    altered.sql("INSERT INTO {} (id, name) VALUES (7, 'old'), (8, 'old'), (9, 'old')")
    altered.batch(change("u", 11, after={"id": 7, "name": "new"}), change("d", 11, 1, before={"id": 8}))
    assert rows(altered.table.rows()) == {(1, "a"): 1, (7, "new"): 1, (9, "old"): 1}
    altered.batch(change("t", 12), change("c", 13, after={"id": 4, "name": "b"}))
    assert rows(altered.table.rows()) == {(4, "b"): 1}
    altered.sql("INSERT INTO {} (id, name) VALUES (7, 'old')")
    altered.batch(change("t", 14))
    assert rows(altered.table.rows()) == {}


def test_a_row_without_a_key_and_a_position_is_not_deleted_in_silence(
    spark: SparkSession, target: str
) -> None:
    """Two such rows could not be told from each other."""
    altered = Altered(spark, target, "iceberg", table(TOPIC, NAME, identity="full"))
    altered.batch(change("c", 10, after={"name": "a"}))
    altered.sql("INSERT INTO {} (name) VALUES ('old')")
    with pytest.raises(RecordError, match=r"lacks the row .*, somebody wrote the row there without __comm"):
        altered.batch(change("d", 11, before={"name": "old"}))
    assert rows(altered.table.rows()) == {("a",): 1, ("old",): 1}


@both_formats
def test_a_column_with_values_of_others_is_not_taken_for_one_that_postgres_adds(
    spark: SparkSession, target: str, using: Using
) -> None:
    altered = Altered(spark, target, using, table(TOPIC, ID))
    altered.batch(change("c", 10, after={"id": 1}))
    altered.sql("ALTER TABLE {} ADD COLUMNS (name string)")
    altered.sql("UPDATE {} SET name = 'theirs'")
    added = change("c", 110, after={"id": 2, "name": "ours"})
    with pytest.raises(
        SetupError, match=r"added column 'name' at LSN 0/65, but .* had it before, with values"
    ):
        altered.batch(added, schema=followed([ID], [ID, NAME]))
    altered.sql("ALTER TABLE {} RENAME COLUMN name TO theirs")
    altered.batch(added, schema=followed([ID], [ID, NAME]))
    assert rows(altered.table.rows(), "id", "name", "theirs") == {
        (1, None, "theirs"): 1,
        (2, "ours", None): 1,
    }


@pytest.mark.parametrize(
    ("arranged", "cure"),
    [
        ("ADD PARTITION FIELD truncate(2, name)", "is or was partitioned, .*: to go on, drop the target"),
        ("WRITE ORDERED BY name", "is or was ordered, .*WRITE UNORDERED$"),
    ],
)
def test_iceberg_keeps_a_column_that_arranges_its_files(
    spark: SparkSession, target: str, arranged: str, cure: str
) -> None:
    """It would drop the column, and then could not write the table any more."""
    altered = Altered(spark, target, "iceberg", table(TOPIC, ID, NAME))
    altered.batch(change("c", 10, after={"id": 1, "name": "a"}))
    altered.sql(f"ALTER TABLE {{}} {arranged}")
    with pytest.raises(SetupError, match=rf"dropped column 'name' at LSN 0/65, by which .* {cure}"):
        altered.batch(change("c", 110, after={"id": 2}), schema=followed([ID, NAME], [ID]))
    assert "name" in altered.table.rows().columns


@pytest.mark.parametrize("setting", ["spark.wap.id", "spark.wap.branch"])
def test_rows_are_not_staged_beside_an_iceberg_table(spark: SparkSession, target: str, setting: str) -> None:
    """They would be taken for written, and missing in the table."""
    altered = Altered(spark, target, "iceberg", table(TOPIC, ID))
    spark.conf.set(setting, "audit")
    try:
        altered.batch(change("c", 10, after={"id": 1}))
        altered.sql("ALTER TABLE {} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        with pytest.raises(SetupError, match=f"has {setting} and the table write.wap.enabled, .*: unset one"):
            altered.batch(change("c", 11, after={"id": 2}))
    finally:
        spark.conf.unset(setting)
    altered.batch(change("c", 12, after={"id": 3}))
    assert rows(altered.table.rows()) == {(1,): 1, (3,): 1}


def test_an_update_that_leaves_out_a_value_is_applied_where_the_key_must_not_be_null(
    spark: SparkSession, target: str
) -> None:
    """Such as in Iceberg's identifier fields."""
    altered = Altered(spark, target, "iceberg", table(TOPIC, ID, NAME, BIG))
    altered.batch(change("c", 10, after={"id": 1, "name": "a", "big": "x"}))
    columns: Any = altered.table.load().table().updateSchema()
    columns.allowIncompatibleChanges().requireColumn("id").commit()
    altered.batch(change("u", 11, after={"id": 1, "name": "b"}, unchanged=["big"]))
    assert rows(altered.table.rows()) == {(1, "b", "x"): 1}
    with pytest.raises(RecordError, match=r"leaves out the large value of big, and .* has no such row"):
        altered.batch(change("u", 12, after={"id": 2, "name": "b"}, unchanged=["big"]))


@both_formats
def test_records_are_set_aside_also_where_somebody_has_added_a_column(
    spark: SparkSession, target: str, using: Using
) -> None:
    schema, aside = table(TOPIC, ID), f"{target}_aside"
    kept = lake_table(spark, aside, using)
    for number in (2**31, 2**32):
        bad = changes_of(spark, schema, [change("c", 10, after={"id": number})])
        pg.apply_changes(bad, f"{target}_{number}", schema=schema, using=using, corrupt_to=aside)
        if number == 2**31:
            spark.sql(f"ALTER TABLE {kept.name} ADD COLUMNS (solved boolean)")
    assert rows(kept.rows(), "offset", "solved") == {(0, None): 2}


COPYING = ", ".join(f"'write.{what}.mode' = 'copy-on-write'" for what in ("merge", "update", "delete"))


def test_a_target_that_iceberg_copies_on_write_takes_changes_of_whole_rows(
    spark: SparkSession, target: str
) -> None:
    """Readers that know no position deletes need such a target, and these changes read what they change."""
    altered = Altered(spark, target, "iceberg", table(TOPIC, NAME, identity="full"))
    a, b = {"name": "a"}, {"name": "b"}
    altered.batch(*(change("c", 10, number, after=a) for number in range(3)))
    altered.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ({COPYING})")
    altered.batch(change("d", 11, before=a), change("u", 12, before=a, after=b), change("c", 13, after=b))
    assert rows(altered.table.rows()) == {("a",): 1, ("b",): 2}
    with pytest.raises(RecordError, match=r"0/E: .* lacks the row that was deleted or updated"):
        altered.batch(change("d", 14, before={"name": "c"}))
    altered.batch(change("t", 15), change("c", 16, after=a))
    assert rows(altered.table.rows()) == {("a",): 1}


def test_a_target_that_iceberg_copies_on_write_sets_aside_an_update_that_lacks_its_row(
    handmade: HandmadeRelay, target: str
) -> None:
    """Such writes read their changes twice, and Iceberg refuses a read that may differ then."""
    topic = handmade.table("t", ID, NAME, BIG)
    schema, aside = table(topic, ID, NAME, BIG), f"{target}_aside"
    lake, kept = (lake_table(handmade.spark, name, "iceberg") for name in (target, aside))
    handmade.write("t", change("c", 10, after={"id": 1, "name": "a", "big": "x"}))
    for number in (1, 2):  # the second finds both tables there
        there = change("u", 10 + number, after={"id": 1, "name": "b"}, unchanged=["big"])
        lacking = change("u", 10 + number, 1, after={"id": 7, "name": "b"}, unchanged=["big"])
        handmade.write("t", there, lacking)
        if number == 2:
            handmade.spark.sql(f"ALTER TABLE {lake.name} SET TBLPROPERTIES ({COPYING})")
            handmade.spark.sql(f"ALTER TABLE {kept.name} SET TBLPROPERTIES ({COPYING})")
        changes = pg.read_changes(handmade.spark, handmade.bootstrap, topic, schema=schema)
        pg.apply_changes(changes, target, schema=schema, using="iceberg", corrupt_to=aside)
    assert rows(lake.rows()) == {(1, "b", "x"): 1}
    assert rows(kept.rows(), "offset") == {(2,): 1, (4,): 1}


def test_a_history_that_iceberg_copies_on_write_ends_versions(spark: SparkSession, target: str) -> None:
    schema = table(TOPIC, ID, NAME)
    lake = lake_table(spark, target, "iceberg")
    history = HistoryTarget(lake, schema)
    written = [change("c", 10, after={"id": 1, "name": "a"}), change("c", 11, after={"id": 2, "name": "b"})]
    history.apply(changes_of(spark, schema, written), schema)
    spark.sql(f"ALTER TABLE {lake.name} SET TBLPROPERTIES ({COPYING})")
    written += [change("u", 12, after={"id": 1, "name": "A"}), change("d", 13, before={"id": 2})]
    history.apply(changes_of(spark, schema, written), schema)
    holding = lake.rows().where("__valid_to IS NULL").select("id", "name")
    assert {tuple(row) for row in holding.collect()} == {(1, "A")}
    assert lake.rows().count() == 3


def test_a_clustered_target_is_followed_over_its_checkpoints(spark: SparkSession, target: str) -> None:
    """To read one of version 2, Delta needs the session of the thread that asks for the properties."""
    altered = Altered(spark, target, "delta", table(TOPIC, ID, NAME))
    altered.batch(change("c", 10, after={"id": 1, "name": "a"}))
    altered.sql("ALTER TABLE {} CLUSTER BY (id)")
    altered.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')")
    altered.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    jvm: Any = spark._jvm
    for number in range(2, 6):
        altered.batch(change("c", 10 * number, after={"id": number, "name": "a"}))
        # As in another process, in the thread of a query.
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        jvm.org.apache.spark.sql.classic.SparkSession.clearActiveSession()
    assert altered.table.rows().count() == 5
