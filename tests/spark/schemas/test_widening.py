"""Which type changes of a column keep every value, in Postgres and in Spark."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pgrelay.spark.names import sql_type
from pgrelay.spark.records.sql import alias, constant_array
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.widening import declared_type, rewrites_values, widened, widens
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
def test_a_widening_keeps_every_value(was: Column, now: Column) -> None:
    assert widens(was.spark_type, now.spark_type)
    assert not rewrites_values(was, now)


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
        (Column("v", "daterange", encoding="string"), TEXT),
        (Column("v", "regclass", encoding="string"), TEXT),
        (Column("v", "json", encoding="json"), TEXT),
        (Column("v", "float8", encoding="double"), Column("v", "numeric", encoding="double")),
        (
            Column("v", "_text", encoding="array<string>"),
            Column("v", "_varchar", 7, encoding="array<string>"),
        ),
    ],
)
def test_changes_that_postgres_rewrites_are_recognized(was: Column, now: Column) -> None:
    assert widens(was.spark_type, now.spark_type)
    assert rewrites_values(was, now)


FLOAT, BYTES = Column("v", "float8", encoding="number"), Column("v", "bytea", encoding="base64")
BOOLEAN, DAY = Column("v", "bool", encoding="boolean"), Column("v", "date", encoding="iso-date")
INSTANT = Column("v", "timestamptz", encoding="iso-timestamp")
TEXTS, INTEGERS = (
    Column("v", f"_{of}", encoding=f"array<{to}>") for of, to in (("text", "string"), ("int4", "integer"))
)
PAIRS = Column("v", "hstore", encoding="map<string>")
NUMBER = integer("int4")

# An earlier value in SQL, its old and new column, and what is read; None means inexact.
CONVERSIONS: list[tuple[str, Column, Column, Any]] = [
    ("7", NUMBER, TEXT, "7"),
    ("7", TEXT, NUMBER, 7),
    ("07", TEXT, NUMBER, None),
    ("1.50", number(8, 2), TEXT, "1.50"),
    ("true", BOOLEAN, TEXT, "true"),
    ("2026-11-23", DAY, TEXT, "2026-11-23"),
    ("2026-11-23", DAY, at(), datetime(2026, 11, 23)),
    ("2026-11-23 01:00:00", at(), DAY, None),
    ("2026-11-23 01:02:03.5", at(), TEXT, "2026-11-23 01:02:03.5"),
    ("5", integer("int8"), NUMBER, 5),
    ("5000000000", integer("int8"), NUMBER, None),
    ("1.5", TEXT, FLOAT, 1.5),
    # Postgres prints 1, and Spark has 1.0.
    ("1", FLOAT, TEXT, None),
    # Read in the session's zone.
    ("2026-11-23 01:00:00", INSTANT, TEXT, None),
    ("2026-11-23 01:00:00", INSTANT, at(), None),
    ("2026-11-23 01:00:00", at(), INSTANT, None),
    # Postgres prints bytes as digits, and does not convert a number to a time.
    ("ab", BYTES, TEXT, None),
    ("ab", TEXT, BYTES, None),
    ("7", NUMBER, INSTANT, None),
    # Spark has no such cast, and its plan would fail.
    ("7", NUMBER, DAY, None),
    ("{a}", TEXT, TEXTS, None),
    ("{a}", TEXT, PAIRS, None),
]


def test_a_value_of_an_earlier_type_is_read_only_if_it_is_exact(
    spark: SparkSession,
) -> None:
    written = [f"CAST('{text}' AS {sql_type(was.spark_type)})" for text, was, *_ in CONVERSIONS]
    read = [widened(value, was, now) for value, (_, was, now, _) in zip(written, CONVERSIONS, strict=True)]
    found = spark.range(1).selectExpr(*(alias(value, f"c{n}") for n, value in enumerate(read)))
    assert list(found.collect()[0]) == [value for *_, value in CONVERSIONS]
    assert [kind for _, kind in found.dtypes] == [
        now.spark_type.simpleString() for _, _, now, _ in CONVERSIONS
    ]


def test_arrays_are_converted_by_their_elements(spark: SparkSession) -> None:
    kept, lost = constant_array(["1", "2"]), constant_array(["1", "x"])
    found = spark.range(1).selectExpr(
        *(alias(widened(each, TEXTS, INTEGERS), f"c{n}") for n, each in enumerate((kept, lost)))
    )
    assert list(found.collect()[0]) == [[1, 2], None]


def test_a_type_is_printed_as_declared() -> None:
    columns = [TEXT, varchar(20), at(0), number(8, -2), Column("v", "_bpchar", 14)]
    printed = ["text", "varchar(20)", "timestamp(0)", "numeric(8,-2)", "_bpchar(10)"]
    assert [declared_type(column) for column in columns] == printed
