"""Schemas without Spark: ordered versions, renames, a column's lineage, and colliding names."""

from dataclasses import replace

import pytest
from pyspark.sql.types import ArrayType, DecimalType, IntegerType, LongType, StringType, TimestampType

from pgrelay.errors import SetupError
from pgrelay.spark.schemas import schema as schema_module
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.renames import Columns, Renames, find_renames
from pgrelay.spark.schemas.schema import TableSchema, TableVersion, distinct_versions
from tests.spark.handmade_records import numeric, table

ID = Column("id", "int4", key=True, encoding="integer")
TITLE = Column("title", "text")
PRICE = Column("price", "numeric", numeric(8, 2))


def version(lsn: int, *columns: Column) -> TableVersion:
    return TableVersion((lsn, 0), columns)


def schema(*versions: TableVersion) -> TableSchema:
    return TableSchema("app.public.t", "public", "t", versions)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (ID, IntegerType()),
        (PRICE, DecimalType(8, 2)),
        (Column("n", "numeric"), StringType()),
        (Column("n", "numeric", numeric(50, 2)), StringType()),
        (Column("n", "numeric", numeric(5, -2)), DecimalType(7, 0)),
        (Column("n", "numeric", numeric(3, 5)), DecimalType(5, 5)),
        (Column("n", "oid", encoding="integer"), LongType()),
        (Column("n", "timestamptz", encoding="iso-timestamp"), TimestampType()),
        (Column("n", "timestamptz", encoding="string"), StringType()),  # masked or hashed
        (Column("n", "timetz", encoding="iso-time"), StringType()),
        (Column("n", "_int4", encoding="array<integer>"), ArrayType(IntegerType())),
        (Column("n", "_int4", encoding="array<array<int>>"), ArrayType(ArrayType(IntegerType()))),
        (Column("n", "_jsonb", encoding="array<json>"), StringType()),
        (Column("n", "mood"), StringType()),
    ],
)
def test_each_column_has_its_spark_type(column: Column, expected: object) -> None:
    assert column.spark_type == expected


def test_a_repeated_schema_is_one_version() -> None:
    first, second = version(10, ID), version(30, ID, TITLE)
    assert distinct_versions([first, version(20, ID), second, version(40, ID, TITLE)]) == (first, second)


def test_versions_are_ordered_by_position_not_by_arrival() -> None:
    first, second = version(10, ID), version(30, ID, TITLE)
    assert distinct_versions([first, second, version(20, ID)]) == (first, second)


def test_another_relation_with_the_same_columns_is_another_version() -> None:
    one, other = (replace(version(lsn, ID, TITLE), relation=lsn) for lsn in (10, 20))
    assert distinct_versions([one, replace(one, position=(15, 0)), other]) == (one, other)


def test_rows_from_before_a_table_was_recreated_are_in_doubt() -> None:
    one, other = (replace(version(lsn, ID, TITLE), relation=lsn) for lsn in (10, 20))
    doubt = "the rows are another table's, which was re-created or renamed to that name"
    assert schema(one, other).doubts() == [((20, 0), doubt)]
    assert schema(one, replace(other, relation=10)).doubts() == []
    assert schema(replace(one, relation=0), other).doubts() == []  # as from the catalogue


def test_values_from_before_a_type_change_with_a_rewrite_are_in_doubt() -> None:
    at = Column("at", "timestamp", encoding="iso-timestamp")
    on = replace(at, name="on", type_modifier=0)
    renamed = schema(version(10, ID, at, PRICE), version(20, ID, on, PRICE), version(30, ID, on, TITLE))
    doubt = "column 'on' is timestamp(0) and was timestamp, so existing values may have changed"
    assert renamed.doubts()[0] == ((20, 0), doubt)
    wider = replace(PRICE, type_modifier=numeric(12, 2))
    assert schema(version(10, ID, PRICE), version(20, ID, wider)).doubts() == []


def test_a_columns_lineage_begins_where_it_was_added() -> None:
    again = Column("title", "int8", encoding="integer")
    known = schema(version(1, ID, TITLE), version(2, ID), version(3, ID, again))
    assert known.lineage("title") == [((3, 0), again)]


def test_a_columns_lineage_follows_renames_and_type_changes() -> None:
    name, wide = Column("name", "text"), Column("price", "numeric", numeric(12, 2))
    known = schema(version(1, ID, TITLE, PRICE), version(2, ID, name, PRICE), version(3, ID, name, wide))
    assert known.lineage("name") == [((1, 0), TITLE), ((2, 0), name)]
    assert known.lineage("price") == [((1, 0), PRICE), ((3, 0), wide)]
    assert known.until((2, 5)).columns == (ID, name, PRICE)
    assert known.until((0, 0)).columns == (ID, TITLE, PRICE)


@pytest.mark.parametrize("name", ["at", "on"])
def test_a_column_read_as_text_is_so_under_all_its_names(name: str) -> None:
    at = Column("at", "timestamptz", encoding="iso-timestamp")
    on, due = replace(at, name="on"), replace(at, name="due")
    known = schema(version(1, ID, at, due), version(2, ID, on, due), version(3, ID, on, due, at)).as_text(
        name
    )
    texts = [[column.name for column in each.columns if column.text] for each in known.versions]
    assert texts == [["at"], ["on"], ["on", "at"] if name == "at" else ["on"]]
    # Otherwise the rename would be taken for a drop and an add.
    last = schema(version(1, ID, at), version(2, ID, on)).as_text(name)
    assert last.became(*last.versions) == {"id": "id", "at": "on"}


def test_columns_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(SetupError, match="'id' and 'ID' are the same"):
        table("app.public.t", ID, Column("ID", "text")).refuse_clash()


def test_a_column_named_like_one_of_ours_is_refused() -> None:
    with pytest.raises(SetupError, match="pgrelay adds a column named '__seq' itself"):
        table("app.public.t", ID, Column("__seq", "int4")).refuse_clash()


@pytest.mark.parametrize("kind", ["hstore", "_hstore"])
def test_an_hstore_in_the_key_is_refused_unless_it_is_read_as_text(kind: str) -> None:
    encoding = "hstore" if kind == "hstore" else "array<hstore>"
    known = table("app.public.t", Column("tags", kind, key=True, encoding=encoding))
    with pytest.raises(SetupError, match=r"column 'tags' is hstore and part of the key, .*: read it as text"):
        known.refuse_clash()
    known.as_text("tags").refuse_clash()
    table("app.public.t", ID, Column("tags", kind, encoding=encoding)).refuse_clash()


def test_a_version_that_spark_can_not_represent_is_skipped() -> None:
    twice = (ID, Column("ID", "text"))
    known = schema(version(10, *twice), version(20, ID, TITLE), version(30, *twice), version(40, ID, PRICE))
    ends = [known.until((lsn, 0)).latest.position[0] for lsn in (5, 10, 20, 30, 40)]
    assert ends == [20, 20, 20, 40, 40]
    known.until((10, 0)).refuse_clash()
    with pytest.raises(SetupError, match="are the same"):
        schema(version(10, ID), version(20, *twice)).until((20, 0)).refuse_clash()


def test_became_follows_columns_over_several_versions() -> None:
    first, last = version(1, ID, TITLE, PRICE), version(3, ID, Column("Title", "text"))
    known = schema(first, version(2, ID, TITLE, Column("Title", "text")), last)
    assert known.became(first, last) == {"id": "id"}


def test_names_now_maps_earlier_names_to_current_ones() -> None:
    big, large = Column("big", "text"), Column("large", "text")
    known = schema(version(1, ID, big, PRICE), version(2, ID, large, PRICE), version(3, ID, large, big))
    assert known.names_now() == [
        ((1, 0), {"big": "large", "price": None}),
        ((2, 0), {"price": None}),
        ((3, 0), {}),
    ]


def test_each_pair_of_versions_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror asks for all columns in every batch, and a table may have been altered a hundred times."""
    compared = []

    def counted(earlier: Columns, later: Columns) -> Renames:
        compared.append((earlier, later))
        return find_renames(earlier, later)

    monkeypatch.setattr(schema_module, "find_renames", counted)
    more = [Column(f"c{number}", "text") for number in range(9)]
    known = schema(*(version(10 * number, ID, *more[:number]) for number in range(10)))
    for column in known.columns:
        known.lineage(column.name)
    known.names_now(), known.doubts(), known.became(known.versions[0], known.latest)
    assert len(compared) == 9


def test_a_column_that_is_not_in_force_has_no_lineage() -> None:
    assert schema(version(10, ID, TITLE), version(20, ID)).lineage("title") == []


def test_reading_an_unknown_column_as_text_is_refused() -> None:
    with pytest.raises(SetupError, match="no column 'nope'; there are id, title"):
        table("app.public.t", ID, TITLE).as_text("nope")


def test_a_schema_prints_as_its_columns() -> None:
    known = table("app.public.t", ID, PRICE)
    assert str(known) == "app.public.t from 0/1: id int, price decimal(8,2); key (id)"


@pytest.mark.parametrize(
    ("column", "toastable"),
    [
        (Column("c", "money", type_oid=790), False),
        (Column("c", "money"), False),
        (Column("c", "money", type_oid=16_384), True),
        (Column("c", "text", type_oid=25), True),
        (Column("c", "text", type_oid=25, key=True), False),
    ],
)
def test_a_type_of_ones_own_may_be_large_whatever_its_name(column: Column, toastable: bool) -> None:
    """CREATE TYPE app.money AS (amount numeric, note text), whose value an update may leave out."""
    assert column.toastable == toastable
