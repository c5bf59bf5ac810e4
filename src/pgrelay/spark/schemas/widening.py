"""Which types hold all values of which others: to what a column's type may change without loss."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
)

from pgrelay.encode.encodings import STRING
from pgrelay.encode.values.numbers import declared_precision, declared_scale
from pgrelay.spark.names import sql_type
from pgrelay.spark.schemas.columns import Column

_EXACT: Final = (IntegralType, DecimalType)
_FLOATING: Final = (FloatType, DoubleType)
_AS_TEXT: Final = (*_EXACT, BooleanType, DateType, TimestampNTZType)

_INTEGERS: Final = ("smallint", "int", "bigint")
_DIGITS: Final = {"smallint": 5, "int": 10, "bigint": 19}

_WHOLE: Final = frozenset(["int2", "int4", "int8"])

_TEXTS: Final = frozenset(["text", "varchar", "citext"])
# When cast to text, these look different from the records, or depend on the session's settings.
_REFORMATTED: Final = frozenset(
    (
        *("bpchar", "char", "bool", "money", "interval", "timetz", "timestamptz", "inet", "cidr"),
        *("tsrange", "tstzrange", "tsmultirange", "tstzmultirange", "daterange", "datemultirange"),
        *("regproc", "regprocedure", "regoper", "regoperator", "regclass", "regtype", "regconfig"),
        *("regdictionary", "regnamespace", "regrole", "regcollation"),
    )
)
_TIMES: Final = frozenset(["time", "timetz", "timestamp", "timestamptz"])
_MICROSECONDS: Final = 6  # the digits of a time whose type declares none


def widens(was: DataType, now: DataType) -> bool:
    """Whether every value of one type is exactly a value of the other."""
    one, other = was.simpleString(), now.simpleString()
    if one == other:
        return True
    if isinstance(was, ArrayType) and isinstance(now, ArrayType):
        return widens(was.elementType, now.elementType)
    if one in _INTEGERS:
        if other in _INTEGERS:
            return _INTEGERS.index(one) < _INTEGERS.index(other)
        return isinstance(now, DecimalType) and now.precision - now.scale >= _DIGITS[one]
    if isinstance(was, DecimalType) and isinstance(now, DecimalType):
        whole = now.precision - now.scale >= was.precision - was.scale
        return whole and now.scale >= was.scale
    return one == "float" and other == "double"


def widened(value: str, was: Column, now: Column) -> str:
    """SQL of a value of an earlier type as one of a later type; null, so inexact, if it would differ."""
    if widens(was.spark_type, now.spark_type):
        return f"CAST({value} AS {sql_type(now.spark_type)})"
    return equal_value(value, was.spark_type, now.spark_type)


def equal_value(value: str, was: DataType, now: DataType) -> str:
    """SQL of a value of one type as the equal value of the other; null if there is none."""
    to = sql_type(now)
    if not _comparable(was, now):
        return f"CAST(NULL AS {to})"
    there = f"try_cast({value} AS {to})"
    return f"CASE WHEN try_cast({there} AS {sql_type(was)}) <=> {value} THEN {there} END"


def _comparable(was: DataType, now: DataType) -> bool:
    """Whether values of one type may equal values of the other, as Postgres writes them, in any session.

    Floating-point numbers are never read as text: Postgres writes 1, Spark 1.0.
    """
    if isinstance(was, ArrayType) and isinstance(now, ArrayType):
        return _comparable(was.elementType, now.elementType)
    if isinstance(now, StringType):
        return isinstance(was, _AS_TEXT)
    if isinstance(was, StringType):
        return isinstance(now, (*_AS_TEXT, *_FLOATING))
    numbers = (*_EXACT, *_FLOATING)
    days = (DateType, TimestampNTZType)
    return any(isinstance(was, kinds) and isinstance(now, kinds) for kinds in (numbers, days))


def rewrites_values(was: Column, now: Column) -> bool:
    """Whether Postgres rounds, cuts, pads or reformats existing values, though Spark's type holds them."""
    if (was.type_name, was.type_modifier) == (now.type_name, now.type_modifier):
        return False
    one, other = was.type_name, now.type_name
    if one.startswith("_") and other.startswith("_"):
        one, other = one[1:], other[1:]
    if was.type_oid == now.type_oid != 0:
        one = other  # the type was renamed
    kind = now.spark_type
    while isinstance(kind, ArrayType):
        kind = kind.elementType
    is_text = isinstance(kind, StringType)
    if one == other:
        return not _keeps_values(one, was.type_modifier, now.type_modifier, is_text=is_text)
    if is_text:
        return not _has_same_text(was, one, other, now.type_modifier)
    if other == "numeric":
        return one not in _WHOLE or (now.type_modifier >= 0 and declared_scale(now.type_modifier) < 0)
    return False


def declared_type(column: Column) -> str:
    """The type as it was declared: timestamp(0), numeric(8,2), int4."""
    name, modifier = column.type_name, column.type_modifier
    if modifier < 0:
        return name
    if name.removeprefix("_") == "numeric":
        return f"{name}({declared_precision(modifier)},{declared_scale(modifier)})"
    return f"{name}({modifier - 4 if name.removeprefix('_') in ('varchar', 'bpchar') else modifier})"


def _keeps_values(name: str, was: int, now: int, *, is_text: bool) -> bool:
    """Whether values of a type with one modifier stay the same with another."""
    if now < 0:
        return True
    if name in _TIMES and now >= _MICROSECONDS:
        return True
    if was < 0:
        return False
    if name == "numeric":
        scales = declared_scale(was), declared_scale(now)
        whole = declared_precision(now) - scales[1] >= declared_precision(was) - scales[0]
        return whole and (scales[0] == scales[1] if is_text else scales[0] <= scales[1])
    return name in (*_TIMES, "varchar", "varbit") and was <= now


def _has_same_text(was: Column, one: str, other: str, modifier: int) -> bool:
    """Whether values of one type have the same text in the other."""
    if (one, other) == ("jsonb", "json") or {one, other} <= _WHOLE:
        return True
    encoding = (was.element or was).encoding
    return other in _TEXTS and modifier < 0 and one not in _REFORMATTED and encoding in (STRING, "uuid")
