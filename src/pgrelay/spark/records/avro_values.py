"""Converting values that Spark decoded from Avro to the column's exact type; null if inexact."""

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    TimestampType,
)

from pgrelay.encode.values.numbers import declared_scale
from pgrelay.spark.records.decimals import integer_text
from pgrelay.spark.records.values import clock, local_timestamp
from pgrelay.spark.schemas.columns import Column
from pgrelay.spark.schemas.widening import same_as, widens


def converted(value: Expression, was: DataType, column: Column) -> Expression:
    """A decoded value of type `was` as the column's type."""
    to = column.spark_type
    if was == to:
        return value
    if isinstance(to, StringType):
        return _text(value, was, column)
    element = column.element
    if element is not None and isinstance(was, ArrayType):
        of = was.elementType
        lost = F.exists(value, lambda each: each.isNotNull() & converted(each, of, element).isNull())
        return F.when(~lost, F.transform(value, lambda each: converted(each, of, element)))
    return value.try_cast(to) if widens(was, to) else same_as(value, was, to)


def _text(value: Expression, was: DataType, column: Column) -> Expression:
    if isinstance(was, LongType) and column.type_name in ("time", "timetz"):
        return clock(value, "+00" if column.type_name == "timetz" else "")
    if isinstance(was, BinaryType) and column.type_name == "numeric":  # more digits than a decimal has
        return integer_text(F.hex(value), F.lit(max(declared_scale(column.type_modifier), 0)))
    if isinstance(was, BinaryType):
        return F.base64(value)
    if isinstance(was, ArrayType | MapType):
        return F.to_json(value)
    if isinstance(was, TimestampType):  # not in the session's time zone
        value = local_timestamp(F.unix_micros(value))
    return value.cast("string") if isinstance(was, DecimalType) else value.try_cast("string")
