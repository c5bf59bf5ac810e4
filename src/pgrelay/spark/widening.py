"""Which types another holds every value of: what a column's type may change to without loss."""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType

from pgrelay.spark.columns import Column

_INTEGERS: Final = ("smallint", "int", "bigint")
_DIGITS: Final = {"smallint": 5, "int": 10, "bigint": 19}


def widens(was: DataType, now: DataType) -> bool:
    """Whether every value of one type is exactly one of the other."""
    one, other = was.simpleString(), now.simpleString()
    if one == other:
        return True
    if one in _INTEGERS:
        if other in _INTEGERS:
            return _INTEGERS.index(one) < _INTEGERS.index(other)
        return isinstance(now, DecimalType) and now.precision - now.scale >= _DIGITS[one]
    if isinstance(was, DecimalType) and isinstance(now, DecimalType):
        whole = now.precision - now.scale >= was.precision - was.scale
        return whole and now.scale >= was.scale
    return one == "float" and other == "double"


def widened(value: Expression, was: Column, now: Column) -> Expression:
    """A value of an earlier type as one of a later; null, which counts as inexact, where it differs."""
    if widens(was.spark_type, now.spark_type):
        return value.cast(now.spark_type)
    there = value.try_cast(now.spark_type)
    return F.when(there.try_cast(was.spark_type).eqNullSafe(value), there)
