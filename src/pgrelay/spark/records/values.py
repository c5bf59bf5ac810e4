"""Converting a JSON value's text to the column's exact type, with Spark's own expressions.

Each returns null for a value that is not exactly of the type; the caller distinguishes that from a value that
was null. Nothing is ever rounded. `from_json` itself would round 1.239 to a decimal(12,2), and read the year
44 BC as 44 AD.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from pgrelay.encode.types import DECIMAL_BASE64, EPOCH_DAYS, HEX, MICROS, VARIABLE_DECIMAL
from pgrelay.encode.values.numbers import declared_scale
from pgrelay.spark.records.decimals import decimal_text, exact_decimal, variable_decimal_text
from pgrelay.spark.schemas.columns import Column

# By default the parser refuses a number of a thousand digits, and a string of 20 MB.
JSON_OPTIONS: Final = {"maxNumLen": "200000", "maxStringLen": str(2**31 - 1)}

_DAY_US: Final = 86_400_000_000


def value_of(text: Expression, column: Column) -> Expression:
    """The value of a column from its JSON's text (a string without quotes); null if it is not exact."""
    if is_text(column):
        return text
    element = column.element
    if element is not None:
        return _array(text, element)
    to = column.spark_type
    if isinstance(to, StringType):
        return _string(text, column)
    if isinstance(to, DecimalType):
        digits = decimal_text(text, F.lit(to.scale)) if column.encoding == DECIMAL_BASE64 else text
        return exact_decimal(digits, to)
    if isinstance(to, BinaryType):
        return F.try_to_binary(text, F.lit("hex" if column.encoding == HEX else "base64"))
    if isinstance(to, MapType):
        return F.from_json(text, to.simpleString(), JSON_OPTIONS)
    if isinstance(to, DateType | TimestampType | TimestampNTZType):
        return _temporal(text, column.encoding, to)
    return text.try_cast(to)


def is_text(column: Column) -> bool:
    """Whether a value is its JSON's text, so that it can't be inexact."""
    plain = isinstance(column.spark_type, StringType) and not _decoded(column)
    return column.text or (plain and column.element is None)


def _array(text: Expression, element: Column) -> Expression:
    """Null also for two or more dimensions, which one array type can't tell apart from one dimension."""
    texts = F.when(~text.startswith("[["), F.from_json(text, "array<string>", JSON_OPTIONS))
    if is_text(element):
        return texts
    inexact = F.exists(texts, lambda each: each.isNotNull() & value_of(each, element).isNull())
    return F.when(~inexact, F.transform(texts, lambda each: value_of(each, element)))


def _decoded(column: Column) -> bool:
    """Whether a value's text has to be computed from its JSON."""
    return column.encoding in (MICROS, VARIABLE_DECIMAL, DECIMAL_BASE64)


def _string(text: Expression, column: Column) -> Expression:
    if column.encoding == VARIABLE_DECIMAL:
        return variable_decimal_text(text)
    if column.encoding == DECIMAL_BASE64:
        return decimal_text(text, F.lit(max(declared_scale(column.type_modifier), 0)))
    # microseconds of time and timetz, which Delta and Iceberg have no type for
    return clock(text.try_cast("bigint"), "+00" if column.type_name == "timetz" else "")


def clock(micros: Expression, zone: str = "") -> Expression:
    """The time of day as Postgres prints it, 14:54:02.5, from microseconds since midnight."""
    parts = [_whole(micros, 3_600_000_000), _whole(micros, 60_000_000) % 60, _whole(micros, 1_000_000) % 60]
    whole = F.concat_ws(":", *(F.lpad(part.cast("string"), 2, "0") for part in parts))
    fraction = F.rtrim(F.lpad((micros % 1_000_000).cast("string"), 6, "0"), F.lit("0"))
    point = F.when(fraction != "", F.concat(F.lit("."), fraction)).otherwise("")
    return F.when(micros.isNotNull(), F.concat(whole, point, F.lit(zone)))


def _temporal(text: Expression, encoding: str, to: DataType) -> Expression:
    if encoding == EPOCH_DAYS:
        return F.date_from_unix_date(text.try_cast("int"))
    if encoding == MICROS and isinstance(to, TimestampType):
        return F.timestamp_micros(text.try_cast("bigint"))
    if encoding == MICROS:
        return local_timestamp(text.try_cast("bigint"))
    # A cast ignores what follows the date, which in all that Postgres prints is only the mark BC.
    return F.when(~text.endswith("BC"), text.try_cast(to))


def local_timestamp(micros: Expression) -> Expression:
    """The timestamp so many microseconds after 1970, whatever the session's time zone."""
    within = F.pmod(micros, F.lit(_DAY_US))
    days = _whole(micros - within, _DAY_US).cast("int")
    seconds = (within.cast("decimal(18,0)") / 1_000_000).cast("decimal(18,6)")
    return F.lit("1970-01-01").cast("timestamp_ntz") + F.make_dt_interval(days, None, None, seconds)


def _whole(number: Expression, by: int) -> Expression:
    """The whole part of a division of integers; `/` would return a double."""
    return F.call_function("div", number, F.lit(by))
