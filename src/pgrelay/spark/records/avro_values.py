"""Converting values that Spark decoded from Avro to the column's exact type, in SQL; null if inexact."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from pgrelay.encode.values.numbers import declared_scale
from pgrelay.spark.names import sql_type
from pgrelay.spark.records.decimals import integer_text
from pgrelay.spark.records.sql import when
from pgrelay.spark.records.values import local_timestamp, time_of_day
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.widening import equal_value, widens


def converted(value: str, was: DataType, column: Column) -> str:
    """A decoded value of type `was` as the column's type."""
    to = column.spark_type
    if was == to:
        return value
    if isinstance(to, StringType):
        return _text(value, was, column)
    element = column.element
    if element is not None and isinstance(was, ArrayType):
        one = converted("each", was.elementType, element)
        lost = f"exists({value}, each -> each IS NOT NULL AND {one} IS NULL)"
        return when(f"NOT {lost}", f"transform({value}, each -> {one})")
    return f"try_cast({value} AS {sql_type(to)})" if widens(was, to) else equal_value(value, was, to)


def _text(value: str, was: DataType, column: Column) -> str:
    if isinstance(was, LongType) and column.type_name in ("time", "timetz"):
        return time_of_day(value, "+00" if column.type_name == "timetz" else "")
    if isinstance(was, BinaryType) and column.type_name == "numeric":  # more digits than a decimal has
        return integer_text(f"hex({value})", str(max(declared_scale(column.type_modifier), 0)))
    if isinstance(was, BinaryType):
        return f"base64({value})"
    value = _timestamps_as_text(value, was)
    if isinstance(was, ArrayType | MapType):
        return f"to_json({value})"
    return f"CAST({value} AS string)" if isinstance(was, DecimalType) else f"try_cast({value} AS string)"


def _timestamps_as_text(value: str, was: DataType) -> str:
    """The value with texts in place of timestamps, which `to_json` would cut to milliseconds in arrays."""
    if isinstance(was, ArrayType):
        each = _timestamps_as_text("each", was.elementType)
        return value if each == "each" else f"transform({value}, each -> {each})"
    if isinstance(was, TimestampType):  # not in the session's time zone
        value = local_timestamp(f"unix_micros({value})")
    return f"CAST({value} AS string)" if isinstance(was, TimestampType | TimestampNTZType) else value
