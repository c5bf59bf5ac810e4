"""Targets that follow a table's columns, and those that can't without a wrong value."""

from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

from pgrelay import spark as pg
from pgrelay.errors import RecordError, SetupError
from pgrelay.spark.lake import evolution
from pgrelay.spark.lake.evolution import evolve
from pgrelay.spark.lake.lookup import lake_table
from pgrelay.spark.lake.positions import Positions
from pgrelay.spark.lake.tables import LakeTable, Using
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.schema import TableSchema, TableVersion
from tests.spark.handmade_records import Topic, change, numeric, rows

ID = Column("id", "int4", key=True, encoding="integer")
A, B = Column("a", "text"), Column("b", "text")
REGION = Column("region", "int4", encoding="integer")

both_formats = pytest.mark.parametrize("using", ["delta", "iceberg"])


def versions(topic: Topic, *columns: list[Column]) -> TableSchema:
    """A schema whose versions begin at the LSNs 1, 101, 201, ..."""
    return schema_of(topic.name, *columns)


def schema_of(topic: str, *columns: list[Column]) -> TableSchema:
    """The same for a topic that need not exist."""
    known_versions = [TableVersion((1 + 100 * number, 0), tuple(each)) for number, each in enumerate(columns)]
    return TableSchema(topic, "public", "t", tuple(known_versions), "1")


def created(spark: SparkSession, target: str, using: Using, schema: TableSchema, *values: str) -> LakeTable:
    """A target with these rows."""
    table = lake_table(spark, target, using)
    kind = schema.row_type.add("__commit_lsn", LongType()).add("__seq", LongType())
    Positions.read(table, schema).create_target(kind, schema)
    spark.sql(f"INSERT INTO {table.name} VALUES {', '.join(f'({each}, 10, 0)' for each in values)}")
    return table


def apply(
    topic: Topic, schema: TableSchema, target: str, using: Using, since: int = 0, until: int = 9
) -> None:
    changes = topic.changes(schema).where(f"offset >= {since} AND offset < {until}")
    pg.apply_changes(changes, target, schema=schema, using=using)


def found(topic: Topic, target: str, using: Using) -> Counter[tuple[object, ...]]:
    return rows(topic.spark.table(f"iceberg.{target}" if using == "iceberg" else target))


@both_formats
def test_exchanged_columns_are_refused_while_there_are_rows(topic: Topic, target: str, using: Using) -> None:
    swapped = versions(topic, [ID, A, B], [ID, B, A])
    topic.write(change("c", 10, after={"id": 1, "a": "A", "b": "B"}))
    apply(topic, swapped.until((1, 0)), target, using)
    topic.write(change("u", 110, after={"id": 1, "b": "A", "a": "B"}))
    refused = r"from LSN 0/65 on, columns 'id', 'b', 'a' have another order.*; to go on, drop the target"
    with pytest.raises(SetupError, match=refused):
        apply(topic, swapped, target, using)
    # A new target does not accept the earlier values either.
    with pytest.raises(SetupError, match=r"partition 0 offset 0 is from before LSN 0/65; from that LSN on, "):
        apply(topic, swapped, f"{target}_new", using)


@both_formats
def test_a_column_name_may_change_its_case(topic: Topic, target: str, using: Using) -> None:
    upper, lower = Column("Name", "text"), Column("name", "text")
    # Two columns that are one to Spark; one is renamed, and then the other's case changes.
    known = versions(topic, [ID, upper, lower], [ID, upper, B], [ID, lower, B])
    topic.write(change("c", 10, after={"id": 1, "Name": "N", "name": "n"}))
    apply(topic, known.until((1, 0)), target, using)
    topic.write(change("c", 110, after={"id": 2, "Name": "M", "b": "m"}))
    apply(topic, known.until((101, 0)), target, using)
    topic.write(change("c", 210, after={"id": 3, "name": "O", "b": "o"}))
    apply(topic, known, target, using)
    assert found(topic, target, using) == Counter([(1, "N", "n"), (2, "M", "m"), (3, "O", "o")])


def test_a_name_is_free_before_it_is_taken_in_another_case(spark: SparkSession, target: str) -> None:
    known = schema_of("t", [ID, A, REGION, B], [ID, replace(REGION, name="A"), B])
    table = created(spark, target, "iceberg", known.until((1, 0)), "1, 'x', 7, 'b'")
    evolve(table, known, (1, 0), live=table.rows)
    assert rows(table.rows(), "id", "A", "b") == Counter([(1, 7, "b")])


@both_formats
def test_values_are_not_cast_to_a_target_with_other_types(topic: Topic, target: str, using: Using) -> None:
    schema = versions(
        topic, [ID, Column("d", "date", encoding="iso-date"), Column("n", "int2", encoding="integer")]
    )
    topic.write(change("c", 10, after={"id": 1, "d": "2026-11-22", "n": 1}))
    apply(topic, schema, target, using)
    topic.write(change("c", 11, after={"id": 2, "d": "0044-03-15 BC", "n": 1}))
    with pytest.raises(
        RecordError, match=r"'0044-03-15 BC' is not exactly a date, .* into a re-created target"
    ):
        apply(topic, schema, target, using)
    with pytest.raises(SetupError, match=r"column 'd' is string, but in .* it is date: drop the target"):
        apply(topic, schema.as_text("d"), target, using)


@both_formats
def test_a_target_without_rows_follows_any_change(topic: Topic, target: str, using: Using) -> None:
    swapped = versions(topic, [ID, A, B], [ID, B, A])
    topic.write(change("c", 10, after={"id": 1, "a": "A", "b": "B"}), change("d", 11, before={"id": 1}))
    apply(topic, swapped.until((1, 0)), target, using)
    table = lake_table(topic.spark, target, using)
    table.set_properties({"pgrelay.mirror": "mine"})
    topic.write(change("c", 110, after={"id": 2, "b": "A", "a": "B"}))
    apply(topic, swapped, target, using, since=2)
    assert found(topic, target, using) == Counter([(2, "A", "B")])
    assert table.properties()["pgrelay.mirror"] == "mine"


def test_a_new_key_column_is_refused_while_rows_lack_its_value(spark: SparkSession, target: str) -> None:
    keyed = replace(REGION, key=True)
    known = schema_of("t", [ID, A], [ID, A, REGION], [ID, A, keyed])
    table = created(spark, target, "delta", known.until((101, 0)), "1, 'A', 7", "2, 'B', NULL")
    with pytest.raises(SetupError, match=r"from LSN 0/C9 on, column 'region' is part of the key.*; to go on"):
        evolve(table, known, (101, 0), live=table.rows)
    # Changes are not merged into that row.
    evolve(table, known, (101, 0), live=lambda: table.rows().where("id = 1"))
    # No row has a value of the column that comes with the key, either.
    added = schema_of("t", [ID, A, REGION], [ID, A, REGION, replace(keyed, name="branch")])
    with pytest.raises(SetupError, match=r"from LSN 0/65 on, column 'branch' is part of the key"):
        evolve(table, added, (1, 0), live=table.rows)


def test_rows_of_a_recreated_table_do_not_join_those_of_the_old_one(topic: Topic, target: str) -> None:
    known = versions(topic, [ID, A], [ID, A])
    one, other = known.versions
    known = replace(known, versions=(replace(one, relation=1), replace(other, relation=2)))
    topic.write(change("c", 10, after={"id": 1, "a": "A"}))
    apply(topic, known.until((1, 0)), target, "delta")
    topic.write(change("c", 110, after={"id": 2, "a": "B"}))
    with pytest.raises(SetupError, match=r"from LSN 0/65 on, the rows are another table's.*; to go on, drop"):
        apply(topic, known, target, "delta")
    # A table emptied before it was dropped leaves no rows behind.
    topic.write(change("t", 90))
    apply(topic, known.until((1, 0)), target, "delta", since=2)
    apply(topic, known, target, "delta", since=1)
    assert found(topic, target, "delta") == Counter([(2, "B")])


def test_a_column_with_a_dropped_ones_name_survives_a_kill_in_between(
    spark: SparkSession, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = schema_of("t", [ID, A, B], [ID, B], [ID, A])
    table = created(spark, target, "delta", known.until((1, 0)), "1, 'A', 'B'")
    with monkeypatch.context() as killed:
        killed.setattr(evolution, "require_columns", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception, match="killed"):
            evolve(table, known, (1, 0), live=table.rows)
    since = Positions.read(table, known).schema_position
    assert since is not None
    evolve(table, known, since, live=table.rows)
    assert rows(table.rows()) == Counter([(1, "B")])


@both_formats
def test_a_column_that_somebody_dropped_from_the_target_is_named(
    spark: SparkSession, target: str, using: Using
) -> None:
    known = schema_of("t", [ID, A], [ID, A, B])
    table = created(spark, target, using, known.until((1, 0)), "1, 'A'")
    spark.sql(f"ALTER TABLE {table.name} DROP COLUMN a")
    with pytest.raises(SetupError, match=r"^t: column 'a' is string, but in .* it is missing"):
        evolve(table, known, (1, 0), live=table.rows)


def test_dropped_columns_that_a_history_keeps_make_way_for_their_names(
    spark: SparkSession, target: str
) -> None:
    number = replace(REGION, name="a")
    known_versions: list[tuple[tuple[int, int], list[Column]]] = [
        *[((1, 0), [ID, A]), ((101, 1), [ID]), ((101, 3), [ID, number]), ((101, 5), [ID])],  # one transaction
        *[((101, 7), [ID, A]), ((201, 0), [ID, replace(number, name="A")])],  # one statement
    ]
    known = replace(
        schema_of("t"), versions=tuple(TableVersion(at, tuple(columns)) for at, columns in known_versions)
    )
    table = created(spark, target, "iceberg", known.until((1, 0)), "1, 'x'")
    evolve(table, known, (1, 0), live=table.rows, keep_dropped=True)
    asides = ["a__before_0_65", "a__before_0_65_7", "a__before_0_C9"]
    assert table.rows().columns == ["id", asides[0], "__commit_lsn", "__seq", *asides[1:], "A"]
    assert rows(table.rows(), "id", *asides, "A") == Counter([(1, "x", None, None, None)])


def test_a_type_change_that_iceberg_lacks_is_refused_while_there_are_rows(
    spark: SparkSession, topic: Topic, target: str
) -> None:
    number = Column("n", "int4", encoding="integer")
    wide = replace(number, type_name="numeric", type_modifier=numeric(12, 0), encoding="string")
    known = versions(topic, [ID, number], [ID, wide])
    topic.write(change("c", 10, after={"id": 1, "n": 5}), change("c", 110, after={"id": 2, "n": "6"}))
    apply(topic, known.until((1, 0)), target, "iceberg", until=1)
    message = (
        r"iceberg can't follow the change of column 'n' at LSN 0/65: Cannot .*int -> decimal.*; to go on, d"
    )
    with pytest.raises(SetupError, match=message):
        apply(topic, known, target, "iceberg", since=1)
    spark.sql(f"DELETE FROM iceberg.{target}")
    apply(topic, known, target, "iceberg", since=1)
    assert found(topic, target, "iceberg") == Counter([(2, 6)])


@pytest.mark.parametrize(
    ("was", "now", "change"),
    [
        (replace(REGION, type_name="int8"), REGION, "was bigint and is int"),
        (A, replace(REGION, name="a"), "was string and is int"),
        (replace(REGION, name="a"), A, "was int and is string"),
    ],
    ids=["int8 to int4", "text to int4", "int4 to text"],
)
def test_a_type_that_does_not_hold_the_values_is_refused_while_there_are_rows(
    spark: SparkSession, target: str, was: Column, now: Column, change: str
) -> None:
    known = schema_of("t", [ID, was], [ID, now])
    table = created(spark, target, "iceberg", known.until((1, 0)), "1, 5")
    lost = (
        rf"^t: column '{now.name}' {change} from LSN 0/65 on, and not all of its values can be carried over "
        "as they are; to go on, drop"
    )
    with pytest.raises(SetupError, match=lost):
        evolve(table, known, (1, 0), live=table.rows)
    assert table.rows().schema[was.name].dataType == was.spark_type


def test_a_type_without_a_cast_in_spark_is_refused_while_there_are_rows(topic: Topic, target: str) -> None:
    known = versions(topic, [ID, A], [ID, Column("a", "_text", encoding="array<string>")])
    topic.write(
        change("c", 10, after={"id": 1, "a": "x,y"}), change("c", 110, after={"id": 2, "a": ["x", "y"]})
    )
    apply(topic, known.until((1, 0)), target, "iceberg", until=1)
    with pytest.raises(
        SetupError, match=r"column 'a' was string and is array<string> from LSN 0/65 on.*; to go on"
    ):
        apply(topic, known, target, "iceberg", since=1)


@both_formats
def test_an_arrays_elements_may_widen(spark: SparkSession, target: str, using: Using) -> None:
    narrow = Column("n", "_int4", encoding="array<integer>")
    known = schema_of("t", [ID, narrow], [ID, replace(narrow, type_name="_int8")])
    table = created(spark, target, using, known.until((1, 0)), "1, array(1, NULL)")
    evolve(table, known, (1, 0), live=table.rows)
    spark.sql(f"INSERT INTO {table.name} VALUES (2, array({2**40}), 110, 0)")
    lists = table.rows().select("id", "n").collect()
    assert {row["id"]: row["n"] for row in lists} == {1: [1, None], 2: [2**40]}
