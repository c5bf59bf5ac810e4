"""Values of single columns, from the JSON that the relay writes to Spark's own types."""

import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, TimestampNTZType, TimestampType

from pgrelay.encode.values.numbers import decimal_base64
from pgrelay.spark.records.avro_values import converted
from pgrelay.spark.records.documents import value_of_document
from pgrelay.spark.records.sql import alias, parse_columns
from pgrelay.spark.records.values import value_of
from pgrelay.spark.schemas.columns import Column
from tests.spark.handmade_records import as_tuples, numeric

DOCUMENT = Column("v", "jsonb", encoding="json")


def precise(precision: int, scale: int) -> Column:
    return Column("v", "numeric", numeric(precision, scale), encoding="decimal-base64")


def written(digits: str, scale: int) -> str:
    """A numeric under `numeric: precise`, without the quotes."""
    return str(json.loads(decimal_base64(scale)(digits.encode())))


def read(spark: SparkSession, value: str, *texts: str) -> list[Any]:
    """What the SQL `value` makes of each `text`."""
    rows = as_tuples(spark, enumerate(texts), "number int, text string")
    columns = parse_columns(spark, ["number", alias(value, "v")])
    return [row.v for row in rows.select(*columns).orderBy("number").collect()]


@pytest.mark.parametrize(
    ("column", "scale", "digits"),
    [
        (precise(8, 2), 2, ["4.50", "-0.01", "0.00", "999999.99", "-999999.99"]),
        (precise(5, -2), -2, ["12300", "-200", "0", "9999900"]),
        (precise(3, 5), 5, ["0.00999", "-0.00001"]),
        (precise(38, 0), 0, ["9" * 38, "-1" + "0" * 37, str(-(2**64)), str(2**64 - 1)]),
        (precise(38, 38), 38, ["0." + "9" * 38, "-0." + "1" * 38]),
    ],
    ids=["plain", "negative scale", "large scale", "38 digits", "38 behind the point"],
)
def test_precise_numerics_are_exact(
    spark: SparkSession, column: Column, scale: int, digits: list[str]
) -> None:
    found = read(spark, value_of("text", column), *(written(each, scale) for each in digits))
    assert found == [Decimal(each) for each in digits]


def test_nan_is_no_precise_numeric(spark: SparkSession) -> None:
    """Its three letters are base64, too, of 137.31."""
    assert read(spark, value_of("text", precise(8, 2)), "NaN", "AcI=") == [None, Decimal("4.50")]
    array = Column("v", "_numeric", numeric(8, 2), encoding="array<decimal-base64>")
    assert read(spark, value_of("text", array), '["NaN","AcI="]', '["AcI=",null]') == [
        None,
        [Decimal("4.50"), None],
    ]


def test_a_numeric_with_more_digits_than_spark_has_keeps_nan_as_a_text(spark: SparkSession) -> None:
    wide = value_of("text", precise(50, 2))
    assert read(spark, wide, "NaN", written("4.50", 2), written("9" * 40, 2)) == ["NaN", "4.50", None]
    hundreds = value_of("text", precise(50, -2))
    assert read(spark, hundreds, written("0", -2), written("-12300", -2)) == ["0", "-12300"]


@pytest.mark.parametrize(
    "text",
    [
        '{"mac":"00:1E:C2:9E:28:6B"}',
        '{"ip":"2001:DB8:85A3:3E::1","codes":"A7,3E,4F"}',
        r'["a",":1E5","\":1E5\"","\\",[1.5,-0]]',
        '["Infinity",1.5]',
        '{":1E5":1}',
        json.dumps(["," * 100_000 + '1E5"' * 50_000]),
    ],
)
def test_a_string_that_looks_like_a_rounded_number_is_none(spark: SparkSession, text: str) -> None:
    [found] = read(spark, value_of_document("text", "parse_json(text)", DOCUMENT), text)
    assert json.loads(found) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        *("1E5", '{"a":"x","b":-1.5e300}', f"[{10**40}]", '["1",[2,1E400]]', '["x",1e5]'),
        *(f'["x",{10**400}]', f'["x",0.{"1" * 40}]'),
    ],
)
def test_a_document_with_a_number_that_became_a_double_is_inexact(spark: SparkSession, text: str) -> None:
    [found] = read(spark, value_of_document("text", "try_parse_json(text)", DOCUMENT), text)
    assert found is None


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_arrays_of_timestamps_keep_their_microseconds_as_text(spark: SparkSession, kind: str) -> None:
    column = Column("v", f"_{kind}", encoding=f"array<{kind}-micros>", text=True)
    element = TimestampType() if kind == "timestamptz" else TimestampNTZType()
    value = "timestamp_micros(1500000123456)"
    if kind == "timestamp":
        value = f"CAST({value} AS timestamp_ntz)"
    text = "1970-01-18 08:40:00.123456"
    one = converted(f"array({value}, NULL)", ArrayType(element), column)
    two = converted(f"array(array({value}))", ArrayType(ArrayType(element)), column)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if kind == "timestamptz":
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert [json.loads(read(spark, each, "")[0]) for each in (one, two)] == [[text, None], [[text]]]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
