"""Which changes of a column's type leave every value as it was, in Postgres and in Spark."""

import pytest

from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.widening import declared, rewritten, widens
from tests.spark.handmade_records import numeric


def varchar(length: int) -> Column:
    return Column("v", "varchar", length + 4)


def at(digits: int = -1) -> Column:
    return Column("v", "timestamp", digits, encoding="iso-timestamp")


def number(precision: int, scale: int) -> Column:
    return Column("v", "numeric", numeric(precision, scale))


def integer(name: str) -> Column:
    return Column("v", name, encoding="integer")


TEXT, JSON, JSONB, UUID = (Column("v", name) for name in ("text", "json", "jsonb", "uuid"))
MOOD = Column("v", "mood", type_oid=16400)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (varchar(20), varchar(30)),
        (varchar(20), Column("v", "varchar")),
        (varchar(20), TEXT),
        (TEXT, Column("v", "citext")),
        (at(0), at(3)),
        (at(3), at()),
        (at(), at(6)),
        (number(8, 2), number(12, 4)),
        (number(50, 2), number(60, 2)),
        (number(50, 2), Column("v", "numeric")),
        (number(5, -2), number(7, 0)),
        (integer("int4"), integer("int8")),
        (integer("int8"), integer("oid")),
        (integer("int4"), number(12, 2)),
        (
            Column("v", "int2", encoding="integer", text=True),
            Column("v", "int4", encoding="integer", text=True),
        ),
        (JSON, TEXT),
        (JSONB, JSON),
        (UUID, TEXT),
        (Column("v", "numeric"), TEXT),
        (MOOD, TEXT),
        (MOOD, Column("v", "feeling", type_oid=16400)),  # ALTER TYPE mood RENAME
        (
            Column("v", "_varchar", 24, encoding="array<string>"),
            Column("v", "_text", encoding="array<string>"),
        ),
        (
            Column("v", "_int4", encoding="array<integer>"),
            Column("v", "_int8", encoding="array<integer>"),
        ),
    ],
)
def test_what_only_grows_keeps_its_values(was: Column, now: Column) -> None:
    assert widens(was.spark_type, now.spark_type)
    assert not rewritten(was, now)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (varchar(20), varchar(3)),
        (TEXT, varchar(20)),
        (TEXT, Column("v", "bpchar", 14)),
        (Column("v", "bpchar", 14), Column("v", "bpchar", 24)),
        (Column("v", "bpchar", 14), TEXT),
        (at(), at(0)),
        (at(3), at(0)),
        (Column("v", "numeric"), number(50, 2)),
        (number(50, 2), number(60, 4)),  # a text in Spark, with more digits
        (number(7, 0), number(6, -2)),  # a decimal that holds more, rounded to hundreds
        (integer("int4"), number(10, -2)),
        (JSON, JSONB),
        (TEXT, UUID),
        (TEXT, MOOD),
        (MOOD, Column("v", "feeling", type_oid=16500)),
        (Column("v", "interval", encoding="string"), TEXT),
        (Column("v", "json", encoding="json"), TEXT),
        (Column("v", "float8", encoding="double"), Column("v", "numeric", encoding="double")),
        (
            Column("v", "_text", encoding="array<string>"),
            Column("v", "_varchar", 7, encoding="array<string>"),
        ),
    ],
)
def test_what_postgres_rounds_cuts_pads_or_words_anew_is_told(was: Column, now: Column) -> None:
    assert widens(was.spark_type, now.spark_type)
    assert rewritten(was, now)


def test_a_type_is_told_as_it_was_declared() -> None:
    columns = [TEXT, varchar(20), at(0), number(8, -2), Column("v", "_bpchar", 14)]
    told = ["text", "varchar(20)", "timestamp(0)", "numeric(8,-2)", "_bpchar(10)"]
    assert [declared(column) for column in columns] == told
