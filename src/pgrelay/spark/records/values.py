"""Converting a JSON value's text to the column's exact type, with Spark's own functions, in SQL.

Each returns null for a value that is not exactly of the type; the caller distinguishes that from a value that
was null. Nothing is ever rounded. `from_json` itself would round 1.239 to a decimal(12,2), and read the year
44 BC as 44 AD.
"""

from typing import Final

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

from pgrelay.encode.encodings import DECIMAL_BASE64, EPOCH_DAYS, HEX, MICROS, VARIABLE_DECIMAL
from pgrelay.encode.values.numbers import declared_scale
from pgrelay.spark.names import sql_type
from pgrelay.spark.records.decimals import declared_decimal_text, exact_decimal, variable_decimal_text
from pgrelay.spark.records.sql import from_json, when
from pgrelay.spark.schemas.columns import Column

_DAY_US: Final = 86_400_000_000


def value_of(text: str, column: Column) -> str:
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
        return exact_decimal(_digits(text, column) if column.encoding == DECIMAL_BASE64 else text, to)
    if isinstance(to, BinaryType):
        return f"try_to_binary({text}, '{'hex' if column.encoding == HEX else 'base64'}')"
    if isinstance(to, MapType):
        return from_json(text, to.simpleString())
    if isinstance(to, DateType | TimestampType | TimestampNTZType):
        return _temporal(text, column.encoding, to)
    return f"try_cast({text} AS {sql_type(to)})"


def is_text(column: Column) -> bool:
    """Whether a value is its JSON's text, so that it can't be inexact."""
    plain = isinstance(column.spark_type, StringType) and not _decoded(column)
    return column.text or (plain and column.element is None)


def _array(text: str, element: Column) -> str:
    """Null also for two or more dimensions, which one array type can't tell apart from one dimension."""
    texts = when(f"NOT startswith({text}, '[[')", from_json(text, "array<string>"))
    if is_text(element):
        return texts
    value = value_of("each", element)
    inexact = f"exists({texts}, each -> each IS NOT NULL AND {value} IS NULL)"
    return when(f"NOT {inexact}", f"transform({texts}, each -> {value})")


def _decoded(column: Column) -> bool:
    """Whether a value's text has to be computed from its JSON."""
    return column.encoding in (MICROS, VARIABLE_DECIMAL, DECIMAL_BASE64)


def _string(text: str, column: Column) -> str:
    if column.encoding == VARIABLE_DECIMAL:
        return variable_decimal_text(text)
    if column.encoding == DECIMAL_BASE64:
        return when(f"{text} = 'NaN'", text, _digits(text, column))
    # microseconds of time and timetz, which Delta and Iceberg have no type for
    return time_of_day(f"try_cast({text} AS bigint)", "+00" if column.type_name == "timetz" else "")


def _digits(text: str, column: Column) -> str:
    return declared_decimal_text(text, declared_scale(column.type_modifier))


def time_of_day(micros: str, zone: str = "") -> str:
    """The time of day as Postgres prints it, 14:54:02.5, from microseconds since midnight."""
    parts = [f"{micros} div 3600000000", f"{micros} div 60000000 % 60", f"{micros} div 1000000 % 60"]
    whole = ", ".join(f"lpad(CAST({part} AS string), 2, '0')" for part in parts)
    fraction = f"trim(TRAILING '0' FROM lpad(CAST({micros} % 1000000 AS string), 6, '0'))"
    point = when(f"{fraction} != ''", f"concat('.', {fraction})", "''")
    return when(f"{micros} IS NOT NULL", f"concat(concat_ws(':', {whole}), {point}, '{zone}')")


def _temporal(text: str, encoding: str, to: DataType) -> str:
    if encoding == EPOCH_DAYS:
        return f"date_from_unix_date(try_cast({text} AS int))"
    if encoding == MICROS and isinstance(to, TimestampType):
        return f"timestamp_micros(try_cast({text} AS bigint))"
    if encoding == MICROS:
        return local_timestamp(f"try_cast({text} AS bigint)")
    # A cast ignores what follows the date: the mark BC, and all that a value of another, later type has.
    if isinstance(to, TimestampType):
        form = f"endswith({text}, 'Z')"
    elif isinstance(to, DateType):
        form = f"NOT (contains({text}, 'T') OR endswith({text}, 'BC'))"
    else:
        form = f"contains({text}, 'T') AND NOT (endswith({text}, 'Z') OR endswith({text}, 'BC'))"
    return when(form, f"try_cast({text} AS {sql_type(to)})")


def local_timestamp(micros: str) -> str:
    """The timestamp so many microseconds after 1970, whatever the session's time zone."""
    within = f"pmod({micros}, {_DAY_US})"
    days = f"CAST(({micros} - {within}) div {_DAY_US} AS int)"
    seconds = f"CAST(CAST({within} AS decimal(18,0)) / 1000000 AS decimal(18,6))"
    return f"(CAST('1970-01-01' AS timestamp_ntz) + make_dt_interval({days}, 0, 0, {seconds}))"
